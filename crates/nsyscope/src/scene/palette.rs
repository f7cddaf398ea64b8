//! The colours of categories: the same in every picture and on every page.
//!
//! The families that fill a step have the eight colours of Okabe and Ito ("Color Universal
//! Design", 2008), which people with any common colour vision deficiency tell apart. Families
//! that are rare or short get darker or greyer ones; no two neighbours in a legend are alike.

/// A colour: red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Families of categories and their colours, in the order of legends.
pub const FAMILIES: [(&str, Rgb); 29] = [
    ("comm", (0xd5, 0x5e, 0x00)),
    ("moe", (0x00, 0x72, 0xb2)),
    ("gemm", (0x56, 0xb4, 0xe9)),
    ("attention", (0x00, 0x9e, 0x73)),
    ("linear_attention", (0x7a, 0xc7, 0x8a)),
    ("kv_cache", (0x11, 0x6e, 0x6e)),
    ("norm", (0xf0, 0xe4, 0x42)),
    ("activation", (0xe6, 0x9f, 0x00)),
    ("quant", (0xcc, 0x79, 0xa7)),
    ("rope", (0x99, 0x99, 0x33)),
    ("elementwise", (0xa5, 0x7c, 0x5a)),
    ("reduce", (0x7d, 0x5c, 0x43)),
    ("index", (0xc2, 0xa3, 0x86)),
    ("copy", (0xb3, 0x9d, 0xdb)),
    ("fill", (0xd3, 0xc6, 0xea)),
    ("sort", (0x6b, 0x8e, 0x23)),
    ("embedding", (0x4c, 0x9a, 0x9a)),
    ("sampling", (0x88, 0x22, 0x55)),
    ("spec_decode", (0xaa, 0x44, 0x77)),
    ("conv", (0x5b, 0x4b, 0xb5)),
    ("lora", (0x33, 0x66, 0xcc)),
    ("mhc", (0x99, 0x44, 0x22)),
    ("weight_prep", (0x8a, 0x8f, 0x98)),
    ("metadata", (0x9e, 0xa8, 0xb3)),
    ("other", (0xb0, 0xb0, 0xb0)),
    ("memory", (0x8f, 0x63, 0xb8)),
    ("graph", (0x5f, 0x7d, 0x95)),
    ("unclassified", (0x7a, 0x7a, 0x7a)),
    ("idle", (0xdd, 0xe1, 0xe6)),
];

/// The colours of a picture or page that are no category's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// The ground.
    pub page: Rgb,
    /// Where something is drawn on.
    pub panel: Rgb,
    /// Text.
    pub text: Rgb,
    /// Text of less weight.
    pub muted: Rgb,
    /// Grids and borders.
    pub line: Rgb,
    /// Lines that matter.
    pub strong: Rgb,
    /// Nothing runs.
    pub idle: Rgb,
}

impl Ink {
    /// On white.
    pub const LIGHT: Self = Self {
        page: (0xff, 0xff, 0xff),
        panel: (0xf4, 0xf5, 0xf7),
        text: (0x1b, 0x1f, 0x24),
        muted: (0x57, 0x60, 0x6a),
        line: (0xc8, 0xcd, 0xd3),
        strong: (0x33, 0x3a, 0x42),
        idle: (0xdd, 0xe1, 0xe6),
    };
    /// On near black.
    pub const DARK: Self = Self {
        page: (0x12, 0x15, 0x1a),
        panel: (0x1c, 0x21, 0x28),
        text: (0xe6, 0xea, 0xee),
        muted: (0x9d, 0xa7, 0xb3),
        line: (0x3b, 0x43, 0x4d),
        strong: (0xc2, 0xca, 0xd2),
        idle: (0x3a, 0x42, 0x4c),
    };

    /// Its colours by name.
    pub fn named(&self) -> [(&'static str, Rgb); 7] {
        [
            ("page", self.page),
            ("panel", self.panel),
            ("text", self.text),
            ("muted", self.muted),
            ("line", self.line),
            ("strong", self.strong),
            ("idle", self.idle),
        ]
    }

    /// The colour of a category or, for `idle`, of nothing running.
    pub fn of(&self, category: &str) -> Rgb {
        if family(category) == "idle" { self.idle } else { color(category) }
    }
}

/// `#rrggbb`.
pub fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The family of a category written `family/kind`.
pub fn family(category: &str) -> &str {
    category.split_once('/').map_or(category, |(family, _)| family)
}

/// The colour of a category, which is that of its family; a family that user rules name and this
/// table does not has the colour of `other`.
pub fn color(category: &str) -> Rgb {
    let family = family(category);
    let of = |wanted: &str| FAMILIES.iter().find(|(name, _)| *name == wanted).map(|(_, rgb)| *rgb);
    of(family).or_else(|| of("other")).unwrap_or((0xb0, 0xb0, 0xb0))
}

/// Where a family stands in legends and stacks; families of user rules come after the known ones,
/// idle is last.
pub fn order(family: &str) -> usize {
    match family {
        "idle" => FAMILIES.len() + 1,
        _ => FAMILIES.iter().position(|(name, _)| *name == family).unwrap_or(FAMILIES.len()),
    }
}

/// Relative luminance by WCAG 2, 0..1.
pub fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// The contrast of two colours by WCAG 2, 1..21; text needs 4.5.
pub fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Black or white, whichever is easier to read on a colour.
pub fn ink_on(color: Rgb) -> Rgb {
    let (black, white) = ((0x00, 0x00, 0x00), (0xff, 0xff, 0xff));
    if contrast(color, black) >= contrast(color, white) { black } else { white }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colour as people with a deficiency see it (Machado, Oliveira and Fernandes 2009, full
    /// severity), in CIELAB.
    fn seen(rgb: Rgb, matrix: &[[f64; 3]; 3]) -> [f64; 3] {
        let linear = |v: u8| {
            let v = f64::from(v) / 255.0;
            if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        };
        let from = [linear(rgb.0), linear(rgb.1), linear(rgb.2)];
        let rgb =
            [0, 1, 2].map(|i| (0..3).map(|j| matrix[i][j] * from[j]).sum::<f64>().clamp(0.0, 1.0));
        let to_xyz = [
            [0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505],
            [0.2126, 0.7152, 0.0722],
            [0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089],
        ];
        let root = to_xyz.map(|row| {
            let t: f64 = row.iter().zip(rgb).map(|(weight, value)| weight * value).sum();
            if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 }
        });
        [116.0 * root[1] - 16.0, 500.0 * (root[0] - root[1]), 200.0 * (root[1] - root[2])]
    }

    #[test]
    fn families_that_fill_steps_differ_for_every_eye() {
        let eyes = [
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ];
        let main = ["comm", "moe", "gemm", "attention", "norm", "activation", "quant", "idle"];
        for eye in &eyes {
            for (i, a) in main.iter().enumerate() {
                for b in &main[i + 1..] {
                    let (one, other) = (seen(color(a), eye), seen(color(b), eye));
                    let distance: f64 =
                        one.iter().zip(other).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
                    assert!(distance > 10.0, "{a} and {b} look alike: {distance:.1}");
                }
            }
        }
    }

    #[test]
    fn text_on_every_family_can_be_read() {
        for (family, rgb) in FAMILIES {
            assert!(contrast(rgb, ink_on(rgb)) >= 4.5, "{family}");
        }
        assert_eq!(color("comm/all_reduce"), color("comm"));
        assert_eq!(color("mine/own"), color("other"));
        assert!(order("idle") > order("mine"));
    }
}
