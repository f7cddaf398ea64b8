//! CUDA-graph replays, traced by node or as a whole.

use crate::builder::CaptureBuilder;
use crate::ids::Stream;
use crate::rows::KernelRow;

/// One kernel of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    name: String,
    duration: i64,
    gap: i64,
    stream: Option<u32>,
    grid: [u32; 3],
}

impl GraphNode {
    /// A kernel that runs for `duration` ns right after the node before it.
    pub fn new(name: impl Into<String>, duration: i64) -> Self {
        Self { name: name.into(), duration, gap: 0, stream: None, grid: [1, 1, 1] }
    }

    /// Idle time before the kernel, in ns; negative where it starts before the
    /// node before it has ended.
    #[must_use]
    pub const fn gap(mut self, ns: i64) -> Self {
        self.gap = ns;
        self
    }

    /// The stream it runs on, if not the one of the launch.
    #[must_use]
    pub const fn on_stream(mut self, stream: u32) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Blocks in the grid.
    #[must_use]
    pub const fn grid(mut self, x: u32, y: u32, z: u32) -> Self {
        self.grid = [x, y, z];
        self
    }
}

/// When a graph is replayed, and which graph it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// The id of the graph.
    pub graph: i64,
    /// The id of its instance; the upper half of every node's id.
    pub exec: i64,
    /// How often it runs.
    pub times: u32,
    /// When the first replay's first kernel starts.
    pub first_start: i64,
    /// From the start of one replay to the start of the next, in ns.
    pub period: i64,
    /// How long before its first kernel a replay's `cudaGraphLaunch` begins, in ns.
    pub launch_lead: i64,
    /// How long that call takes, in ns.
    pub launch_duration: i64,
}

impl Default for ReplayPlan {
    /// Instance 2 of graph 1, once, at 100 µs, launched 20 µs ahead in 5 µs.
    fn default() -> Self {
        Self {
            graph: 1,
            exec: 2,
            times: 1,
            first_start: 100_000,
            period: 1_000_000,
            launch_lead: 20_000,
            launch_duration: 5_000,
        }
    }
}

/// What one replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The correlation id of its launch.
    pub correlation: u32,
    /// When its first kernel started.
    pub start: i64,
    /// When its last kernel ended.
    pub end: i64,
}

impl ReplayPlan {
    /// The id that kernels of node `index` carry.
    pub const fn node_id(&self, index: usize) -> i64 {
        (self.exec << 32) | index as i64
    }

    /// The id of the node that node `index` was cloned from at instantiation.
    pub const fn original_node_id(&self, index: usize) -> i64 {
        (self.graph << 32) | index as i64
    }
}

/// When the nodes of one replay run, relative to the plan's start.
struct Schedule {
    times: Vec<(i64, i64)>,
    first: i64,
    last: i64,
}

fn schedule(nodes: &[GraphNode]) -> Schedule {
    let mut cursor = 0;
    let times: Vec<(i64, i64)> = nodes
        .iter()
        .map(|node| {
            let start = cursor + node.gap;
            cursor = start + node.duration;
            (start, cursor)
        })
        .collect();
    let first = times.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let last = times.iter().map(|(_, end)| *end).max().unwrap_or(0);
    Schedule { times, first, last }
}

impl CaptureBuilder {
    /// Replays a graph that is traced by node: a `cudaGraphLaunch` row and, under
    /// its correlation id, one kernel row per node, each with its node's id.
    /// `graphId`, where the schema has it, holds the instance's id.
    pub fn replay_nodes(
        &mut self,
        on: Stream,
        nodes: &[GraphNode],
        plan: &ReplayPlan,
    ) -> Vec<Replay> {
        let Schedule { times, first, .. } = schedule(nodes);
        let replays = self.launch_replays(on, nodes, plan);
        for replay in &replays {
            for (index, (node, (start, end))) in nodes.iter().zip(&times).enumerate() {
                let stream = node.stream.map_or(on, |stream| on.sibling(stream));
                let [x, y, z] = node.grid;
                let mut kernel = KernelRow::new(stream, &node.name);
                kernel
                    .at(replay.start - first + start, replay.start - first + end)
                    .correlation(replay.correlation)
                    .graph_node(plan.node_id(index))
                    .graph(plan.exec)
                    .grid(x, y, z);
                self.add_kernel(kernel);
            }
        }
        replays
    }

    /// Replays the same graph traced as a whole: a `cudaGraphLaunch` row and one
    /// whole-graph row per replay, from the first kernel's start to the last
    /// one's end, and no kernel at all.
    pub fn replay_whole(
        &mut self,
        on: Stream,
        nodes: &[GraphNode],
        plan: &ReplayPlan,
    ) -> Vec<Replay> {
        let replays = self.launch_replays(on, nodes, plan);
        for replay in &replays {
            self.graph_trace(on, plan.graph, plan.exec)
                .at(replay.start, replay.end)
                .correlation(replay.correlation);
        }
        replays
    }

    /// Adds the creation of the graph's nodes and of their clones in the
    /// instance, one of each every 1 µs from `at`.
    pub fn create_graph(
        &mut self,
        on: Stream,
        nodes: &[GraphNode],
        plan: &ReplayPlan,
        at: i64,
    ) -> &mut Self {
        let thread = on.process.main_thread();
        self.graph_creation(thread, at, plan.graph, plan.exec);
        for index in 0..nodes.len() {
            let at = at + 1_000 * index as i64;
            let original = plan.original_node_id(index);
            self.node_creation(thread, at, original, None);
            self.node_creation(thread, at, plan.node_id(index), Some(original));
        }
        self
    }

    /// Adds the launches of all replays and says when each runs.
    fn launch_replays(
        &mut self,
        on: Stream,
        nodes: &[GraphNode],
        plan: &ReplayPlan,
    ) -> Vec<Replay> {
        let Schedule { first, last, .. } = schedule(nodes);
        (0..plan.times)
            .map(|i| {
                let begin = plan.first_start + i64::from(i) * plan.period;
                let correlation = self.fresh_correlation(on.process);
                let launch = begin - plan.launch_lead;
                self.launch(on.process.main_thread(), "cudaGraphLaunch_v10000")
                    .at(launch, launch + plan.launch_duration)
                    .correlation(correlation);
                Replay { correlation, start: begin + first, end: begin + last }
            })
            .collect()
    }
}
