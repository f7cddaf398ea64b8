//! Dense networks and experts.

use crate::model::{FeedForward, Mlp, ModuleClass, Moe};

use super::super::op::{Collective, CollectiveKind, Op};
use super::super::setup::ExpertExchange;
use super::{Builder, Gemm, distinct_experts};

/// Names of a network's three operations.
struct MlpNames {
    gate_up: &'static str,
    act: &'static str,
    down: &'static str,
    /// Whether engines run them beside the routed experts.
    side: bool,
}

const DENSE: MlpNames =
    MlpNames { gate_up: "mlp.gate_up_proj", act: "mlp.act", down: "mlp.down_proj", side: false };
const SHARED: MlpNames = MlpNames {
    gate_up: "moe.shared.gate_up",
    act: "moe.shared.act",
    down: "moe.shared.down",
    side: true,
};

impl Builder<'_> {
    pub(super) fn feed_forward(&mut self, feed_forward: &FeedForward) {
        // Experts that are reached by dispatch need no gathered tokens.
        let routed = feed_forward.moe().is_some();
        let dispatched = routed && self.dispatches();
        let shared_attention = self.par.attention_dp > 1;
        let gathers = !dispatched && (shared_attention || (routed && self.par.dp > 1));
        if gathers {
            let name = if routed { "dp.all_gather.moe" } else { "dp.all_gather.mlp" };
            self.exchange(name, CollectiveKind::AllGather);
        }
        let mlp = self.arch.names.mlp;
        match feed_forward {
            FeedForward::None => {}
            FeedForward::Dense(dense) => self.dense(mlp, dense, &DENSE, self.par.tp),
            FeedForward::Moe(moe) => self.moe(moe),
            FeedForward::DenseAndMoe { dense, moe } => {
                self.dense(mlp, dense, &DENSE, self.par.tp);
                self.moe(moe);
                let values = self.replica_tokens as f64 * self.hidden() * self.act;
                self.push(
                    Op::new("moe.add_dense", "elementwise/elementwise")
                        .moves(2.0 * values, values)
                        .auxiliary(),
                );
            }
        }
        if gathers {
            let name = if routed { "dp.reduce_scatter.moe" } else { "dp.reduce_scatter.mlp" };
            self.exchange(name, CollectiveKind::ReduceScatter);
        }
        if !shared_attention && !dispatched {
            let names = if routed {
                ["tp.all_reduce.moe", "tp.reduce_scatter.moe", "tp.all_gather.moe"]
            } else {
                ["tp.all_reduce.mlp", "tp.reduce_scatter.mlp", "tp.all_gather.mlp"]
            };
            self.reduce(names, self.replica_tokens, self.par.tp);
        }
    }

    /// Whether tokens travel to their experts' ranks instead of being gathered.
    fn dispatches(&self) -> bool {
        let independent = self.par.dp * self.par.attention_dp > 1;
        self.par.expert_parallel && independent && self.par.exchange == ExpertExchange::AllToAll
    }

    /// All tokens to all ranks before a network, their results' sums back after it: `TH` values.
    fn exchange(&mut self, name: &'static str, kind: CollectiveKind) {
        let ranks = if self.par.attention_dp > 1 { self.par.expert_ranks() } else { self.par.dp };
        let message_bytes = self.tokens as f64 * self.hidden() * self.act;
        self.push(Op::collective(name, Collective { kind, ranks, message_bytes }));
    }

    /// Gate and up in one product `N = 2I`, the activation, and down `K = I`, each a rank's share.
    fn dense(&mut self, container: &str, mlp: &Mlp, names: &MlpNames, ranks: u64) {
        let from = self.ops.len();
        let hidden = self.arch.hidden_size;
        let inner = self.shard("channels of a network", mlp.intermediate, ranks);
        let ours = self.arch.names.clone();
        let m = if names.side && self.dispatches() {
            self.attention_tokens
        } else {
            self.replica_tokens
        };
        let class = ModuleClass::Linear;
        let category = "gemm/dense_gemm";
        let mut parts = vec![(format!("{container}.{}", ours.up), inner)];
        if mlp.gated {
            parts.insert(0, (format!("{container}.{}", ours.gate), inner));
        }
        self.gemm(&Gemm { name: names.gate_up, category, m, k: hidden, parts: &parts, class });
        let values = m as f64 * inner as f64 * self.act;
        self.push(
            Op::new(names.act, "activation/gated_act")
                .moves(values * mlp.up_matrices() as f64, values),
        );
        let parts = [(format!("{container}.{}", ours.down), hidden)];
        self.gemm(&Gemm { name: names.down, category, m, k: inner, parts: &parts, class });
        if names.side {
            for op in &mut self.ops[from..] {
                op.side_stream = true;
            }
        }
    }

    /// Router, shared experts, routing, the experts' two grouped products, and the sum of their
    /// results.
    ///
    /// `T k` pairs of token and expert are computed; the weights of the expected number of
    /// different experts are read. With expert parallelism a rank has `1/ep` of both.
    fn moe(&mut self, moe: &Moe) {
        let dispatched = self.dispatches();
        let local = if dispatched { self.attention_tokens } else { self.replica_tokens };
        let hidden = self.arch.hidden_size;
        let own = self.act;
        let names = self.arch.names.clone();

        // Engines keep the router unquantised and its scores in 32 bit.
        let parts = [(names.router.to_owned(), moe.experts)];
        let class = ModuleClass::Router;
        let category = "gemm/router";
        let router = self.product(&Gemm {
            name: "moe.router",
            category,
            m: local,
            k: hidden,
            parts: &parts,
            class,
        });
        let scores = local as f64 * moe.experts as f64 * 4.0;
        self.push(Op { activation_written: scores, ..router });

        if let Some(shared) = &moe.shared {
            // Beside dispatch, shared experts run on a rank's own tokens with all their weights.
            let ranks = if dispatched && self.par.attention_dp > 1 { 1 } else { self.par.tp };
            self.dense(names.shared, shared, &SHARED, ranks);
        }
        let routed = if dispatched { local } else { self.tokens } as f64;
        self.push(
            Op::new("moe.topk", "moe/topk_routing")
                .moves(routed * moe.experts as f64 * 4.0, routed * moe.top_k as f64 * 8.0),
        );
        let width = moe.expert_hidden(hidden);
        if moe.latent.is_some() {
            let parts = [(format!("{}.latent_down_proj", names.mlp), width)];
            let class = ModuleClass::Linear;
            let name = "moe.latent_down";
            let category = "gemm/dense_gemm";
            self.gemm(&Gemm { name, category, m: local, k: hidden, parts: &parts, class });
        }
        self.experts(moe, width, dispatched);
        if moe.latent.is_some() {
            let parts = [(format!("{}.latent_up_proj", names.mlp), hidden)];
            let class = ModuleClass::Linear;
            let name = "moe.latent_up";
            let category = "gemm/dense_gemm";
            self.gemm(&Gemm { name, category, m: local, k: width, parts: &parts, class });
        }
        if moe.shared.is_some() {
            let values = local as f64 * hidden as f64 * own;
            self.push(
                Op::new("moe.add_shared", "elementwise/elementwise")
                    .moves(2.0 * values, values)
                    .auxiliary(),
            );
        }
    }

    fn experts(&mut self, moe: &Moe, width: u64, dispatched: bool) {
        let own = self.act;
        let ep = self.par.expert_parallel_ranks();
        if !moe.experts.is_multiple_of(ep) {
            self.warn("parallelism", format!("{ep} ranks do not divide {} experts", moe.experts));
        }
        let slices = if self.par.expert_parallel { 1 } else { self.par.expert_ranks() };
        let inner = self.shard("channels of an expert", moe.expert.intermediate, slices);
        let tokens = self.tokens as f64;
        let pairs = tokens * moe.top_k as f64 / ep as f64;
        let distinct = distinct_experts(moe.experts, moe.top_k, tokens) / ep as f64;
        let names = self.arch.names.clone();
        let module = |projection: &str| format!("{}.{projection}", names.experts);
        let up = moe.expert.up_matrices();

        let message_bytes = pairs * width as f64 * own;
        if dispatched {
            let kind = CollectiveKind::Dispatch;
            let collective = Collective { kind, ranks: ep, message_bytes };
            self.push(Op::collective("ep.dispatch", collective));
        }
        let grouped = |this: &Self, name, n: u64, k: u64, parts: &[(String, u64)]| {
            let class = ModuleClass::Experts;
            let one = this.product(&Gemm { name, category: "moe/moe_gemm", m: 1, k, parts, class });
            let (nf, kf) = (n as f64, k as f64);
            Op {
                m: Some(pairs),
                groups: distinct,
                flops: 2.0 * pairs * nf * kf,
                weight_bytes: one.weight_bytes.map(|b| b * distinct),
                activation_read: pairs * kf * own,
                activation_written: pairs * nf * own,
                ..one
            }
        };
        let mut parts = vec![(module(names.up), inner)];
        if moe.expert.gated {
            parts.insert(0, (module(names.gate), inner));
        }
        let gate_up = grouped(self, "moe.experts.gate_up", up * inner, width, &parts);
        let precision = gate_up.precision;
        let input = if dispatched { pairs } else { tokens };
        self.quantize_input(precision, input, width, "moe.experts.quant", true);
        if !dispatched {
            let ids = tokens * moe.top_k as f64 * 4.0;
            self.push(Op::new("moe.align", "moe/align_sort").moves(ids, ids).auxiliary());
        }
        self.push(gate_up);
        let values = pairs * inner as f64 * own;
        self.push(Op::new("moe.experts.act", "moe/activation").moves(values * up as f64, values));
        self.quantize_input(precision, pairs, inner, "moe.experts.quant", true);
        let down = grouped(self, "moe.experts.down", width, inner, &[(module(names.down), width)]);
        self.push(down);
        if dispatched {
            let kind = CollectiveKind::Combine;
            self.push(Op::collective("ep.combine", Collective { kind, ranks: ep, message_bytes }));
        } else {
            let out = tokens * width as f64 * own;
            self.push(Op::new("moe.sum", "moe/combine").moves(pairs * width as f64 * own, out));
        }
    }
}
