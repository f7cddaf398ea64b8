//! The report as text and Markdown; every number is one of the report's.

use crate::document::{Block, Document, Grid, Kind, ViewOptions};
use crate::model::{FeedForward, Mixer};

use super::{ModelReport, StepView};

impl ModelReport {
    /// The report as text; tables leave out what a narrow terminal has no room for.
    pub fn to_text(&self, options: &ViewOptions) -> String {
        self.document().text(options)
    }

    /// The report as Markdown.
    pub fn to_markdown(&self) -> String {
        self.document().markdown()
    }

    fn document(&self) -> Document {
        let mut blocks = Vec::new();
        self.model_section(&mut blocks);
        for step in self.step.values() {
            self.step_section(&mut blocks, step);
        }
        if !self.sweep.is_empty() {
            self.sweep_section(&mut blocks);
        }
        if !self.warnings.is_empty() {
            blocks.push(Block::Heading("Warnings".to_owned()));
            blocks.push(Block::Bullets(
                self.warnings
                    .iter()
                    .map(|warning| format!("{}: {}", warning.field, warning.message))
                    .collect(),
            ));
        }
        Document(blocks)
    }

    fn model_section(&self, blocks: &mut Vec<Block>) {
        let a = &self.architecture;
        let known = if a.known_family { "" } else { " (unknown family)" };
        blocks.push(Block::Title(format!("Model {}{known}", a.model_type)));
        let p = &self.parameters;
        let mut rows: Vec<(String, String)> = vec![
            ("layers".into(), layers_line(self)),
            ("hidden size".into(), a.hidden_size.to_string()),
            ("vocabulary".into(), a.vocab_size.to_string()),
            ("type".into(), sourced(a, "dtype", &a.dtype.name())),
            ("parameters".into(), billions(p.total)),
            (
                "active".into(),
                format!(
                    "{} ({} without the embedding)",
                    billions(p.active),
                    billions(p.active_without_embedding)
                ),
            ),
            ("checkpoint".into(), bytes(self.checkpoint_bytes)),
            ("weights on a rank".into(), bytes(self.weight_bytes_per_rank)),
            ("cache on a rank".into(), format!("{} B a token", self.kv_bytes_per_token_per_rank)),
        ];
        if self.state_bytes_per_sequence_per_rank > 0 {
            let state = bytes(Some(self.state_bytes_per_sequence_per_rank));
            rows.push(("state on a rank".into(), format!("{state} a sequence")));
        }
        for mixer in &a.mixers {
            if mixer.value != Mixer::None {
                rows.push((mixer.value.name().into(), mixer_line(&mixer.value, mixer.layers)));
            }
        }
        for part in &a.feed_forwards {
            rows.push((part.value.name().into(), feed_forward_line(&part.value, part.layers)));
        }
        if let Some(q) = &a.quantization {
            let formats: Vec<String> = q
                .formats
                .iter()
                .map(|f| format!("{} {}", f.format, billions(f.parameters)))
                .collect();
            let line = format!("{}: {}", q.method, formats.join(", "));
            rows.push(("quantisation".into(), line));
        }
        if a.mtp_layers > 0 {
            let line = format!("{} layers, not part of a step", a.mtp_layers);
            rows.push(("multi-token prediction".into(), line));
        }
        rows.push(("deployment".into(), deployment_line(self)));
        if let Some(hardware) = &self.hardware {
            rows.push(("GPU".into(), gpu_line(&hardware.gpu)));
            let link = match &hardware.link {
                Some(link) => format!(
                    "{}, {} GB/s in a ring ({}: {})",
                    link.kind,
                    number(link.ring_bandwidth_bytes_per_s / 1e9),
                    link.provenance.as_str(),
                    link.source
                ),
                None => "unknown".into(),
            };
            rows.push(("link".into(), link));
        }
        blocks.push(Block::Facts(rows));
    }

    fn step_section(&self, blocks: &mut Vec<Block>, step: &StepView) {
        let what = match step.setup {
            crate::cost::Phase::Decode { batch, context, speculative } => {
                let proposed = if speculative > 0 {
                    format!(", {speculative} speculative tokens")
                } else {
                    String::new()
                };
                format!("Decode step: batch {batch}, context {context}{proposed}")
            }
            crate::cost::Phase::Prefill { tokens, batch, cached } => {
                format!("Prefill step: {tokens} tokens, {batch} sequences, {cached} cached")
            }
        };
        blocks.push(Block::Heading(what));
        let mut summary =
            Grid::new(&[("on a rank", Kind::Words), ("", Kind::Number), ("", Kind::Words)]);
        let mut line = |name: &str, value: String, note: &str| {
            summary.row(vec![name.to_owned(), value, note.to_owned()]);
        };
        line("FLOPs", scientific(step.flops as f64), "");
        line("weights read", bytes(step.weight_bytes), "");
        line("activations and cache", bytes(Some(step.activation_bytes)), "");
        line("all bytes", bytes(step.bytes), "");
        if self.hardware.is_some() {
            line("memory floor", time(step.memory_floor_ns), "all bytes at memory bandwidth");
            line("compute floor", time(step.compute_floor_ns), "all FLOPs at peak");
            line("kernel floor", time(step.kernel_floor_ns), "the larger of both, op by op");
            if !step.collectives.is_empty() {
                let floor = time(step.communication_floor_ns);
                line("communication floor", floor, "the least the link allows");
                let expected = time(step.communication_expected_ns);
                line(
                    "communication expected",
                    expected,
                    &share_note(step.communication_expected_share, "NCCL's own model"),
                );
                if step.communication_measured_ns.is_some() {
                    let measured = time(step.communication_measured_ns);
                    let share = step.communication_measured_share;
                    line(
                        "communication measured",
                        measured,
                        &share_note(share, "isolated, on such a machine"),
                    );
                }
            }
            line("step floor", time(step.floor_ns), "kernels and communication at their floors");
            if self.parallelism.pp > 1 {
                line(
                    "pipeline floor",
                    time(step.pipeline_floor_ns),
                    "all stages, one after the other",
                );
            }
            let ceiling = step.tokens_per_s_ceiling.map_or("unknown".into(), number);
            line("tokens/s ceiling", ceiling, "all ranks together, one batch in flight");
        }
        blocks.push(Block::Grid(summary));

        // Without hardware there are no floors to show.
        let priced = self.hardware.is_some();
        let mut columns = vec![
            ("op", Kind::Words),
            ("calls", Kind::Number),
            ("M", Kind::Number),
            ("N", Kind::Number),
            ("K", Kind::Number),
            ("groups", Kind::Number),
            ("FLOPs", Kind::Number),
            ("bytes", Kind::Number),
        ];
        if priced {
            columns.extend([
                ("floor", Kind::Number),
                ("per step", Kind::Number),
                ("bound", Kind::Words),
            ]);
        }
        columns.extend([("weights", Kind::Words), ("category", Kind::Words)]);
        let mut ops = Grid::new(&columns)
            .only_from("groups", 85)
            .only_from("FLOPs", 100)
            .only_from("bound", 115)
            .only_from("weights", 130)
            .only_from("category", 165);
        let mut auxiliary = false;
        for row in &step.ops {
            let mark = if row.auxiliary { "*" } else { "" };
            auxiliary |= row.auxiliary;
            let whole = |x: Option<u64>| x.map_or(String::new(), |x| x.to_string());
            let mut cells = vec![
                format!("{}{mark}", row.op),
                row.calls.to_string(),
                row.m.map_or(String::new(), number),
                whole(row.n),
                whole(row.k),
                row.groups.filter(|g| (g - 1.0).abs() > 1e-9).map_or(String::new(), number),
                if row.flops == 0 { String::new() } else { scientific(row.flops as f64) },
                bytes(row.bytes),
            ];
            if priced {
                cells.push(time(row.floor_ns));
                cells.push(time(row.step_floor_ns));
                cells.push(row.bound.map_or("", |b| b.as_str()).to_owned());
            }
            cells.push(row.weight_format.clone().unwrap_or_default());
            cells.push(row.category.to_owned());
            ops.row(cells);
        }
        blocks.push(Block::Heading("Operations, in order".to_owned()));
        blocks.push(Block::Grid(ops));
        if auxiliary {
            blocks.push(Block::Paragraph(
                "Figures are those of one call, except per step. Ops with * can be fused away or \
                 are too small to matter: they count in no total and no floor of the step."
                    .to_owned(),
            ));
        }
        if !step.collectives.is_empty() {
            let mut columns = vec![
                ("collective", Kind::Words),
                ("ranks", Kind::Number),
                ("count", Kind::Number),
                ("message", Kind::Number),
            ];
            if priced {
                columns.extend([
                    ("floor", Kind::Number),
                    ("expected", Kind::Number),
                    ("latency", Kind::Number),
                    ("measured", Kind::Number),
                ]);
            }
            columns.push(("op", Kind::Words));
            let mut rows = Grid::new(&columns);
            for c in &step.collectives {
                let mut cells = vec![
                    c.kind.as_str().to_owned(),
                    c.ranks.to_string(),
                    c.count.to_string(),
                    format!("{} B", c.message_bytes),
                ];
                if priced {
                    cells.extend([time(c.floor_ns), time(c.expected_ns), time(c.latency_ns)]);
                    cells.push(c.measured_ns.map_or("-".into(), |ns| time(Some(ns))));
                }
                cells.push(c.op.to_owned());
                rows.row(cells);
            }
            blocks.push(Block::Heading("Collectives".to_owned()));
            blocks.push(Block::Grid(rows));
        }
    }

    fn sweep_section(&self, blocks: &mut Vec<Block>) {
        blocks.push(Block::Heading("Sweep".to_owned()));
        let mut rows = Grid::new(&[
            ("TP", Kind::Number),
            ("batch", Kind::Number),
            ("tokens", Kind::Number),
            ("memory", Kind::Number),
            ("compute", Kind::Number),
            ("comm.", Kind::Number),
            ("comm. %", Kind::Number),
            ("floor", Kind::Number),
            ("tokens/s", Kind::Number),
            ("bottleneck", Kind::Words),
        ]);
        for row in &self.sweep {
            rows.row(vec![
                row.tp.to_string(),
                row.batch.to_string(),
                row.tokens.to_string(),
                time(row.memory_ns),
                time(row.compute_ns),
                time(row.communication_ns),
                row.communication_share.map_or("unknown".into(), percent),
                time(row.floor_ns),
                row.tokens_per_s.map_or("unknown".into(), number),
                row.bottleneck.unwrap_or("unknown").to_owned(),
            ]);
        }
        blocks.push(Block::Grid(rows));
    }
}

fn layers_line(report: &ModelReport) -> String {
    let a = &report.architecture;
    let kinds: Vec<String> =
        a.feed_forwards.iter().map(|f| format!("{} {}", f.layers, f.value.name())).collect();
    format!("{} ({})", a.num_layers, kinds.join(", "))
}

fn sourced(a: &super::ArchitectureView, name: &str, value: &str) -> String {
    match a.provenance.get(name) {
        None | Some(crate::model::Provenance::Config) => value.to_owned(),
        Some(other) => format!("{value} ({})", other.as_str()),
    }
}

fn mixer_line(mixer: &Mixer, layers: usize) -> String {
    let text = match mixer {
        Mixer::None => "none".into(),
        Mixer::Attention(a) => {
            let span = match a.span {
                crate::model::AttentionSpan::Full => String::new(),
                crate::model::AttentionSpan::Sliding(w) => format!(", window {w}"),
                crate::model::AttentionSpan::Chunked(c) => format!(", chunks of {c}"),
            };
            format!("{} query heads, {} key heads of {}{span}", a.heads, a.kv_heads, a.head_dim)
        }
        Mixer::Mla(a) => {
            let rank = a.q_lora_rank.map_or("no".to_owned(), |r| r.to_string());
            let sparse = a.indexer.map_or(String::new(), |i| {
                format!(", indexer of {} heads of {} picks {}", i.heads, i.head_dim, i.top_k)
            });
            format!(
                "{} heads of {}+{}/{}, query rank {rank}, latent {}{sparse}",
                a.heads, a.nope_dim, a.rope_dim, a.value_dim, a.kv_lora_rank
            )
        }
        Mixer::GatedDeltaNet(g) => format!(
            "{} key heads of {}, {} value heads of {}, convolution {}",
            g.key_heads, g.key_dim, g.value_heads, g.value_dim, g.conv
        ),
        Mixer::KimiDeltaAttention(k) => {
            format!("{} heads of {}, convolution {}", k.heads, k.head_dim, k.conv)
        }
        Mixer::Mamba(m) => {
            format!("{} channels, state {}, convolution {}", m.inner, m.state, m.conv)
        }
        Mixer::Mamba2(m) => format!(
            "{} heads of {}, state {}, {} groups, convolution {}",
            m.heads, m.head_dim, m.state, m.groups, m.conv
        ),
    };
    format!("{layers} layers: {text}")
}

fn feed_forward_line(part: &FeedForward, layers: usize) -> String {
    let mlp = |m: &crate::model::Mlp| {
        format!("{}{}", m.intermediate, if m.gated { "" } else { " without gate" })
    };
    let moe = |m: &crate::model::Moe| {
        let shared = m.shared.as_ref().map_or(String::new(), |s| format!(", shared {}", mlp(s)));
        format!("{} of {} experts of {}{shared}", m.top_k, m.experts, mlp(&m.expert))
    };
    let text = match part {
        FeedForward::None => "none".into(),
        FeedForward::Dense(dense) => format!("width {}", mlp(dense)),
        FeedForward::Moe(experts) => moe(experts),
        FeedForward::DenseAndMoe { dense, moe: experts } => {
            format!("width {}, {}", mlp(dense), moe(experts))
        }
    };
    format!("{layers} layers: {text}")
}

fn deployment_line(report: &ModelReport) -> String {
    let p = &report.parallelism;
    let mut parts = vec![format!("TP {}", p.tp)];
    let mut named = |name: &str, value: u64| {
        if value > 1 {
            parts.push(format!("{name} {value}"));
        }
    };
    named("PP", p.pp);
    named("DP", p.dp);
    named("EP", p.expert_parallel_ranks());
    named("attention DP", p.attention_dp);
    named("DCP", p.dcp);
    if p.pp > 1 {
        parts.push(format!("stage {}", p.stage_index()));
    }
    parts.join(", ")
}

fn gpu_line(gpu: &crate::hardware::Gpu) -> String {
    let tera = |x: Option<f64>| x.map_or("unknown".to_owned(), |x| number(x / 1e12));
    format!(
        "{}: {} TB/s, {} TFLOP/s in bf16, {} in fp8, {} in fp4",
        gpu.name,
        tera(gpu.memory_bandwidth),
        tera(gpu.bf16),
        tera(gpu.fp8),
        tera(gpu.fp4)
    )
}

fn share_note(share: Option<f64>, what: &str) -> String {
    match share {
        Some(share) => format!("{what}; {} beside kernels at their floor", percent(share)),
        None => what.to_owned(),
    }
}

fn billions(n: u128) -> String {
    format!("{:.3}e9", n as f64 / 1e9)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Four digits, without a fraction where there is none.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e9 {
        return format!("{x:.0}");
    }
    let decimals = (3 - x.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{x:.decimals$}")
}

fn scientific(x: f64) -> String {
    if x == 0.0 { "0".into() } else { format!("{x:.4e}") }
}

fn bytes(n: Option<u64>) -> String {
    let Some(n) = n else { return "unknown".into() };
    let x = n as f64;
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{} kB", number(x / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", number(x / 1e6)),
        _ => format!("{} GB", number(x / 1e9)),
    }
}

fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "unknown".into() };
    let x = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", number(x / 1e3)),
        _ => format!("{} ms", number(x / 1e6)),
    }
}
