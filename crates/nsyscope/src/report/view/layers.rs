//! Layers: what those of a kind take, and which are out of line.

use crate::attribute::{Deviation, LayerHeat};
use crate::document::Block;
use crate::format;
use crate::report::Report;

use super::label;

/// How many layers out of line are told of each phase and batch.
const SHOWN: usize = 5;

/// How many operations are told of each of them.
const SHOWN_OPS: usize = 3;

impl Report {
    pub(in crate::report) fn layers(&self, blocks: &mut Vec<Block>) {
        if self.layers.is_empty() {
            return;
        }
        blocks.push(Block::Heading("Layers".to_owned()));
        let mut lines = Vec::new();
        for (phase, batch) in self.phases() {
            if let Some(heat) = self.layers.iter().find(|h| (h.phase, h.batch) == (phase, batch)) {
                lines.push(format!("{}: {}.", label(phase, batch), kinds(heat)));
                lines.extend(deviations(heat));
            }
        }
        blocks.push(Block::Bullets(lines));
    }
}

/// What layers of each kind take, and within what all of them are.
fn kinds(heat: &LayerHeat) -> String {
    let of = heat.kinds.iter().map(|kind| {
        let out = heat.layers.iter().filter(|layer| layer.kind == kind.kind).any(|layer| {
            heat.deviations.iter().any(|d| d.layer == layer.layer && d.what.is_none())
        });
        let count = format::plural(kind.layers as usize, &format!("{} layer", kind.kind));
        let wall = format::ns(kind.wall_ns);
        match kind.layers {
            1 => format!("{count} of {wall}"),
            _ if out => format!("{count} of {wall} in the median"),
            _ => format!("{count} of {wall}, all within {}", format::percent(kind.largest)),
        }
    });
    of.collect::<Vec<_>>().join("; ")
}

/// A sentence for each layer that is out of line, as a whole or in one of its operations.
fn deviations(heat: &LayerHeat) -> Vec<String> {
    // They come with the largest difference first: so do the layers.
    let mut layers: Vec<u32> = Vec::new();
    for deviation in &heat.deviations {
        if !layers.contains(&deviation.layer) {
            layers.push(deviation.layer);
        }
    }
    let mut out: Vec<String> =
        layers.iter().take(SHOWN).filter_map(|&layer| deviation(heat, layer)).collect();
    if layers.len() > SHOWN {
        out.push(format!(
            "{} more with smaller differences (JSON has them)",
            format::plural(layers.len() - SHOWN, "layer")
        ));
    }
    out
}

fn deviation(heat: &LayerHeat, layer: u32) -> Option<String> {
    let row = heat.layers.iter().find(|row| row.layer == layer)?;
    let usual = heat.kinds.iter().find(|kind| kind.kind == row.kind)?.wall_ns;
    let change = row.deviation.unwrap_or(0.0);
    let signed = |d: &Deviation| {
        let sign = if d.difference_ns() < 0 { '-' } else { '+' };
        let what = d.what.as_deref().unwrap_or_default();
        format!("{what} {sign}{}", format::ns(d.difference_ns().abs()))
    };
    let parts: Vec<String> = heat
        .deviations
        .iter()
        .filter(|d| d.layer == layer && d.what.is_some())
        .take(SHOWN_OPS)
        .map(signed)
        .collect();
    let whole = heat.deviations.iter().any(|d| d.layer == layer && d.what.is_none());
    let mut line = format!("layer {layer} ({}) takes ", row.kind);
    line.push_str(&if whole {
        let than = if change < 0.0 { "less" } else { "more" };
        format!(
            "{}, {} {than} than the usual {}",
            format::ns(row.wall_ns),
            format::percent(change.abs()),
            format::ns(usual),
        )
    } else {
        format!("about the usual {}, but not in the usual parts", format::ns(usual))
    });
    if !parts.is_empty() {
        line.push_str(&format!(": {}", parts.join(", ")));
    }
    line.push('.');
    Some(line)
}
