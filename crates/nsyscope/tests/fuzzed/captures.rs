//! Captures that hang, take memory without bound or break arithmetic.

use std::time::{Duration, Instant};

use nsyscope::capture::OpenOptions;
use nsyscope::{ErrorKind, Run};
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};

/// Unoptimised and on a busy machine; what it guards against never ends.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn views_without_end_are_given_up() {
    let forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    for view in [
        format!("{forever} SELECT i AS start, i + 9 AS \"end\", 1 AS demangledName FROM n"),
        format!(
            "{forever} SELECT i AS start, i AS \"end\", 1 AS demangledName FROM n WHERE i < 0"
        ),
    ] {
        let mut db = decode_run(&DecodeRun { steps: 2, ..DecodeRun::default() });
        db.raw_sql(format!(
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {view}"
        ));
        let capture = db.write().unwrap();
        let begin = Instant::now();
        let error = Run::open([capture.path()], &OpenOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let message = error.to_string();
        assert!(message.contains("CUPTI_ACTIVITY_KIND_KERNEL"), "{message}");
        assert!(message.contains("does not end"), "{message}");
        assert!(begin.elapsed() < LONG);
    }
}

#[test]
fn values_larger_than_the_file_are_refused() {
    let mut db = decode_run(&DecodeRun { steps: 2, ..DecodeRun::default() });
    db.raw_sql(
        "ALTER TABLE StringIds RENAME TO moved;
         CREATE VIEW StringIds AS SELECT id, hex(zeroblob(400000000)) AS value FROM moved",
    );
    let capture = db.write().unwrap();
    let error = Run::open([capture.path()], &OpenOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("too big"), "{error}");
}
