//! Each hazard's stated truth against a plain reading of its file.
//!
//! The reader here shares nothing with the builder: it takes whatever columns it
//! finds, as text if need be, and applies the definitions of [`Truth`] row by row.

use std::collections::{BTreeMap, BTreeSet};

use nsyscope_testkit::TempCapture;
use nsyscope_testkit::hazards::{self, DeviceTruth, Truth};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags};

type Row = BTreeMap<String, Value>;
/// Start and end of what ran, by process and device.
type Intervals = BTreeMap<(Option<u32>, u32), Vec<(i64, i64)>>;

/// No kernel of these captures runs for a second.
const ABSURD_NS: i64 = 1_000_000_000;

fn open(capture: &TempCapture) -> Connection {
    Connection::open_with_flags(capture.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn rows(db: &Connection, table: &str) -> Vec<Row> {
    let Ok(mut statement) = db.prepare(&format!("SELECT * FROM {table}")) else {
        return Vec::new();
    };
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let read = statement.query_map([], |row| {
        names.iter().enumerate().map(|(i, n)| Ok((n.clone(), value(row.get_ref(i)?)))).collect()
    });
    read.unwrap().map(Result::unwrap).collect()
}

/// The value, with text that is not UTF-8 kept as bytes.
fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.to_vec()),
        },
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => Value::Integer(n),
        ValueRef::Real(x) => Value::Real(x),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn integer(row: &Row, column: &str) -> Option<i64> {
    match row.get(column)? {
        Value::Integer(n) => Some(*n),
        Value::Real(x) if x.fract() == 0.0 => Some(*x as i64),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn pid(row: &Row, column: &str) -> Option<u32> {
    integer(row, column).map(|id| (id >> 24) as u32 & 0xff_ffff)
}

/// Reads the definitions of `Truth` off the file.
fn measure(capture: &TempCapture) -> Truth {
    let db = open(capture);
    let names: BTreeMap<i64, String> = rows(&db, "StringIds")
        .iter()
        .filter_map(|r| match (integer(r, "id"), r.get("value")) {
            (Some(id), Some(Value::Text(text))) => Some((id, text.clone())),
            _ => None,
        })
        .collect();

    let mut launch_starts = BTreeMap::new();
    let mut launches = BTreeSet::new();
    for (i, call) in rows(&db, "CUPTI_ACTIVITY_KIND_RUNTIME").iter().enumerate() {
        let name = integer(call, "nameId").and_then(|id| names.get(&id)).map_or("", |s| s);
        let launch = ["cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch"];
        if launch.iter().any(|prefix| name.starts_with(prefix)) {
            let key = integer(call, "correlationId");
            let process = pid(call, "globalTid");
            if let (Some(key), Some(start)) = (key, integer(call, "start")) {
                launch_starts.entry((process, key)).or_insert(start);
            }
            // Without an id each row is a launch of its own.
            launches.insert((process, key, if key.is_none() { i } else { 0 }));
        }
    }

    let mut truth = Truth { launches: launches.len() as u64, ..Truth::default() };
    let mut intervals = Intervals::new();
    let mut add = |row: &Row, start: i64, end: i64| {
        let device = integer(row, "deviceId").unwrap() as u32;
        intervals.entry((pid(row, "globalPid"), device)).or_default().push((start, end));
    };
    for kernel in rows(&db, "CUPTI_ACTIVITY_KIND_KERNEL") {
        let launched = integer(&kernel, "correlationId")
            .and_then(|id| launch_starts.get(&(pid(&kernel, "globalPid"), id)));
        match (integer(&kernel, "start"), integer(&kernel, "end")) {
            (Some(start), Some(end))
                if (start, end) != (0, 0)
                    && end >= start
                    && end - start < ABSURD_NS
                    && launched.is_none_or(|launch| *launch <= start) =>
            {
                truth.kernels += 1;
                truth.kernel_ns += end - start;
                add(&kernel, start, end);
            }
            _ => truth.set_apart += 1,
        }
    }
    for table in ["MEMCPY", "MEMSET", "GRAPH_TRACE"] {
        for row in rows(&db, &format!("CUPTI_ACTIVITY_KIND_{table}")) {
            add(&row, integer(&row, "start").unwrap(), integer(&row, "end").unwrap());
        }
    }
    truth.devices = intervals
        .into_iter()
        .map(|((pid, device), mut spans)| {
            spans.sort_unstable();
            let mut busy_ns = 0;
            let mut reached = i64::MIN;
            for (start, end) in &spans {
                busy_ns += (end - reached.max(*start)).max(0);
                reached = reached.max(*end);
            }
            DeviceTruth { pid, device, span_ns: reached - spans[0].0, busy_ns }
        })
        .collect();
    truth
}

#[test]
fn every_truth_is_what_the_file_says() {
    for hazard in hazards::all().unwrap() {
        assert_eq!(measure(&hazard.capture), hazard.truth, "{}", hazard.name);
    }
}

#[test]
fn names_are_unique_and_those_of_the_functions() {
    let names: BTreeSet<&str> = hazards::all().unwrap().iter().map(|h| h.name).collect();
    assert_eq!(names.len(), hazards::all().unwrap().len());
    assert_eq!(hazards::short_names_lie().unwrap().name, "short_names_lie");
}

#[test]
fn unsorted_rows_are_unsorted() {
    let db = open(&hazards::unsorted_rows().unwrap().capture);
    let starts: Vec<i64> = rows(&db, "CUPTI_ACTIVITY_KIND_KERNEL")
        .iter()
        .map(|r| integer(r, "start").unwrap())
        .collect();
    assert!(!starts.is_sorted() && !starts.iter().rev().is_sorted());
}

#[test]
fn epoch_times_do_not_survive_a_float() {
    let hazard = hazards::epoch_timestamps().unwrap();
    let kernels = rows(&open(&hazard.capture), "CUPTI_ACTIVITY_KIND_KERNEL");
    let starts = kernels.iter().map(|r| integer(r, "start").unwrap());
    assert!(starts.clone().all(|t| t > 1 << 53));
    assert!(starts.filter(|t| *t as f64 as i64 != *t).count() >= 9);
}

#[test]
fn a_join_without_the_process_mixes_launches() {
    let hazard = hazards::shared_correlation_ids().unwrap();
    let db = open(&hazard.capture);
    let count = |on: &str| -> i64 {
        let sql = format!(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
             JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId {on}"
        );
        db.query_row(&sql, [], |r| r.get(0)).unwrap()
    };
    assert_eq!(count(""), 40);
    assert_eq!(count("AND k.globalPid = r.globalTid & ~0xFFFFFF"), 20);
}

#[test]
fn damaged_types_are_what_they_are_called() {
    let kind = |hazard: hazards::Hazard, column: &str, rowid: i64| -> String {
        let sql = format!(
            "SELECT typeof({column}) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = {rowid}"
        );
        open(&hazard.capture).query_row(&sql, [], |r| r.get(0)).unwrap()
    };
    assert_eq!(kind(hazards::integers_as_text().unwrap(), "start", 1), "text");
    assert_eq!(kind(hazards::integers_as_real().unwrap(), "start", 1), "real");
    let garbage = || hazards::garbage_in_integer_columns().unwrap();
    assert_eq!(kind(garbage(), "start", 11), "text");
    assert_eq!(kind(garbage(), "start", 12), "blob");
    assert_eq!(kind(garbage(), "blockX", 1), "real");

    let views: i64 = open(&hazards::views_instead_of_tables().unwrap().capture)
        .query_row("SELECT count(*) FROM sqlite_master WHERE type = 'view'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(views, 3);
}

#[test]
fn hostile_names_arrive_unharmed() {
    let db = open(&hazards::hostile_names().unwrap().capture);
    let longest: i64 =
        db.query_row("SELECT max(length(value)) FROM StringIds", [], |r| r.get(0)).unwrap();
    assert_eq!(longest, 300_000);
    for part in ["\x1b[2J", "\u{9b}31m", "</script>", "nul\0byte", "\u{202e}"] {
        let found: i64 = db
            .query_row("SELECT count(*) FROM StringIds WHERE instr(value, ?)", [part], |r| r.get(0))
            .unwrap();
        assert!(found >= 1, "{part:?}");
    }
}

#[test]
fn foreign_files_are_what_they_are_called() {
    let count = |capture: &TempCapture, table: &str| {
        open(capture)
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get::<_, i64>(0))
    };
    assert!(count(&hazards::git_lfs_pointer().unwrap(), "sqlite_master").is_err());
    assert!(count(&hazards::text_file().unwrap(), "sqlite_master").is_err());
    assert_eq!(count(&hazards::empty_file().unwrap(), "sqlite_master"), Ok(0));
    let nvprof = hazards::nvprof_database().unwrap();
    assert_eq!(count(&nvprof, "CUPTI_ACTIVITY_KIND_KERNEL"), Ok(1));
    assert!(count(&nvprof, "StringIds").is_err());
    assert_eq!(count(&hazards::other_database().unwrap(), "moz_places"), Ok(1));
    let truncated = hazards::truncated_database().unwrap();
    let read = open(&truncated).query_row(
        "SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL",
        [],
        |r| r.get::<_, Option<i64>>(0),
    );
    assert!(read.is_err(), "{read:?}");
    assert_eq!(hazards::foreign().unwrap().len(), 6);
}
