//! Each preset's columns against a real export of that release, where one is at hand.

use std::path::{Path, PathBuf};

use nsyscope_testkit::{CaptureBuilder, Schema, TempCapture};
use rusqlite::Connection;

/// Real captures by release. 2022.1, 2022.4 and 2023.4 are missing: the only
/// files at hand were extended by other tools or exported by another release.
const REAL: &[(Schema, &str)] = &[
    (Schema::V2020_3, "public/beast_2020.3.4.sqlite.zst"),
    (Schema::V2020_5, "public/kmeans_2020.5.1.sqlite.zst"),
    (Schema::V2024_6, "public/h100_2024.6.2.sqlite.zst"),
    (Schema::V2025_3, "captures/B2_graph_graph/B2_graph_graph.sqlite.zst"),
    (Schema::V2025_3, "captures/B1_graph_node/B1_graph_node.sqlite.zst"),
    (Schema::V2025_5, "public/rtx3090_2025.5.1.sqlite.zst"),
    (Schema::V2026_1, "public/wsl_2026.1.sqlite.zst"),
    (Schema::V2026_2, "public/mfu_2gpu_before_2026.2.sqlite.zst"),
];

/// The folder of captures that are too large, or not ours, to keep here.
fn shared() -> PathBuf {
    std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    )
}

/// Name, type and NOT NULL of each column, in order.
fn columns(db: &Connection, table: &str) -> Vec<(String, String, bool)> {
    let mut statement = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
    let rows = statement.query_map([], |r| Ok((r.get(1)?, r.get(2)?, r.get(3)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn presets_have_the_columns_of_real_exports() {
    for (schema, file) in REAL {
        let path = shared().join(file);
        if !path.exists() {
            println!("skipped: {} absent", path.display());
            continue;
        }
        let real = TempCapture::from_zst(&path).unwrap();
        let real = Connection::open(real.path()).unwrap();
        let ours = CaptureBuilder::new(*schema).non_lazy().write().unwrap();
        let ours = Connection::open(ours.path()).unwrap();

        let mut tables =
            ours.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").unwrap();
        let tables: Vec<String> =
            tables.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
        let mut compared = 0;
        for table in tables {
            let expected = columns(&real, &table);
            if expected.is_empty() {
                continue; // the real export is lazy and had no such rows
            }
            assert_eq!(columns(&ours, &table), expected, "{table} of {file}");
            compared += 1;
        }
        assert!(compared >= 9, "{file}: only {compared} tables in common");
    }
}
