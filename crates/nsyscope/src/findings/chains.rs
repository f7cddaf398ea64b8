//! Kernels that follow each other and that engines can run as one.

use crate::analysis::Classes;
use crate::kernel::Category;

use super::work::ChainFacts;

/// Two kernels, one right after the other on a stream, of which one could be part of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    /// A norm, then the quantisation of its result: the latter goes.
    NormQuantise,
    /// An activation, then the quantisation of its result: the latter goes.
    ActivationQuantise,
    /// A quantisation of something else, then a product: the former goes.
    QuantiseProduct,
    /// A cast or copy, then a product: the former goes.
    CastProduct,
    /// An element-wise operation such as the residual's addition, then a norm: the former goes.
    AddNorm,
    /// An all-reduce, then a norm: the latter goes.
    AllReduceNorm,
}

impl Chain {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NormQuantise,
        Self::ActivationQuantise,
        Self::QuantiseProduct,
        Self::CastProduct,
        Self::AddNorm,
        Self::AllReduceNorm,
    ];

    /// For people: what follows what.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NormQuantise => "quantisation after a norm",
            Self::ActivationQuantise => "quantisation after an activation",
            Self::QuantiseProduct => "quantisation before a product",
            Self::CastProduct => "casts before a product",
            Self::AddNorm => "additions before a norm",
            Self::AllReduceNorm => "norms after an all-reduce",
        }
    }

    /// Whether the first of the two goes.
    fn first_goes(self) -> bool {
        matches!(self, Self::QuantiseProduct | Self::CastProduct | Self::AddNorm)
    }

    /// The chain of two categories.
    fn of(first: &Category, second: &Category) -> Option<Self> {
        let product = second.family() == "gemm" || second.as_str() == "moe/moe_gemm";
        match (first.family(), second.family()) {
            // What quantises already is not followed by another quantisation of the same.
            ("norm", "quant") if first.kind() != "rms_norm_quant" => Some(Self::NormQuantise),
            ("activation", "quant") => Some(Self::ActivationQuantise),
            ("quant", _) if product && first.kind() != "dequant" => Some(Self::QuantiseProduct),
            ("copy", _) if product && first.kind() == "copy_cast" => Some(Self::CastProduct),
            ("elementwise", "norm") => Some(Self::AddNorm),
            ("comm", "norm") if first.kind() == "all_reduce" => Some(Self::AllReduceNorm),
            _ => None,
        }
    }
}

/// The chains of every two categories of a run.
pub(super) struct Chains {
    categories: usize,
    /// By the first category, then the second.
    of: Vec<Option<Chain>>,
}

impl Chains {
    pub(super) fn new(classes: &Classes) -> Self {
        let all = classes.categories();
        Self {
            categories: all.len(),
            of: all
                .iter()
                .flat_map(|first| all.iter().map(move |second| Chain::of(first, second)))
                .collect(),
        }
    }

    /// How many sums there are: one a chain and category that would go.
    pub(super) fn slots(&self) -> usize {
        Chain::ALL.len() * self.categories
    }

    /// Follows the kernels of a step on so many streams.
    pub(super) fn follow(&self, streams: usize) -> Follower<'_> {
        Follower { chains: self, before: vec![None; streams] }
    }

    /// The sums with their names, longest first.
    pub(super) fn facts(&self, classes: &Classes, sums: &[(u64, i64)]) -> Vec<ChainFacts> {
        let mut out: Vec<ChainFacts> = sums
            .iter()
            .enumerate()
            .filter(|(_, (calls, _))| *calls > 0)
            .map(|(slot, &(calls, busy_ns))| ChainFacts {
                chain: Chain::ALL[slot / self.categories],
                category: classes.categories()[slot % self.categories].as_str().to_owned(),
                calls,
                busy_ns,
            })
            .collect();
        out.sort_by_key(|facts| std::cmp::Reverse(facts.busy_ns));
        out
    }
}

/// What ran last on each stream of a step.
pub(super) struct Follower<'c> {
    chains: &'c Chains,
    /// Category and duration; and whether it is part of a chain already.
    before: Vec<Option<(u32, i64, bool)>>,
}

impl Follower<'_> {
    /// A step begins: nothing ran before.
    pub(super) fn begin(&mut self) {
        self.before.fill(None);
    }

    /// Something that is no kernel ran.
    pub(super) fn other(&mut self, stream: u32) {
        self.before[stream as usize] = None;
    }

    /// A kernel ran: the sum and the duration of the one that would go, if it ends a chain.
    pub(super) fn kernel(&mut self, stream: u32, category: u32, ns: i64) -> Option<(usize, i64)> {
        let before = &mut self.before[stream as usize];
        let mut counted = false;
        let mut found = None;
        if let Some((first, first_ns, used)) = *before
            && let Some(chain) =
                self.chains.of[first as usize * self.chains.categories + category as usize]
        {
            let slot = |of: u32| chain as usize * self.chains.categories + of as usize;
            if !chain.first_goes() {
                counted = true;
                found = Some((slot(category), ns));
            } else if !used {
                found = Some((slot(first), first_ns));
            }
        }
        *before = Some((category, ns, counted));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Classification, Classifier};

    fn category(name: &str) -> Category {
        let Classification { category, .. } = Classifier::builtin().classify(name, None);
        category
    }

    #[test]
    fn neighbours_that_engines_fuse_are_chains_and_others_are_not() {
        let norm = category("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(T1*)");
        let quant = category("void per_token_group_quant_8bit_kernel<c10::BFloat16>(T1*)");
        let gemm = category("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT");
        let act = category("void vllm::act_and_mul_kernel<c10::BFloat16>(T1*)");
        let reduce = category("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)");
        assert_eq!(quant.family(), "quant");
        assert_eq!(Chain::of(&norm, &quant), Some(Chain::NormQuantise));
        assert_eq!(Chain::of(&act, &quant), Some(Chain::ActivationQuantise));
        assert_eq!(Chain::of(&quant, &gemm), Some(Chain::QuantiseProduct));
        assert_eq!(Chain::of(&reduce, &norm), Some(Chain::AllReduceNorm));
        assert_eq!(Chain::of(&norm, &gemm), None);
        assert_eq!(Chain::of(&gemm, &act), None);
        assert_eq!(Chain::of(&gemm, &reduce), None);
    }

    #[test]
    fn a_kernel_goes_once() {
        // 0 is a norm, 1 a quantisation, 2 a product.
        let mut of = vec![None; 9];
        (of[1], of[5]) = (Some(Chain::NormQuantise), Some(Chain::QuantiseProduct));
        let chains = Chains { categories: 3, of };
        let mut follower = chains.follow(2);
        follower.begin();
        assert_eq!(follower.kernel(0, 0, 10), None);
        assert_eq!(follower.kernel(1, 2, 99), None);
        assert_eq!(follower.kernel(0, 1, 20), Some((1, 20)));
        // It is part of the norm by now.
        assert_eq!(follower.kernel(0, 2, 30), None);
        assert_eq!(follower.kernel(0, 1, 40), None);
        assert_eq!(follower.kernel(0, 2, 50), Some((Chain::QuantiseProduct as usize * 3 + 1, 40)));
        follower.kernel(0, 1, 40);
        follower.other(0);
        assert_eq!(follower.kernel(0, 2, 50), None);
    }
}
