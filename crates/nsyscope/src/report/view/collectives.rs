//! Collectives: who waits, what they move, and how far that is from what the link can.

use crate::document::{Block, Grid, Kind};
use crate::format;
use crate::model::Provenance;
use crate::report::{CollectiveSection, Report};

use super::label;

impl Report {
    /// Wait and time in ns of the collectives that one kernel carries out in the same steps, whatever
    /// their operations and messages; `None` for one rank alone.
    pub(in crate::report) fn collective_time(
        &self,
        like: &CollectiveSection,
    ) -> Option<(i64, i64)> {
        self.collectives
            .iter()
            .filter(|c| {
                (c.phase, c.batch, &c.row.kind) == (like.phase, like.batch, &like.row.kind)
                    && (&c.row.kernel, &c.row.group) == (&like.row.kernel, &like.row.group)
            })
            .try_fold((0, 0), |sum, c| Some((sum.0 + c.row.wait_ns?, sum.1 + c.row.time_ns)))
    }

    pub(in crate::report) fn collectives(&self, blocks: &mut Vec<Block>) {
        if self.collectives.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Collectives, matched over ranks".to_owned()));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("collective", Kind::Words),
            ("ranks", Kind::Number),
            ("calls", Kind::Number),
            ("time", Kind::Number),
            ("wait", Kind::Number),
            ("transfer", Kind::Number),
            ("spread p50", Kind::Number),
            ("done p50", Kind::Number),
            ("last", Kind::Words),
            ("op", Kind::Words),
        ])
        .only_from("op", 120)
        .only_from("spread p50", 100)
        .only_from("transfer", 90);
        for section in &self.collectives {
            grid.row(waiting(section));
        }
        blocks.push(Block::Grid(grid));
        let of = match self.selection.and_then(|selected| selected.by.rank) {
            Some(rank) => format!("on rank {rank}"),
            None => "over all ranks".to_owned(),
        };
        blocks.push(Block::Paragraph(format!(
            "time: kernel durations {of}, of which wait is until the last rank had arrived \
             and transfer after; spread: first to last arrival; done: last arrival until the last \
             rank is done; last: the rank that arrives last most often; a row for each of the \
             model's operations, where known. ?: one rank was captured."
        )));
        self.messages(blocks);
    }

    /// What is known of messages, and of bandwidth and latency with it.
    fn messages(&self, blocks: &mut Vec<Block>) {
        let known: Vec<&CollectiveSection> =
            self.collectives.iter().filter(|c| c.row.message_bytes.is_some()).collect();
        let Some(first) = known.first() else { return };
        blocks.push(Block::Heading("Collectives against their link".to_owned()));
        let mut grid = Grid::new(&[
            ("phase", Kind::Words),
            ("collective", Kind::Words),
            ("message", Kind::Number),
            ("calls", Kind::Number),
            ("done p50", Kind::Number),
            ("expected", Kind::Number),
            ("least", Kind::Number),
            ("algbw", Kind::Number),
            ("busbw", Kind::Number),
            ("of link", Kind::Number),
            ("op", Kind::Words),
        ])
        .only_from("algbw", 110)
        .only_from("least", 100);
        let ns = |ns: Option<i64>| ns.map_or_else(|| "?".to_owned(), format::ns);
        let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), format::rate);
        for section in &known {
            let row = &section.row;
            grid.row(vec![
                label(section.phase, section.batch),
                row.kind.clone(),
                row.message_bytes.map_or_else(String::new, format::bytes),
                format::count(row.calls),
                row.completion.map_or_else(|| "?".to_owned(), |done| format::duration(done.p50_ns)),
                ns(section.expected_ns),
                ns(section.floor_ns),
                rate(row.algbw_bytes_per_s),
                rate(row.busbw_bytes_per_s),
                section.link_share.map_or_else(|| "?".to_owned(), format::percent),
                row.op.clone().unwrap_or_default(),
            ]);
        }
        blocks.push(Block::Grid(grid));
        let derived =
            known.iter().any(|c| c.provenance.get("message_bytes") != Some(&Provenance::Measured));
        let mut text = format!(
            "message: {}; expected: NCCL's own model of one alone; least: what the link allows; algbw, \
             busbw: the message over the mean time from the last arrival until all are done, as the \
             caller and as a link sees it.",
            if derived {
                "of the model's operation, with the tokens of the step"
            } else {
                "as the program's NVTX ranges say"
            },
        );
        if let Some((link, rated)) = first.link.zip(first.link_bandwidth_bytes_per_s) {
            text.push_str(&format!(
                " of link: of the {} that {link} is rated at in one direction{}.",
                format::rate(rated),
                if first.provenance.get("link") == Some(&Provenance::Assumed) {
                    "; that the ranks use it is assumed"
                } else {
                    ""
                }
            ));
        }
        blocks.push(Block::Paragraph(text));
    }
}

fn waiting(section: &CollectiveSection) -> Vec<String> {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    let row = &section.row;
    let last = row
        .last_arrival_rank_share
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))
        .filter(|_| row.ranks > 1);
    let part =
        |ns: Option<i64>| ns.map(|ns| format::percent(crate::analysis::share(ns, row.time_ns)));
    vec![
        label(section.phase, section.batch),
        row.kind.clone(),
        row.ranks.to_string(),
        format::count(row.calls),
        format::ns(row.time_ns),
        or_unknown(part(row.wait_ns)),
        or_unknown(part(row.transfer_ns)),
        or_unknown(row.skew.map(|skew| format::duration(skew.spread.p50_ns))),
        or_unknown(row.completion.map(|done| format::duration(done.p50_ns))),
        last.map_or_else(String::new, |(rank, share)| {
            format!("rank {rank} {}", format::percent(*share))
        }),
        row.op.clone().unwrap_or_default(),
    ]
}
