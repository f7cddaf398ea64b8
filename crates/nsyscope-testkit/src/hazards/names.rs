//! Names that are missing, misleading or meant to do harm.

use super::fixtures::{PID, hazard, plain, plain_truth};
use super::{DeviceTruth, Hazard, Truth};
use crate::builder::CaptureBuilder;
use crate::error::Result;
use crate::ids::Name;
use crate::rows::Gpu;
use crate::schema::Schema;

/// Three kernels and two launches whose name ids are in no `StringIds` row. An
/// inner join loses them; they count like any other.
///
/// # Errors
///
/// If the file cannot be written.
pub fn dangling_names() -> Result<Hazard> {
    let (mut db, _) = plain(Schema::V2025_3);
    db.raw_sql(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 987654 WHERE rowid <= 2;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = -3, shortName = -3 WHERE rowid = 3",
    );
    hazard("dangling_names", &db, plain_truth())
}

/// One kernel whose names are NULL, and one whose `StringIds` value is NULL.
///
/// # Errors
///
/// If the file cannot be written.
pub fn null_names() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.without_constraints();
    db.launch_kernel(s, Name::Null, 185_000, 185_100, 200_000, 204_000);
    db.launch_kernel(s, "nameless", 195_000, 195_100, 210_000, 214_000);
    db.raw_sql("UPDATE StringIds SET value = NULL WHERE value = 'nameless'");
    let truth = Truth {
        kernels: 12,
        kernel_ns: 48_000,
        launches: 12,
        devices: vec![DeviceTruth::new(PID, 0, 114_000, 48_000)],
        ..Truth::default()
    };
    hazard("null_names", &db, truth)
}

/// Names that attack a terminal, a page, a table or memory. Whatever prints
/// them must not clear the screen, close a tag, start a formula or fill a line.
pub(super) fn hostile() -> Vec<String> {
    vec![
        // Clears the screen, sets the window's title, rings the bell.
        "\x1b[2J\x1b]0;owned\x07void gemm()".into(),
        // The 8-bit form of the same introducer.
        "\u{9b}31mvoid red()".into(),
        "line one\nline two\r\tcolumn".into(),
        // Reverses what follows.
        "void \u{202e}gnidaelsim()".into(),
        "</script><script>alert(1)</script>".into(),
        "<img src=x onerror=alert(1)> & \"quotes\" 'n' |pipes| `ticks`".into(),
        "=HYPERLINK(\"http://example.invalid\")".into(),
        "nul\0byte".into(),
        String::new(),
        " ".into(),
        "\u{feff}\u{200b}zero width".into(),
        "k".repeat(300_000),
        format!("void {}int{}()", "t<".repeat(20_000), ">".repeat(20_000)),
    ]
}

/// Kernels, an NVTX range, a GPU and a process with hostile names: escape
/// sequences, markup, a NUL, 300 kB, nesting 20,000 deep, nothing at all.
///
/// Thirteen kernels of 4 µs every 10 µs.
///
/// # Errors
///
/// If the file cannot be written.
pub fn hostile_names() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    let names = hostile();
    db.gpu(Gpu::named(0, &names[0]));
    let process = db.process(PID, &names[4]);
    let s = db.stream(process, 0, 1, 7);
    for (i, name) in names.iter().enumerate() {
        let start = 100_000 + i as i64 * 10_000;
        db.launch_kernel(s, name, start - 9_000, start - 8_000, start, start + 4_000);
        db.nvtx_push_pop(process.main_thread(), name, start - 9_500, start + 400);
    }
    db.metadata_capture("PROCESS_0:COMMAND", &names[0]);
    let truth = Truth {
        kernels: 13,
        kernel_ns: 52_000,
        launches: 13,
        devices: vec![DeviceTruth::new(PID, 0, 124_000, 52_000)],
        ..Truth::default()
    };
    hazard("hostile_names", &db, truth)
}

/// A name that is TEXT but not UTF-8, and one that is a BLOB.
///
/// # Errors
///
/// If the file cannot be written.
pub fn invalid_utf8() -> Result<Hazard> {
    let (mut db, s) = plain(Schema::V2025_3);
    db.launch_kernel(s, "latin", 185_000, 185_100, 200_000, 204_000);
    db.launch_kernel(s, "blob", 195_000, 195_100, 210_000, 214_000);
    db.raw_sql(
        "UPDATE StringIds SET value = CAST(x'766f6964ff28fe29' AS TEXT) WHERE value = 'latin';
         UPDATE StringIds SET value = x'00ff00ff' WHERE value = 'blob'",
    );
    let truth = Truth {
        kernels: 12,
        kernel_ns: 48_000,
        launches: 12,
        devices: vec![DeviceTruth::new(PID, 0, 114_000, 48_000)],
        ..Truth::default()
    };
    hazard("invalid_utf8", &db, truth)
}

/// Three kernels that share the short name `device_kernel` and are a GEMM, an
/// attention and a grouped GEMM by their demangled names, 1, 2 and 3 µs long.
///
/// # Errors
///
/// If the file cannot be written.
pub fn short_names_lie() -> Result<Hazard> {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(PID, "python");
    let s = db.stream(process, 0, 1, 7);
    let names = [
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, \
         int, int>, cutlass::gemm::collective::CollectiveMma<MainloopSm90TmaGmma>>>(T1::Params)",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<\
         flash::CollectiveMainloopFwdSm90>>>(T1::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<\
         cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>, \
         cutlass::gemm::collective::CollectiveMma<MainloopSm90ArrayTmaGmma>>>(T1::Params)",
    ];
    for (i, name) in (0..).zip(names) {
        let start = 100_000 + i * 10_000;
        let end = start + 1_000 * (i + 1);
        db.launch_kernel(s, name, start - 9_000, start - 8_000, start, end)
            .short_name("device_kernel");
    }
    let truth = Truth {
        kernels: 3,
        kernel_ns: 6_000,
        launches: 3,
        devices: vec![DeviceTruth::new(PID, 0, 23_000, 6_000)],
        ..Truth::default()
    };
    hazard("short_names_lie", &db, truth)
}
