//! The story in small: what the library says of a capture whose all-reduces take the long way, beside
//! plain SQL inside the step windows that the workload itself wrote down.

mod common;

use std::collections::BTreeMap;

use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{Phase, StepOptions, Steps, step_times};
use serde_json::Value;

const FOLDER: &str = "captures/D7_kimi_int4_tp2_nop2p";

/// Busy time and that of all-reduces, in ns.
type Times = (i64, i64);

/// What starts inside a window on GPU 0: the time that anything ran, and all-reduces. A running
/// maximum of ends gives the union.
const SQL: &str = "
    WITH work AS (
        SELECT k.start, k.end, s.value LIKE 'ncclDevKernel_AllReduce%' AS reduces
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
        WHERE k.deviceId = 0 AND k.start BETWEEN ?1 AND ?2
        UNION ALL
        SELECT start, end, 0 FROM CUPTI_ACTIVITY_KIND_MEMCPY
        WHERE deviceId = 0 AND start BETWEEN ?1 AND ?2
        UNION ALL
        SELECT start, end, 0 FROM CUPTI_ACTIVITY_KIND_MEMSET
        WHERE deviceId = 0 AND start BETWEEN ?1 AND ?2
    ), ordered AS (
        SELECT start, end, reduces, coalesce(max(end) OVER (
            ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
        FROM work
    )
    SELECT coalesce(sum(max(0, end - max(start, before))), 0),
           coalesce(sum(CASE WHEN reduces THEN end - start ELSE 0 END), 0)
    FROM ordered";

/// By phase and batch, summed over the truth's steps: warm-up is left out.
fn by_sql(capture: &std::path::Path, truth: &Value) -> BTreeMap<(Phase, u64), Times> {
    let database = common::plain(capture);
    let referee = common::referee(&database);
    let zero: i64 = referee
        .query_row("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [], |row| row.get(0))
        .unwrap();
    let mut statement = referee.prepare(SQL).unwrap();
    let mut out: BTreeMap<(Phase, u64), Times> = BTreeMap::new();
    for step in truth["steps"].as_array().unwrap() {
        if step["label"] == "warmup" {
            continue;
        }
        // The first step of a decode phase is the prefill of its prompts.
        let decodes = step["label"] == "decode" && step["step_in_phase"].as_u64().unwrap() > 0;
        let phase = if decodes { Phase::Decode } else { Phase::Prefill };
        let start = step["t0_unix_ns"].as_i64().unwrap() - zero;
        let end = start + (step["wall_ms"].as_f64().unwrap() * 1e6) as i64;
        let (busy, reduces): Times =
            statement.query_row((start, end), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let sum = out.entry((phase, step["batch"].as_u64().unwrap())).or_default();
        *sum = (sum.0 + busy, sum.1 + reduces);
    }
    out
}

/// The same of the library, by the steps that it finds itself.
fn by_library(capture: &std::path::Path) -> BTreeMap<(Phase, u64), Times> {
    let run = Run::open([capture], &OpenOptions::new()).unwrap();
    let classes = Classes::new(&run, &Classifier::builtin());
    let steps = Steps::find(&run, &classes, &StepOptions::new());
    let times = step_times(&run, &classes, &steps);
    let is_reduce = |c: &nsyscope::kernel::Category| c.as_str() == "comm/all_reduce";
    let reduces = classes.categories().iter().position(is_reduce).unwrap();
    let mut out: BTreeMap<(Phase, u64), Times> = BTreeMap::new();
    for (rank, times) in steps.ranks.iter().zip(&times) {
        if run.ranks()[rank.rank as usize].device != 0 {
            continue;
        }
        for (step, time) in rank.steps.iter().zip(times) {
            let sum = out.entry((step.phase, u64::from(step.batch.unwrap_or(0)))).or_default();
            *sum = (sum.0 + time.busy_ns, sum.1 + time.exposed_ns[reduces]);
        }
    }
    out
}

#[test]
fn all_reduce_by_phase_and_batch_is_what_sql_says() {
    let Some(folder) = common::shared(FOLDER) else { return };
    let capture = folder.join("D7_kimi_int4_tp2_nop2p.sqlite.zst");
    let truth: Value =
        serde_json::from_slice(&std::fs::read(folder.join("truth.json")).unwrap()).unwrap();
    let (expected, found) = (by_sql(&capture, &truth), by_library(&capture));
    let part = |(busy, reduces): Times| reduces as f64 / busy as f64;
    // All-reduce takes 11, 16 and 31 % of the busy time of decode, and 70 % of large prefills.
    for (batch, about) in [(1, 0.11), (8, 0.16), (64, 0.31)] {
        let key = (Phase::Decode, batch);
        let (sql, own) = (part(expected[&key]), part(found[&key]));
        assert!((sql - about).abs() < 0.01, "SQL: batch {batch} {sql}");
        assert!((own - sql).abs() < 0.005, "batch {batch}: {own}, by SQL {sql}");
    }
    for batch in [1, 8, 64] {
        let key = (Phase::Prefill, batch);
        let (sql, own) = (part(expected[&key]), part(found[&key]));
        assert!((0.6..0.8).contains(&sql), "SQL: batch {batch} {sql}");
        assert!((own - sql).abs() < 0.02, "batch {batch}: {own}, by SQL {sql}");
    }
    for (key, times) in &expected {
        eprintln!("{key:?}: by SQL {:.4}, by steps {:.4}", part(*times), part(found[key]));
    }
}
