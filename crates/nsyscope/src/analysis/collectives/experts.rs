//! How evenly the experts' work is spread over ranks.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::run::Run;

use super::super::activities::ActivityKind;
use super::super::classes::Classes;
use super::Collectives;
use super::group::Call;

/// The category of the experts' products.
const EXPERTS: &str = "moe/moe_gemm";

/// What ranks spend on the experts' products before the collectives that join them.
///
/// A collective counts where any rank ran such products since its previous one. The slowest rank
/// decides when it can begin, so what the slowest takes beyond the mean is what even work would
/// save, as far as the others were seen to wait for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExpertBalance {
    /// The ranks that take part.
    pub group: Vec<u32>,
    /// Collectives with experts' products before them.
    pub calls: u64,
    /// How many of the collectives of these ranks are all-to-alls (or dispatch and combine), which spread
    /// tokens over experts.
    pub all_to_all_calls: u64,
    /// The experts' products of each rank before those, in ns; in the order of `group`.
    pub rank_ns: Vec<i64>,
    /// The mean over ranks, summed over calls, in ns.
    pub mean_ns: i64,
    /// The slowest rank of each call, summed over calls, in ns.
    pub slowest_ns: i64,
    /// `slowest_ns` over `mean_ns`: 1 where all ranks take the same time.
    pub ratio: f64,
    /// What the slowest took beyond the mean, of each call at most what its ranks waited on
    /// average, in ns.
    pub waited_for_ns: i64,
}

#[derive(Default)]
struct Sum {
    calls: u64,
    all_to_all: u64,
    rank_ns: Vec<i64>,
    mean: i64,
    slowest: i64,
    waited_for: i64,
}

impl Collectives {
    /// How evenly experts work before the collectives that `keep` lets through, by the ranks that
    /// take part; nothing where no such products ran. `run` and `classes` must be those that this
    /// was made from.
    pub fn experts<'a>(
        &'a self,
        run: &Run,
        classes: &Classes,
        keep: impl Fn(&Call<'a>) -> bool,
    ) -> Vec<ExpertBalance> {
        let Some(wanted) = classes.categories().iter().position(|c| c.as_str() == EXPERTS) else {
            return Vec::new();
        };
        let mut sums: BTreeMap<Vec<u32>, Sum> = BTreeMap::new();
        let mut each: Vec<(u32, i64)> = Vec::new();
        for call in self.calls().filter(|call| call.width() > 1 && keep(call)) {
            if call.arrivals().iter().any(|arrival| arrival.since_ns == i64::MIN) {
                continue;
            }
            each.clear();
            for (&rank, arrival) in call.group.ranks.iter().zip(call.arrivals()) {
                let file = run.ranks()[rank as usize].file;
                let trace = &run.traces()[file];
                let table = trace.kernels();
                let window = arrival.since as usize..arrival.position as usize;
                let ns = self.items[rank as usize][window]
                    .iter()
                    .filter(|item| item.table() == ActivityKind::Kernel)
                    .map(|item| item.row() as usize)
                    .filter(|&at| classes.kernel(file, table.name()[at]) as usize == wanted)
                    .map(|at| table.end()[at] - table.start()[at])
                    .sum();
                each.push((rank, ns));
            }
            each.sort_unstable();
            let sum = sums.entry(each.iter().map(|(rank, _)| *rank).collect()).or_default();
            sum.all_to_all +=
                u64::from(matches!(call.kind(), "all_to_all" | "ep_dispatch" | "ep_combine"));
            let ranks = each.len() as i64;
            let total: i64 = each.iter().map(|(_, ns)| ns).sum();
            if total == 0 {
                continue;
            }
            let slowest = each.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
            let mean = total / ranks;
            sum.rank_ns.resize(each.len(), 0);
            for (sum, (_, ns)) in sum.rank_ns.iter_mut().zip(&each) {
                *sum += ns;
            }
            sum.calls += 1;
            sum.mean += mean;
            sum.slowest += slowest;
            sum.waited_for += (slowest - mean).min(call.wait_ns() / ranks);
        }
        sums.into_iter()
            .filter(|(_, sum)| sum.calls > 0)
            .map(|(group, sum)| ExpertBalance {
                group,
                calls: sum.calls,
                all_to_all_calls: sum.all_to_all,
                rank_ns: sum.rank_ns,
                mean_ns: sum.mean,
                slowest_ns: sum.slowest,
                ratio: sum.slowest as f64 / sum.mean.max(1) as f64,
                waited_for_ns: sum.waited_for,
            })
            .collect()
    }
}
