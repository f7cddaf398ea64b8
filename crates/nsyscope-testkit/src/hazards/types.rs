//! Tables of the right name with something else inside.

use super::fixtures::{hazard, plain, plain_truth};
use super::{Hazard, Truth};
use crate::error::Result;
use crate::schema::Schema;

const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

/// Kernel times, device and process declared TEXT, so that they are digits.
///
/// # Errors
///
/// If the file cannot be written.
pub fn integers_as_text() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    for column in ["start", "end", "deviceId", "globalPid", "demangledName", "gridX"] {
        db.declare_column(KERNEL, column, "TEXT");
    }
    hazard("integers_as_text", &db, plain_truth())
}

/// Kernel times and ids declared REAL, so that they are floats of whole value.
///
/// # Errors
///
/// If the file cannot be written.
pub fn integers_as_real() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    for column in ["start", "end", "streamId", "correlationId", "demangledName"] {
        db.declare_column(KERNEL, column, "REAL");
    }
    hazard("integers_as_real", &db, plain_truth())
}

/// Two kernels whose start is no number, and two whose grid, correlation id and
/// short name are none. The first two cannot be placed in time; the others can.
///
/// # Errors
///
/// If the file cannot be written.
pub fn garbage_in_integer_columns() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.launch_kernel(s, "bad start", 200_000, 200_100, 210_000, 214_000);
    db.launch_kernel(s, "bad start", 200_200, 200_300, 220_000, 224_000);
    db.raw_sql(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'n/a' WHERE rowid = 11;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = x'00ff' WHERE rowid = 12;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'many', blockX = 1.5 WHERE rowid = 1;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = '', shortName = '?' WHERE rowid = 2",
    );
    let truth = Truth { set_apart: 2, launches: 12, ..plain_truth() };
    hazard("garbage_in_integer_columns", &db, truth)
}

/// Kernels, API rows and strings behind views, so that they have no row ids.
///
/// # Errors
///
/// If the file cannot be written.
pub fn views_instead_of_tables() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    for table in [KERNEL, "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"] {
        db.raw_sql(format!(
            "ALTER TABLE {table} RENAME TO kept_{table};
             CREATE VIEW {table} AS SELECT * FROM kept_{table}"
        ));
    }
    hazard("views_instead_of_tables", &db, plain_truth())
}

/// Tables that another tool rewrote: kernel columns in reverse order, text
/// columns added to kernels and API rows, a table of its own.
///
/// # Errors
///
/// If the file cannot be written.
pub fn extra_and_reordered_columns() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2022_1);
    db.raw_sql(format!(
        "CREATE TABLE rewritten AS SELECT 'gemm' AS kernel_name, gridX, shortName, demangledName, \
         globalPid, correlationId, streamId, contextId, deviceId, \"end\", start, \
         'long name' AS long_kernel_name FROM {KERNEL};
         DROP TABLE {KERNEL}; ALTER TABLE rewritten RENAME TO {KERNEL};
         ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN cuda_name TEXT;
         CREATE TABLE SystemInfo (name TEXT, value TEXT)"
    ));
    hazard("extra_and_reordered_columns", &db, Truth { ..plain_truth() })
}
