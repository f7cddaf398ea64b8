//! What is written is what is read back, and what the library hands out.

use std::io::Cursor;
use std::path::Path;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::model;
use nsyscope::report::{ModelContext, Report, ReportOptions};
use nsyscope::tables::{Annotated, TableKind, Values};
use nsyscope_frames::polars::prelude::*;
use nsyscope_frames::{FileFormat, data_frame, write};
use nsyscope_testkit::fixtures;

fn options(with_model: bool) -> ReportOptions {
    let config =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/kimi-k2.5-like.json");
    let options = ReportOptions::new();
    if with_model {
        options.model(ModelContext::new(model::load(&config).unwrap()))
    } else {
        options
    }
}

/// Captures of several kinds: eager, graphs by node and as a whole, several ranks, with a model.
fn runs() -> Vec<(&'static str, Run, ReportOptions)> {
    ["b1_graph_node", "b2_graph_level", "c1_tp2", "d5_qwen_compiled", "kimi_tp8_decode"]
        .into_iter()
        .map(|name| {
            let run = Run::open([fixtures::path(name)], &OpenOptions::new()).unwrap();
            (name, run, options(name == "kimi_tp8_decode"))
        })
        .collect()
}

fn bytes(all: &Annotated<'_>, table: TableKind, format: FileFormat) -> (u64, Vec<u8>) {
    let mut out = Vec::new();
    let rows = write(all, table, format, &mut out).unwrap();
    (rows, out)
}

#[test]
fn files_read_back_as_the_tables_they_were() {
    for (name, run, options) in runs() {
        let all = Annotated::new(&run, &Classifier::builtin(), &options).unwrap();
        for table in TableKind::ALL {
            let frame = data_frame(&all, table).unwrap();
            let what = format!("{name}: {}", table.as_str());
            let (rows, file) = bytes(&all, table, FileFormat::Parquet);
            assert_eq!(rows as usize, frame.height(), "{what}");
            let read = ParquetReader::new(Cursor::new(&file)).finish().unwrap();
            assert!(read.equals_missing(&frame), "{what}: Parquet");
            assert_eq!(read.schema(), frame.schema(), "{what}: Parquet");
            assert_eq!(file, bytes(&all, table, FileFormat::Parquet).1, "{what}: the same bytes");

            let (_, file) = bytes(&all, table, FileFormat::Ipc);
            let read = IpcReader::new(Cursor::new(&file)).finish().unwrap();
            assert!(read.equals_missing(&frame), "{what}: IPC");

            let (_, file) = bytes(&all, table, FileFormat::Csv);
            let read = CsvReadOptions::default()
                .with_schema(Some(frame.schema().clone()))
                .into_reader_with_file_handle(Cursor::new(&file))
                .finish()
                .unwrap();
            assert!(read.equals_missing(&frame), "{what}: CSV");
        }
    }
}

/// The frame holds the columns' own values, compared without polars' help.
#[test]
fn frames_hold_what_the_columns_hold() {
    for (name, run, options) in runs() {
        let all = Annotated::new(&run, &Classifier::builtin(), &options).unwrap();
        let frame = data_frame(&all, TableKind::Kernels).unwrap();
        let (_, file) = bytes(&all, TableKind::Kernels, FileFormat::Parquet);
        let read = ParquetReader::new(Cursor::new(&file)).finish().unwrap();
        let mut row = 0;
        for part in all.kernels() {
            for (info, values) in part.iter() {
                for frame in [&frame, &read] {
                    let column = frame.column(info.name).unwrap().as_materialized_series();
                    for i in 0..part.len() {
                        let value = column.get(row + i).unwrap();
                        let alike = match values {
                            Values::U32(v) => {
                                v[i].map_or(AnyValue::Null, AnyValue::UInt32) == value
                            }
                            Values::U64(v) => {
                                v[i].map_or(AnyValue::Null, AnyValue::UInt64) == value
                            }
                            Values::I64(v) => v[i].map_or(AnyValue::Null, AnyValue::Int64) == value,
                            Values::F64(v) => {
                                v[i].map_or(AnyValue::Null, AnyValue::Float64) == value
                            }
                            Values::Bool(v) => {
                                v[i].map_or(AnyValue::Null, AnyValue::Boolean) == value
                            }
                            Values::Text(texts) => texts.get(i) == value.get_str(),
                        };
                        assert!(alike, "{name}: {} of row {}", info.name, row + i);
                    }
                }
            }
            row += part.len();
        }
        assert_eq!((row, row), (frame.height(), read.height()));
    }
}

#[test]
fn sums_are_those_of_the_report() {
    for (name, run, options) in runs() {
        let classifier = Classifier::builtin();
        let report = Report::new(&run, &classifier, &options).unwrap();
        let all = Annotated::new(&run, &classifier, &options).unwrap();
        let kernels = data_frame(&all, TableKind::Kernels).unwrap();
        let sum = |frame: &DataFrame, column: &str| {
            frame.column(column).unwrap().i64().unwrap().sum().unwrap_or(0)
        };
        let busy: i64 = report.rank_breakdown.iter().map(|row| row.busy_ns).sum();
        assert_eq!(sum(&kernels, "end_ns") - sum(&kernels, "start_ns"), busy, "{name}");
        let calls: u64 = report.rank_breakdown.iter().map(|row| row.calls).sum();
        assert_eq!(kernels.height() as u64, calls, "{name}");
        let collectives = data_frame(&all, TableKind::Collectives).unwrap();
        let waits: i64 = report.collectives.iter().filter_map(|section| section.row.wait_ns).sum();
        assert_eq!(sum(&collectives, "wait_ns"), waits, "{name}");
        let ops = data_frame(&all, TableKind::Ops).unwrap();
        let time: i64 = report.ops.iter().flatten().map(|op| op.time_ns).sum();
        assert_eq!(sum(&ops, "time_ns"), time, "{name}");
    }
}
