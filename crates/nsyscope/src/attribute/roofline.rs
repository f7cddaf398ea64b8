//! Operations against the least time that they could take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::align::Alignment;
use super::attribution::Target;
use super::possible::least_ns;
use super::roles::Roles;
use super::step::{StepPhase, Work};
use crate::analysis::WallClock;
use crate::capture::NONE;
use crate::cost::{Bound, Op};
use crate::run::Run;
use crate::segment::{PhaseKey, Step};

/// An operation summed up over the steps of a phase.
///
/// Costs are those of the calls that were seen. What depends on something unknown (the step's
/// tokens, the context, a weight format, the GPU's peaks) is `None`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpRow {
    /// The operation.
    pub op: &'static str,
    /// Its category.
    pub category: &'static str,
    /// The kernels that execute it, by name, those that take longest first.
    pub kernels: Vec<String>,
    /// How often it ran, over all ranks.
    pub calls: u64,
    /// The sum of its activities' durations in ns.
    pub time_ns: i64,
    /// Its share of the steps' wall time in ns: concurrent activities share an instant.
    pub wall_ns: i64,
    /// Rows of a product, in one call.
    pub m: Option<f64>,
    /// Columns of a product.
    pub n: Option<u64>,
    /// Inner dimension of a product.
    pub k: Option<u64>,
    /// Products at once: heads, or the expected number of distinct experts.
    pub groups: Option<f64>,
    /// How the model stores its weights, where it has any.
    pub weights: Option<String>,
    /// Floating-point operations of all calls.
    pub flops: Option<f64>,
    /// Bytes of all calls.
    pub bytes: Option<f64>,
    /// FLOPs a second of `time_ns`.
    pub flops_per_s: Option<f64>,
    /// Bytes a second of `time_ns`.
    pub bytes_per_s: Option<f64>,
    /// FLOPs a byte.
    pub intensity: Option<f64>,
    /// The least time of all calls in ns.
    pub floor_ns: Option<i64>,
    /// What bounds it.
    pub bound: Option<Bound>,
    /// Floor over measured, beyond 1 where fewer experts are hit than uniform routing expects.
    pub efficiency: Option<f64>,
    /// Measured minus floor in ns.
    pub headroom_ns: Option<i64>,
    /// Whether it is faster than anything can be: its kernels are not this operation, or the
    /// shapes, the weights' format or the GPU are not as given.
    pub impossible: bool,
}

/// A kernel that no operation of the model explains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmappedKernel {
    /// Its demangled name; empty for copies and fills.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// The sum of its durations in ns.
    pub time_ns: i64,
}

/// Steps of one phase and number of sequences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PhaseOps {
    /// Which steps.
    pub key: PhaseKey,
    /// How many, each rank's counted.
    pub steps: u64,
    /// The sum of their wall times in ns.
    pub wall_ns: i64,
    /// The time in which nothing of the step ran.
    pub idle_ns: i64,
    /// The sum of durations of activities that could not be placed.
    pub unmapped_ns: i64,
    /// Their share of the wall time.
    pub unmapped_wall_ns: i64,
    /// Their kernels, those that take longest first.
    pub unmapped: Vec<UnmappedKernel>,
    /// The operations, those with the largest share of the wall time first; with `idle_ns` and
    /// `unmapped_wall_ns` their `wall_ns` sum to `wall_ns`.
    pub ops: Vec<OpRow>,
    /// The least time of the steps in ns, whether their operations were seen or not.
    pub floor_ns: Option<i64>,
}

/// Rows are told apart by operation and shape.
type RowKey = (&'static str, Option<u64>, Option<u64>, Option<u64>);

/// What is summed up for an operation.
struct Sum {
    op: Op,
    known: Known,
    calls: u64,
    time_ns: i64,
    wall_ns: i64,
}

/// Which figures of an operation rest on something known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    rows: bool,
    cost: bool,
}

struct Group {
    steps: u64,
    wall_ns: i64,
    idle_ns: i64,
    unmapped_ns: i64,
    unmapped_wall_ns: i64,
    /// Calls and time of kernels without an operation, by name.
    unmapped: BTreeMap<u32, (u64, i64)>,
    keys: BTreeMap<RowKey, u32>,
    sums: Vec<Sum>,
    /// Time by row and kernel name, and where each of them is.
    kernels: Vec<(u32, u32, i64)>,
    kernel_at: BTreeMap<(u32, u32), u32>,
    /// For each alignment that the group has seen: the row of each activity, calls of each row,
    /// and the floor of a step.
    plans: BTreeMap<usize, Plan>,
    floor_ns: Option<f64>,
}

struct Plan {
    // Kept so that the address, which is the key, stays its own.
    _alignment: Arc<Alignment>,
    /// For each activity its row and its entry among the kernels.
    rows: Vec<(u32, u32)>,
    calls: Vec<(u32, u64)>,
    floor_ns: Option<f64>,
}

/// Sums up operations while steps are aligned.
pub(super) struct Tally<'a> {
    target: &'a Target<'a>,
    groups: BTreeMap<PhaseKey, Group>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(target: &'a Target<'a>) -> Self {
        Self { target, groups: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, step: &Step, alignment: &Arc<Alignment>, work: &[Work]) {
        let key = step.key();
        let group = self.groups.entry(key).or_insert_with(|| Group {
            steps: 0,
            wall_ns: 0,
            idle_ns: 0,
            unmapped_ns: 0,
            unmapped_wall_ns: 0,
            unmapped: BTreeMap::new(),
            keys: BTreeMap::new(),
            sums: Vec::new(),
            kernels: Vec::new(),
            kernel_at: BTreeMap::new(),
            plans: BTreeMap::new(),
            floor_ns: Some(0.0),
        });
        let address = Arc::as_ptr(alignment) as usize;
        if !group.plans.contains_key(&address) {
            let plan = group.plan(alignment, work, self.target);
            group.plans.insert(address, plan);
        }
        let Some(plan) = group.plans.get(&address) else { return };
        group.steps += 1;
        group.floor_ns = group.floor_ns.zip(plan.floor_ns).map(|(sum, ns)| sum + ns);
        for &(row, calls) in &plan.calls {
            group.sums[row as usize].calls += calls;
        }
        let unmapped = group.sums.len();
        let mut clock = WallClock::new(unmapped + 1);
        for (w, &(row, kernel)) in work.iter().zip(&plan.rows) {
            let length = w.end - w.start;
            if row == NONE {
                group.unmapped_ns += length;
                let entry = group.unmapped.entry(w.name).or_default();
                entry.0 += 1;
                entry.1 += length;
                clock.add(w.start, w.end, unmapped as u32);
                continue;
            }
            group.sums[row as usize].time_ns += length;
            group.kernels[kernel as usize].2 += length;
            clock.add(w.start, w.end, row);
        }
        let wall = clock.finish();
        group.wall_ns += wall.end - wall.start;
        group.idle_ns += wall.idle_ns;
        group.unmapped_wall_ns += wall.exposed_ns[unmapped];
        for (sum, ns) in group.sums.iter_mut().zip(&wall.exposed_ns) {
            sum.wall_ns += ns;
        }
    }

    pub(super) fn finish(self, run: &Run, roles: &Roles) -> Vec<PhaseOps> {
        let target = self.target;
        self.groups
            .into_iter()
            .map(|(key, group)| {
                let mut kernels = group.kernels;
                kernels.sort_by_key(|&(row, name, ns)| (row, std::cmp::Reverse(ns), name));
                let named = |row: usize| {
                    let own = kernels.iter().filter(|(of, _, _)| *of as usize == row);
                    let names = own.filter_map(|&(_, name, _)| roles.kernel_name(run, name));
                    let mut out: Vec<String> = Vec::new();
                    for name in names {
                        if !out.iter().any(|known| known == name) {
                            out.push(name.to_owned());
                        }
                    }
                    out
                };
                let sums = group.sums.into_iter().enumerate();
                let mut ops: Vec<OpRow> =
                    sums.map(|(row, sum)| sum.row(named(row), target)).collect();
                ops.sort_by(|a, b| {
                    b.wall_ns.cmp(&a.wall_ns).then_with(|| a.op.cmp(b.op)).then(a.n.cmp(&b.n))
                });
                let mut unmapped: Vec<UnmappedKernel> = group
                    .unmapped
                    .into_iter()
                    .map(|(name, (calls, time_ns))| UnmappedKernel {
                        name: roles.kernel_name(run, name).unwrap_or_default().to_owned(),
                        calls,
                        time_ns,
                    })
                    .collect();
                unmapped.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then(a.name.cmp(&b.name)));
                PhaseOps {
                    key,
                    steps: group.steps,
                    wall_ns: group.wall_ns,
                    idle_ns: group.idle_ns,
                    unmapped_ns: group.unmapped_ns,
                    unmapped_wall_ns: group.unmapped_wall_ns,
                    unmapped,
                    ops,
                    floor_ns: group.floor_ns.map(|ns| ns.round() as i64),
                }
            })
            .collect()
    }
}

impl Group {
    fn plan(&mut self, alignment: &Arc<Alignment>, work: &[Work], target: &Target<'_>) -> Plan {
        let setup = &alignment.setup;
        let mut calls: BTreeMap<u32, u64> = BTreeMap::new();
        let rows = alignment
            .placements
            .iter()
            .zip(work)
            .map(|(placement, w)| {
                let Some(p) = placement else { return (NONE, NONE) };
                let op = &alignment.ops[p.op as usize];
                let known = Known {
                    rows: setup.rows.is_some(),
                    cost: setup.rows.is_some()
                        && (op.cache_read == 0.0
                            || setup.context.is_some()
                            || (setup.phase == StepPhase::Prefill && setup.batch.is_some())),
                };
                let m = op.m.filter(|_| known.rows).map(|m| m.round() as u64);
                let row = *self.keys.entry((op.name, m, op.n, op.k)).or_insert_with(|| {
                    self.sums.push(Sum { op: op.clone(), known, calls: 0, time_ns: 0, wall_ns: 0 });
                    (self.sums.len() - 1) as u32
                });
                if p.main && alignment.is_call[p.op as usize] {
                    *calls.entry(row).or_default() += 1;
                }
                let kernel = *self.kernel_at.entry((row, w.name)).or_insert_with(|| {
                    self.kernels.push((row, w.name, 0));
                    (self.kernels.len() - 1) as u32
                });
                (row, kernel)
            })
            .collect();
        let floor_ns = target
            .cost
            .filter(|_| setup.rows.is_some())
            .filter(|_| setup.context.is_some() || setup.phase == StepPhase::Prefill)
            .and_then(|cost| cost.step(&alignment.graph).total);
        Plan { _alignment: alignment.clone(), rows, calls: calls.into_iter().collect(), floor_ns }
    }
}

impl Sum {
    fn row(self, kernels: Vec<String>, target: &Target<'_>) -> OpRow {
        let op = &self.op;
        let calls = self.calls as f64;
        let costed = self.known.cost && self.calls > 0;
        let flops = costed.then_some(op.flops * calls).filter(|f| *f > 0.0);
        let bytes = if costed && op.collective.is_none() {
            op.bytes().map(|b| b * calls).filter(|b| *b > 0.0)
        } else {
            None
        };
        let floor = target.cost.filter(|_| costed).and_then(|cost| cost.floor(op));
        let floor = floor.filter(|f| f.ns > 0.0);
        let floor_ns = floor.map(|f| (f.ns * calls).round() as i64);
        let seconds = self.time_ns as f64 * 1e-9;
        let rate = |amount: Option<f64>| amount.filter(|_| seconds > 0.0).map(|a| a / seconds);
        let impossible = target.cost.filter(|_| costed).is_some_and(|cost| {
            (self.time_ns as f64) < calls * least_ns(op, cost, target.arch, target.parallelism)
        });
        OpRow {
            op: op.name,
            category: op.category,
            kernels,
            calls: self.calls,
            time_ns: self.time_ns,
            wall_ns: self.wall_ns,
            m: op.m.filter(|_| self.known.rows),
            n: op.n,
            k: op.k,
            groups: op.n.map(|_| op.groups),
            weights: op.weight_format.clone(),
            flops,
            bytes,
            flops_per_s: rate(flops),
            bytes_per_s: rate(bytes),
            intensity: flops.zip(bytes).map(|(f, b)| f / b),
            floor_ns,
            bound: floor.map(|f| f.bound),
            efficiency: floor_ns
                .filter(|_| self.time_ns > 0)
                .map(|floor| floor as f64 / self.time_ns as f64),
            headroom_ns: floor_ns.map(|floor| self.time_ns - floor),
            impossible,
        }
    }
}
