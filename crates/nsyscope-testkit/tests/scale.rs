//! A scaled capture is the real one, again and again.

use nsyscope_testkit::{TempCapture, fixtures, scale};
use rusqlite::Connection;

#[test]
fn every_copy_is_later_and_finds_its_own_launches() {
    let input = fixtures::open("b1_graph_node").unwrap();
    let output = TempCapture::from_bytes(b"", ".sqlite").unwrap();
    scale(input.path(), 5, output.path()).unwrap();
    let figures = |path: &std::path::Path| {
        let db = Connection::open(path).unwrap();
        let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let kernels = one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL");
        let time = one("SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL");
        let joined = one(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
             ON r.correlationId = k.correlationId AND r.start <= k.start",
        );
        (kernels, time, joined)
    };
    let (kernels, time, joined) = figures(input.path());
    assert!(kernels > 0 && joined > 0);
    assert_eq!(figures(output.path()), (5 * kernels, 5 * time, 5 * joined));
    let db = Connection::open(output.path()).unwrap();
    let mut starts =
        db.prepare("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY rowid").unwrap();
    let starts: Vec<i64> =
        starts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(starts.is_sorted());
}
