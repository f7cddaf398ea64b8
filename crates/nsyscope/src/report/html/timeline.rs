//! A step with all its kernels, for the page's script to draw, zoom into and search.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::family_colors;
use crate::document::escape;
use crate::format;
use crate::scene::{Timeline, palette};

/// The data and the controls; without a script, a hint at the picture above.
pub(super) fn html(step: &Timeline) -> String {
    if step.bins == 0 || step.ranks.is_empty() {
        return String::new();
    }
    // `<` could end the element that holds the data.
    let data = data(step).to_string().replace('<', "\\u003c");
    let activities: u64 =
        step.ranks.iter().flat_map(|rank| &rank.lanes).map(|lane| lane.activities).sum();
    let mut out = String::new();
    let _ = write!(
        out,
        "<h3>Kernel by kernel: {}</h3>\n<p>{} long, {} GPU activities. Drag or use the arrow keys to move, \
         + and − or the wheel with Ctrl to zoom, 0 for the whole.</p>\n\
         <noscript><p>Zooming and searching need this page's script.</p></noscript>\n\
         <div id=\"zoom\" hidden>\n<div class=\"filter\"><label>Find kernels <input type=\"search\" \
         id=\"zoom-find\"></label> <button type=\"button\" id=\"zoom-next\">Next</button>\n\
         <span class=\"buttons\"><button type=\"button\" id=\"zoom-in\" aria-label=\"Zoom in\">+</button>\
         <button type=\"button\" id=\"zoom-out\" aria-label=\"Zoom out\">−</button>\
         <button type=\"button\" id=\"zoom-all\">Whole step</button></span></div>\n\
         <canvas id=\"zoom-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of one step; arrow keys \
         move, plus and minus zoom\" aria-describedby=\"zoom-said\"></canvas>\n\
         <p id=\"zoom-said\" role=\"status\"></p>\n</div>\n\
         <script type=\"application/json\" id=\"zoom-data\">{data}</script>\n",
        escape(&step.title),
        format::ns(step.end_ns - step.start_ns),
        format::count(activities),
    );
    out
}

/// Times in ns from the window's start. A block is four numbers: start, duration, category, name.
fn data(step: &Timeline) -> Value {
    let from = step.start_ns;
    let bands = |bands: &[crate::scene::Band]| -> Value {
        bands
            .iter()
            .map(|b| json!([b.start_ns - from, b.end_ns - b.start_ns, b.text, b.depth]))
            .collect()
    };
    let ranks: Value = step
        .ranks
        .iter()
        .map(|rank| {
            let lanes: Value = rank
                .lanes
                .iter()
                .map(|lane| {
                    let blocks: Vec<i64> = lane
                        .blocks
                        .iter()
                        .flat_map(|b| {
                            [
                                b.start_ns - from,
                                b.end_ns - b.start_ns,
                                i64::from(b.category),
                                i64::from(b.name),
                            ]
                        })
                        .collect();
                    json!({"label": lane.label, "blocks": blocks})
                })
                .collect();
            let layers: Value = rank
                .layers
                .iter()
                .map(|l| json!([l.start_ns - from, l.end_ns - l.start_ns, l.index]))
                .collect();
            json!({
                "rank": rank.rank,
                "lanes": lanes,
                "steps": bands(&rank.steps),
                "nvtx": bands(&rank.nvtx),
                "layers": layers,
            })
        })
        .collect();
    let inks: Vec<String> = step
        .categories
        .iter()
        .map(|category| palette::hex(palette::ink_on(palette::color(category))))
        .collect();
    json!({
        "span": step.end_ns - step.start_ns,
        "after": step.start_ns - step.origin_ns,
        "categories": step.categories,
        "colors": family_colors(&step.categories),
        "inks": inks,
        "names": step.names,
        "ranks": ranks,
    })
}
