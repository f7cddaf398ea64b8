//! How pictures look, whatever they show.

pub(crate) use nsyscope::scene::palette::Ink;

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white, for paper and light pages.
    #[default]
    Light,
    /// Light on near black.
    Dark,
}

/// The size and look of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// In pixels.
    pub(crate) width: u32,
    /// In pixels; `None`: what the content needs.
    pub(crate) height: Option<u32>,
    /// Light or dark.
    pub(crate) theme: Theme,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 1100, height: None, theme: Theme::Light }
    }
}

/// The least and most pixels a side that a picture may have.
const SIDES: std::ops::RangeInclusive<u32> = 320..=16_384;

impl Style {
    /// 1100 pixels wide, as high as the content needs, light.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the width, at least 320 pixels and at most 16384.
    #[must_use]
    pub fn width(mut self, width: u32) -> Self {
        self.width = width.clamp(*SIDES.start(), *SIDES.end());
        self
    }

    /// Sets the height; charts that need more to be readable take more.
    #[must_use]
    pub fn height(mut self, height: Option<u32>) -> Self {
        self.height = height.map(|height| height.clamp(120, *SIDES.end()));
        self
    }

    /// Sets light or dark.
    #[must_use]
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = theme;
        self
    }

    /// The bins that a timeline of this width can show: one a pixel.
    pub fn bins(&self) -> usize {
        (self.width as usize).saturating_sub(crate::chart::GUTTERS as usize).max(100)
    }

    pub(crate) fn ink(&self) -> Ink {
        match self.theme {
            Theme::Light => Ink::LIGHT,
            Theme::Dark => Ink::DARK,
        }
    }
}

#[cfg(test)]
mod tests {
    use nsyscope::scene::palette;

    use super::*;

    #[test]
    fn text_can_be_read_on_both_themes() {
        for theme in [Theme::Light, Theme::Dark] {
            let ink = Style::new().theme(theme).ink();
            for ground in [ink.page, ink.panel] {
                for text in [ink.text, ink.muted] {
                    assert!(palette::contrast(text, ground) >= 4.5, "{theme:?}");
                }
            }
        }
    }
}
