//! Findings, each with its evidence.

use std::fmt::Write as _;

use crate::document::escape;
use crate::format;
use crate::report::Report;
use crate::report::view::{gain, label};

/// Findings beyond this are folded away.
const OPEN: usize = 7;

pub(super) fn html(report: &Report) -> String {
    if report.findings.is_empty() {
        return String::new();
    }
    let mut out = String::from("<ol class=\"findings\">\n");
    for (i, finding) in report.findings.iter().enumerate() {
        if i == OPEN {
            let more = report.findings.len() - OPEN;
            let _ = write!(
                out,
                "</ol>\n<details><summary>{} more, of less weight or on other phases</summary>\n\
                 <ol class=\"findings\" start=\"{}\">\n",
                format::count(more as u64),
                OPEN + 1
            );
        }
        let severity = finding.severity.as_str();
        let place = finding
            .phase
            .map_or_else(|| "the capture".to_owned(), |phase| label(phase, finding.batch));
        let _ = writeln!(
            out,
            "<li><p><span class=\"badge {severity}\">{severity}</span> <strong>{}.</strong>{}</p>\n\
             <p class=\"small\">{} · <code>{}</code></p>",
            escape(&finding.title),
            escape(&gain(finding)),
            escape(&place),
            escape(finding.id),
        );
        let evidence = finding.evidence.line();
        if !evidence.is_empty() {
            let _ = writeln!(out, "<p><strong>Evidence:</strong> {}.</p>", escape(&evidence));
        }
        if !finding.action.is_empty() {
            let _ = writeln!(out, "<p><strong>Try:</strong> {}</p>", escape(&finding.action));
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ol>\n");
    if report.findings.len() > OPEN {
        out.push_str("</details>\n");
    }
    out
}
