//! `nsyscope export`: files for other tools, whole or not at all.

mod common;

use common::{fixture, listing, run};

fn words(more: &[&str]) -> Vec<std::ffi::OsString> {
    let mut words = vec!["export".into(), fixture("c1_tp2").into_os_string()];
    words.extend(more.iter().map(std::ffi::OsString::from));
    words
}

#[test]
fn a_trace_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let path = path.to_str().unwrap();
    assert_eq!(run(words(&["--to", "perfetto", "-o", path])).answer(), "");
    let bytes = std::fs::read(path).unwrap();
    // The first packet: field 1, and in it the sequence's number.
    assert_eq!((bytes[0], bytes[2], bytes[3]), (0x0a, 0x50, 1));
    let mut kernels = 0;
    let name = b"all_reduce";
    for window in bytes.windows(name.len()) {
        kernels += usize::from(window == name);
    }
    assert!(kernels > 0, "the categories are in it");
    assert_eq!(listing(folder.path()).len(), 1, "nothing else is left there");
}

#[test]
fn what_cannot_be_exported_is_said_before_a_capture_is_read() {
    let missing = |more: &[&str]| {
        let mut words: Vec<std::ffi::OsString> = vec!["export".into(), "missing.sqlite".into()];
        words.extend(more.iter().map(std::ffi::OsString::from));
        words
    };
    let (error, hint) = run(missing(&["--to", "perfetto"])).refusal();
    assert!(error.contains("where to is not said"), "{error}");
    assert!(hint.contains("-o"), "{hint}");
    let table = ["--to", "perfetto", "--table", "steps", "-o", "run.pftrace"];
    let (error, _) = run(missing(&table)).refusal();
    assert!(error.contains("a trace for Perfetto has none"), "{error}");
}

#[cfg(not(feature = "frames"))]
#[test]
fn without_tables_the_way_to_them_is_said() {
    for format in ["parquet", "ipc", "csv"] {
        let (error, hint) = run(words(&["--to", format, "-o", "tables/"])).refusal();
        assert!(error.contains("built without tables"), "{error}");
        assert!(hint.contains("--features frames"), "{hint}");
    }
}

#[cfg(feature = "frames")]
mod tables {
    use super::*;

    #[test]
    fn a_folder_gets_a_file_a_table() {
        let folder = tempfile::tempdir().unwrap();
        for (format, ending) in [("parquet", "parquet"), ("ipc", "arrow"), ("csv", "csv")] {
            let path = folder.path().join(format);
            assert_eq!(run(words(&["--to", format, "-o", path.to_str().unwrap()])).answer(), "");
            let expected =
                ["collectives", "kernels", "steps"].map(|name| format!("{name}.{ending}"));
            assert_eq!(listing(&path), expected);
        }
        let csv = std::fs::read_to_string(folder.path().join("csv/steps.csv")).unwrap();
        assert!(csv.starts_with("rank,index,phase,tokens,"), "{csv}");
    }

    #[test]
    fn a_file_gets_one_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.csv");
        let path = path.to_str().unwrap();
        let (error, hint) = run(words(&["--to", "csv", "-o", path])).refusal();
        assert!(error.contains("3 tables do not go into one file"), "{error}");
        assert!(hint.contains("--table"), "{hint}");
        let (error, _) = run(words(&["--to", "csv", "--table", "ops", "-o", path])).refusal();
        assert!(error.contains("without a model there are no operations"), "{error}");
        assert_eq!(run(words(&["--to", "csv", "--table", "steps", "-o", path])).answer(), "");
        assert_eq!(listing(folder.path()), ["some.csv"]);
    }
}
