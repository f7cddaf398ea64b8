//! A run with everything that is known of each activity.

use rustc_hash::FxHashMap;

use crate::Result;
use crate::analysis::{Activity, ActivityKind, Call, Classes, Collectives, Message, collectives};
use crate::attribute::{Assignment, Attribution};
use crate::capture::{NONE, Stream, Trace};
use crate::kernel::Classifier;
use crate::report::{
    DeploymentSection, KnownMessages, OpSection, ReportOptions, ResolvedModel, op_rows,
};
use crate::run::Run;
use crate::segment::{Layer, PhaseKey, RankSteps, Step, Steps};

/// A run's activities with their categories, steps, layers, operations and collectives, from which
/// tables and traces are written.
///
/// Made from the same options as a [`Report`](crate::report::Report): what its tables sum to is what
/// the report says.
#[derive(Debug)]
pub struct Annotated<'a> {
    pub(crate) run: &'a Run,
    pub(crate) classes: Classes,
    pub(crate) steps: Steps,
    pub(crate) matched: Collectives,
    attribution: Option<Attribution>,
    known: KnownMessages,
    ops: Option<Vec<OpSection>>,
    /// By rank and row of its kernel table: the collective's number, and this rank's wait.
    member: FxHashMap<(u32, u32), (u32, Option<i64>)>,
}

/// One activity and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivityRow<'a> {
    pub(crate) rank: u32,
    pub(crate) trace: &'a Trace,
    pub(crate) activity: &'a Activity,
    pub(crate) category: &'a str,
    pub(crate) step: Option<&'a Step>,
    pub(crate) layer: Option<u32>,
    pub(crate) assignment: Option<&'a Assignment>,
    /// The collective's number, and this rank's wait where it has partners.
    pub(crate) collective: Option<(u32, Option<i64>)>,
}

impl<'a> ActivityRow<'a> {
    /// The demangled name; copies, fills and graphs go by their category.
    pub(crate) fn name(&self) -> &'a str {
        if self.activity.table != ActivityKind::Kernel {
            return self.category;
        }
        let name = self.trace.kernels().name()[self.activity.row as usize];
        &self.trace.kernel_names()[name as usize].demangled
    }

    pub(crate) fn stream(&self) -> &'a Stream {
        &self.trace.streams()[self.activity.stream as usize]
    }

    /// Blocks in x, y and z of a kernel.
    pub(crate) fn grid(&self) -> Option<[u32; 3]> {
        if self.activity.table != ActivityKind::Kernel {
            return None;
        }
        let geometry = self.trace.kernels().geometry()[self.activity.row as usize];
        // 0 says unknown.
        let grid = self.trace.geometries()[geometry as usize].grid;
        grid.iter().all(|&blocks| blocks > 0).then_some(grid)
    }

    /// What a copy moved or a fill wrote.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let row = self.activity.row as usize;
        match self.activity.table {
            ActivityKind::Memcpy => Some(self.trace.memcpys().bytes()[row]),
            ActivityKind::Memset => Some(self.trace.memsets().bytes()[row]),
            ActivityKind::Kernel | ActivityKind::Graph => None,
        }
    }

    /// nsys' id of the CUDA graph node that a kernel executes.
    pub(crate) fn graph_node(&self) -> Option<i64> {
        if self.activity.table != ActivityKind::Kernel {
            return None;
        }
        let node = self.trace.kernels().node(self.activity.row as usize);
        self.trace.graph_nodes().get(node as usize).copied()
    }

    /// CUPTI's correlation id.
    pub(crate) fn correlation(&self) -> Option<u32> {
        Some(self.activity.correlation(self.trace)).filter(|id| *id != NONE)
    }

    /// The row of the call that launched it.
    pub(crate) fn launch(&self) -> Option<usize> {
        Some(self.activity.launch).filter(|row| *row != NONE).map(|row| row as usize)
    }
}

impl<'a> Annotated<'a> {
    /// Finds steps, operations and collectives as a report of these options does.
    ///
    /// # Errors
    /// As [`Report::new`](crate::report::Report::new): of model, deployment and selection.
    pub fn new(run: &'a Run, classifier: &Classifier, options: &ReportOptions) -> Result<Self> {
        let classes = Classes::new(run, classifier);
        let steps = Steps::find(run, &classes, &options.steps).select(&options.selection)?;
        let matched = collectives(run, &classes);
        let mut known = KnownMessages::of_ranges(run, &classes);
        let (mut attribution, mut ops) = (None, None);
        if let Some(context) = &options.model {
            let deployment = DeploymentSection::new(run, options.deployment.as_ref())?;
            let resolved = ResolvedModel::new(context, run, deployment.as_ref())?;
            let found = resolved.attribute(context, run, &classes, &steps)?;
            known.with_model(run, &steps, &found, &resolved);
            ops = Some(op_rows(&found));
            attribution = Some(found);
        }
        let mut member = FxHashMap::default();
        for (number, call) in matched.calls().enumerate() {
            let several = call.width() > 1;
            for part in call.members() {
                let wait = several.then_some(part.wait_ns);
                member.insert((part.rank, part.row), (number as u32, wait));
            }
        }
        Ok(Self { run, classes, steps, matched, attribution, known, ops, member })
    }

    /// The run.
    pub fn run(&self) -> &'a Run {
        self.run
    }

    /// The steps of every rank.
    pub fn steps_found(&self) -> &Steps {
        &self.steps
    }

    /// The matched collectives.
    pub fn collectives_found(&self) -> &Collectives {
        &self.matched
    }

    pub(super) fn ops_found(&self) -> Option<&[OpSection]> {
        self.ops.as_deref()
    }

    /// Every activity of every rank, by rank, then in order of start.
    pub(crate) fn activities(&self) -> impl Iterator<Item = ActivityRow<'_>> {
        (0..self.steps.ranks.len()).flat_map(|at| self.activities_of(at))
    }

    /// The activities of one of the steps' ranks, in order of start.
    pub(crate) fn activities_of(&self, at: usize) -> impl Iterator<Item = ActivityRow<'_>> {
        let rank = &self.steps.ranks[at];
        let file = self.run.ranks()[rank.rank as usize].file;
        let trace = &self.run.traces()[file];
        let steps = rank.activities().iter().zip(rank.step_of()).enumerate();
        steps.map(move |(index, (activity, &step))| {
            let class = u32::from(rank.category()[index]);
            let step = rank.steps.get(step as usize);
            let assignment = self.attribution.as_ref().and_then(|known| known.of(at, index));
            let kernel = activity.table == ActivityKind::Kernel;
            ActivityRow {
                rank: rank.rank,
                trace,
                activity,
                category: self.classes.categories()[class as usize].as_str(),
                step,
                layer: match assignment {
                    Some(assignment) => assignment.layer,
                    None => step.and_then(|step| layer_of(&step.layers, index)),
                },
                assignment,
                collective: kernel
                    .then(|| self.member.get(&(rank.rank, activity.row)).copied())
                    .flatten(),
            }
        })
    }

    pub(super) fn message(&self, call: &Call<'_>) -> Message {
        self.known.message(call)
    }

    /// For each of the steps' ranks, the activity that each row of its kernel table is.
    pub(super) fn places(&self) -> Places<'_> {
        let index = self.steps.ranks.iter().map(|rank| {
            let trace = &self.run.traces()[self.run.ranks()[rank.rank as usize].file];
            let mut out = vec![NONE; trace.kernels().len()];
            for (index, activity) in rank.activities().iter().enumerate() {
                if activity.table == ActivityKind::Kernel {
                    out[activity.row as usize] = index as u32;
                }
            }
            out
        });
        Places { all: self, index_of: index.collect() }
    }
}

/// The layer that holds an activity.
fn layer_of(layers: &[Layer], index: usize) -> Option<u32> {
    let layer = layers.iter().find(|l| (l.first as usize..l.last as usize).contains(&index))?;
    Some(layer.index)
}

/// Where the kernels of each rank's table are.
pub(super) struct Places<'a> {
    all: &'a Annotated<'a>,
    index_of: Vec<Vec<u32>>,
}

impl Places<'_> {
    fn at(&self, rank: u32) -> Option<(usize, &RankSteps)> {
        self.all.steps.ranks.iter().enumerate().find(|(_, found)| found.rank == rank)
    }

    /// The step of a kernel.
    pub(super) fn step(&self, rank: u32, row: u32) -> Option<&Step> {
        let (at, found) = self.at(rank)?;
        let step = *found.step_of().get(self.index_of[at][row as usize] as usize)?;
        found.steps.get(step as usize)
    }

    /// The layer of a kernel.
    pub(super) fn layer(&self, rank: u32, row: u32) -> Option<u32> {
        let (at, _) = self.at(rank)?;
        let index = self.index_of[at][row as usize] as usize;
        match self.all.attribution.as_ref().and_then(|known| known.of(at, index)) {
            Some(assignment) => assignment.layer,
            None => layer_of(&self.step(rank, row)?.layers, index),
        }
    }

    /// The phase and batch that a collective counts to: those of its first member's step.
    pub(super) fn key(&self, call: &Call<'_>) -> Option<PhaseKey> {
        let only = self.all.steps.selected.and_then(|selected| selected.by.rank);
        let member = call.members().find(|member| only.is_none_or(|rank| member.rank == rank))?;
        self.step(member.rank, member.row).map(Step::key)
    }
}
