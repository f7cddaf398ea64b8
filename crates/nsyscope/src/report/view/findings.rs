//! What follows, and what was believed.

use crate::document::Block;
use crate::findings::Finding;
use crate::format;
use crate::report::Report;

use super::{gain, label};

impl Report {
    /// What follows, numbered: the finding, what it rests on, what to try.
    pub(in crate::report) fn findings(&self, blocks: &mut Vec<Block>) {
        if self.findings.is_empty() {
            return;
        }
        // The same finding on several phases and batches is one to a reader, unless all are wanted.
        let every = self.findings_shown == usize::MAX;
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        for finding in &self.findings {
            match groups.iter_mut().find(|group| group[0].id == finding.id && !every) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        let shown = self.findings_shown.min(groups.len());
        blocks.push(Block::Heading(if shown < groups.len() {
            format!("Findings (the first {shown} of {}; --all-findings)", groups.len())
        } else {
            "Findings".to_owned()
        }));
        for (i, group) in groups.iter().take(shown).enumerate() {
            let (finding, likewise) = (group[0], &group[1..]);
            blocks.push(Block::Paragraph(format!(
                "{}. {}.{} [{}, {}]",
                i + 1,
                finding.title,
                gain(finding),
                finding.id,
                finding.severity.as_str(),
            )));
            let mut lines = vec![format!("Evidence: {}.", finding.evidence.line())];
            if !likewise.is_empty() {
                let each: Vec<String> = likewise
                    .iter()
                    .map(|other| {
                        let name = label(other.phase.unwrap_or("the capture"), other.batch);
                        other.gain_share.map_or(name.clone(), |share| {
                            format!("{name} ({})", format::percent(share))
                        })
                    })
                    .collect();
                lines.push(format!("Likewise: {}.", each.join("; ")));
            }
            lines.push(format!("Try: {}", finding.action));
            blocks.push(Block::Bullets(lines));
        }
        let sized = groups.iter().take(shown).filter(|group| group[0].gain_share.is_some()).count();
        if sized > 1 {
            blocks.push(Block::Paragraph(
                "Gains are of one step of that phase and batch, each taken alone: they overlap, and \
                 do not add up."
                    .to_owned(),
            ));
        }
    }

    /// Beliefs, and whether they hold.
    pub(in crate::report) fn expectations(&self, blocks: &mut Vec<Block>) {
        let Some(expectations) = &self.expectations else { return };
        blocks.push(Block::Heading("Expectations".to_owned()));
        for expected in expectations {
            let line = format!(
                "{}: {}; {} steps measure {}.",
                expected.text,
                if expected.holds { "holds" } else { "does not hold" },
                expected.phase,
                expected.shown(),
            );
            blocks.push(if expected.holds {
                Block::Bullets(vec![line])
            } else {
                Block::Warning(line)
            });
        }
    }
}
