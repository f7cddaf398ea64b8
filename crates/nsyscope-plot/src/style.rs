//! How pictures look, whatever they show.

use nsyscope::scene::palette::{self, Rgb};

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
            Theme::Light => Ink {
                page: (0xff, 0xff, 0xff),
                panel: (0xf4, 0xf5, 0xf7),
                text: (0x1b, 0x1f, 0x24),
                muted: (0x57, 0x60, 0x6a),
                line: (0xc8, 0xcd, 0xd3),
                strong: (0x33, 0x3a, 0x42),
                idle: palette::color("idle"),
            },
            Theme::Dark => Ink {
                page: (0x12, 0x15, 0x1a),
                panel: (0x1c, 0x21, 0x28),
                text: (0xe6, 0xea, 0xee),
                muted: (0x9d, 0xa7, 0xb3),
                line: (0x3b, 0x43, 0x4d),
                strong: (0xc2, 0xca, 0xd2),
                idle: (0x3a, 0x42, 0x4c),
            },
        }
    }
}

/// The colours that are not a category's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink {
    pub(crate) page: Rgb,
    pub(crate) panel: Rgb,
    pub(crate) text: Rgb,
    pub(crate) muted: Rgb,
    pub(crate) line: Rgb,
    pub(crate) strong: Rgb,
    pub(crate) idle: Rgb,
}

impl Ink {
    /// The colour of a category or, for `idle`, of nothing running.
    pub(crate) fn of(&self, category: &str) -> Rgb {
        if palette::family(category) == "idle" { self.idle } else { palette::color(category) }
    }
}

#[cfg(test)]
mod tests {
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
