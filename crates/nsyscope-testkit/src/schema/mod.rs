//! Which tables and columns each nsys version exports.

mod column;
pub(crate) mod enums;

pub(crate) use column::{Cell, Column, Table, Ty, col};

/// A release of nsys whose export is imitated.
///
/// Tables and columns are exactly those that exports of that release were seen
/// to have; variants are ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schema {
    /// 2020.3: no metadata table, no `PROCESSES`, no `TARGET_INFO_GPU`, 25 kernel columns.
    V2020_3,
    /// 2020.5: a first `TARGET_INFO_GPU` with five columns.
    V2020_5,
    /// 2022.1, schema 2.9.1: `EXPORT_META_DATA`, `PROCESSES`, mangled kernel names.
    V2022_1,
    /// 2022.4, schema 3.0.0: `ENUM_*` tables, one of them misspelt.
    V2022_4,
    /// 2023.4, schema 3.7.2: `META_DATA_EXPORT` and `META_DATA_CAPTURE`, green contexts.
    V2023_4,
    /// 2024.6, schema 3.16.1: `DIAGNOSTIC_EVENT`, whole-graph rows, graph ids.
    V2024_6,
    /// 2025.3, schema 3.20.3: `TARGET_INFO_CUDA_DEVICE`, `copyCount`.
    V2025_3,
    /// 2025.5, schema 3.23.3: `graphId` and clusters in the kernel table.
    V2025_5,
    /// 2026.1, schema 3.24.14.
    V2026_1,
    /// 2026.2, schema 3.25.0: a text column in the kernel table.
    V2026_2,
}

impl Schema {
    /// Every preset, oldest first.
    pub const ALL: [Self; 10] = [
        Self::V2020_3,
        Self::V2020_5,
        Self::V2022_1,
        Self::V2022_4,
        Self::V2023_4,
        Self::V2024_6,
        Self::V2025_3,
        Self::V2025_5,
        Self::V2026_1,
        Self::V2026_2,
    ];

    /// `EXPORT_PRODUCT_VERSION`, four parts.
    pub const fn product_version(self) -> &'static str {
        match self {
            Self::V2020_3 => "2020.3.4.32",
            Self::V2020_5 => "2020.5.1.85",
            Self::V2022_1 => "2022.1.3.3",
            Self::V2022_4 => "2022.4.2.1",
            Self::V2023_4 => "2023.4.4.54",
            Self::V2024_6 => "2024.6.2.225",
            Self::V2025_3 => "2025.3.2.474",
            Self::V2025_5 => "2025.5.1.121",
            Self::V2026_1 => "2026.1.1.204",
            Self::V2026_2 => "2026.2.1.210",
        }
    }

    /// `EXPORT_SCHEMA_VERSION`; the two oldest have none.
    pub const fn schema_version(self) -> Option<&'static str> {
        match self {
            Self::V2020_3 | Self::V2020_5 => None,
            Self::V2022_1 => Some("2.9.1"),
            Self::V2022_4 => Some("3.0.0"),
            Self::V2023_4 => Some("3.7.2"),
            Self::V2024_6 => Some("3.16.1"),
            Self::V2025_3 => Some("3.20.3"),
            Self::V2025_5 => Some("3.23.3"),
            Self::V2026_1 => Some("3.24.14"),
            Self::V2026_2 => Some("3.25.0"),
        }
    }

    /// The metadata key that says whether the export was lazy.
    pub(crate) const fn lazy_key(self) -> &'static str {
        // The short key lasted until some release between 2022.4 and 2023.1.
        if (self as u8) < (Self::V2023_4 as u8) { "EXPORT_LAZY" } else { "EXPORT_PARAM_LAZY" }
    }
}
