//! What must hold of every answer.

use nsyscope::Error;
use nsyscope::report::{Report, ViewOptions};
use serde::Serialize;

/// No answer of a small input is longer.
const MOST_BYTES: usize = 64 << 20;

/// Text for a terminal or a file: no control characters but line breaks, whatever names hold.
pub(crate) fn check_text(text: &str) {
    assert!(text.len() < MOST_BYTES, "an answer of {} bytes", text.len());
    if let Some(at) = text.find(|c: char| c.is_control() && c != '\n') {
        let from = text[..at].char_indices().rev().nth(60).map_or(0, |(i, _)| i);
        panic!("a control character is shown: {:?}", &text[from..=at]);
    }
}

/// A page or picture: no control characters but white space.
pub(crate) fn check_page(page: &str) {
    assert!(page.len() < MOST_BYTES, "a page of {} bytes", page.len());
    if let Some(at) = page.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        let from = page[..at].char_indices().rev().nth(60).map_or(0, |(i, _)| i);
        panic!("a control character is on a page: {:?}", &page[from..=at]);
    }
}

/// JSON that reads back; returns it.
pub(crate) fn check_json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("JSON can be written");
    assert!(text.len() < MOST_BYTES, "{} bytes of JSON", text.len());
    serde_json::from_str::<serde_json::Value>(&text).expect("JSON can be read back");
    text
}

/// An error says something.
pub(crate) fn check_error(error: &Error) {
    assert!(!error.to_string().is_empty());
    let _ = (error.kind(), error.hint(), format!("{error:?}"));
}

/// A report accounts for every nanosecond, and every view of it can be shown.
pub(crate) fn check_report(report: &Report) {
    for rank in &report.rank_times {
        assert!(rank.span_ns >= 0 && rank.busy_ns >= 0 && rank.idle_ns >= 0, "{rank:?}");
        assert_eq!(rank.busy_ns + rank.idle_ns, rank.span_ns, "{rank:?}");
    }
    let keys = report.breakdown.iter().map(|row| (row.phase, row.batch));
    let mut keys: Vec<_> = keys.chain(report.idle.iter().map(|r| (r.phase, r.batch))).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let busy = report.breakdown.iter().filter(|row| (row.phase, row.batch) == key);
        let idle = report.idle.iter().filter(|row| (row.phase, row.batch) == key);
        let time: i128 = busy.clone().map(|row| i128::from(row.exposed_ns)).sum::<i128>()
            + idle.clone().map(|row| i128::from(row.time_ns)).sum::<i128>();
        let shares: f64 =
            busy.map(|row| row.exposed_share).sum::<f64>() + idle.map(|row| row.share).sum::<f64>();
        // Of no time there are no shares.
        assert!(time == 0 || (shares - 1.0).abs() < 1e-9, "the shares of {key:?} sum to {shares}");
        if key.0 == "all" {
            let spans: i128 = report.rank_times.iter().map(|rank| i128::from(rank.span_ns)).sum();
            assert_eq!(time, spans, "the whole capture");
        }
    }
    check_json(report);
    for width in [1, 80] {
        check_text(&report.to_text(&ViewOptions::new().width(width)));
    }
    check_text(&report.to_markdown());
}
