//! From what is known of a run to the rows of its tables.

use super::annotated::{ActivityRow, Annotated};
use super::column::{Rows, Table};
use super::schema::{COLLECTIVES, KERNELS, OPS, STEPS, TableKind};
use crate::analysis::ActivityKind;
use crate::segment::{StepsRows, step_times};

/// Rows of a part of the table of kernels: a few tens of MB.
const PART: usize = 1 << 17;

impl Annotated<'_> {
    /// A table, part by part; at least one part, which has no rows where the table has none.
    pub fn parts(&self, table: TableKind) -> Box<dyn Iterator<Item = Table> + '_> {
        match table {
            TableKind::Kernels => Box::new(self.kernels()),
            TableKind::Steps => Box::new(std::iter::once_with(|| self.steps())),
            TableKind::Collectives => Box::new(std::iter::once_with(|| self.collectives())),
            TableKind::Ops => Box::new(std::iter::once_with(|| self.ops())),
        }
    }

    /// Every GPU activity by rank, then in order of start; in parts, since there can be many.
    pub fn kernels(&self) -> impl Iterator<Item = Table> + '_ {
        let mut activities = self.activities();
        let mut first = true;
        std::iter::from_fn(move || {
            let mut rows = Rows::new(KERNELS);
            for activity in activities.by_ref().take(PART) {
                kernel(&mut rows, &activity);
            }
            (std::mem::take(&mut first) || !rows.is_empty()).then(|| rows.finish())
        })
    }

    /// Every step, by rank, then in order.
    pub fn steps(&self) -> Table {
        let times = step_times(self.run, &self.classes, &self.steps);
        let mut rows = Rows::new(STEPS);
        for step in &StepsRows::new(&self.steps, &times, false).steps {
            rows.put(step.rank)
                .put(step.index)
                .put(step.phase.as_str())
                .put(step.tokens)
                .put(step.padded_tokens)
                .put(step.tokens_witness.as_deref())
                .put(step.batch)
                .put(step.method.as_str())
                .put(step.start_ns)
                .put(step.end_ns)
                .put(step.wall_ns)
                .put(step.busy_ns)
                .put(step.layers)
                .put(step.kernels)
                .put(step.graph_launches)
                .end();
        }
        rows.finish()
    }

    /// Every matched collective, one row a rank that takes part.
    pub fn collectives(&self) -> Table {
        let places = self.places();
        let mut rows = Rows::new(COLLECTIVES);
        for (number, call) in self.matched.calls().enumerate() {
            let message = self.message(&call);
            let key = places.key(&call);
            let several = call.width() > 1;
            for part in call.members() {
                let trace = &self.run.traces()[self.run.ranks()[part.rank as usize].file];
                let row = part.row as usize;
                rows.put(number as u32)
                    .put(part.rank)
                    .put(call.width() as u32)
                    .put(call.kind())
                    .put(call.category().as_str())
                    .put(call.name())
                    .put(message.op)
                    .put(key.map_or("outside", |key| key.phase.as_str()))
                    .put(key.and_then(|key| key.batch))
                    .put(places.step(part.rank, part.row).map(|step| step.index))
                    .put(places.layer(part.rank, part.row))
                    .put(trace.kernels().start()[row])
                    .put(trace.kernels().end()[row])
                    .put(part.arrival_ns)
                    .put(part.duration_ns)
                    .put(several.then_some(part.wait_ns))
                    .put(several.then_some(part.transfer_ns))
                    .put(several.then(|| call.last_rank()))
                    .put(message.bytes)
                    .put(message.provenance.map(crate::model::Provenance::as_str))
                    .end();
            }
        }
        rows.finish()
    }

    /// The model's operations by phase and batch; without rows where no model was given.
    pub fn ops(&self) -> Table {
        let mut rows = Rows::new(OPS);
        for op in self.ops_found().unwrap_or_default() {
            rows.put(op.phase)
                .put(op.batch)
                .put(op.op)
                .put(op.category)
                .put(op.kernels.join("\n").as_str())
                .put(op.calls)
                .put(op.time_ns)
                .put(op.wall_ns)
                .put(op.per_step_ns)
                .put(op.m)
                .put(op.n)
                .put(op.k)
                .put(op.groups)
                .put(op.weights.as_deref())
                .put(op.flops)
                .put(op.bytes)
                .put(op.flops_per_s)
                .put(op.bytes_per_s)
                .put(op.intensity)
                .put(op.floor_ns)
                .put(op.bound)
                .put(op.efficiency)
                .put(op.headroom_ns)
                .put(op.impossible)
                .end();
        }
        rows.finish()
    }
}

/// The text form of an activity's table.
fn kind(table: ActivityKind) -> &'static str {
    match table {
        ActivityKind::Kernel => "kernel",
        ActivityKind::Graph => "graph",
        ActivityKind::Memcpy => "memcpy",
        ActivityKind::Memset => "memset",
    }
}

fn kernel(rows: &mut Rows, row: &ActivityRow<'_>) {
    // -1 stands for ids that the export lacks.
    let known = |id: i64| Some(id).filter(|id| *id >= 0);
    let (stream, grid, launch) = (row.stream(), row.grid(), row.launch());
    let (api, names) = (row.trace.api(), row.trace.api_names());
    rows.put(row.rank)
        .put(known(stream.device))
        .put(known(stream.context))
        .put(known(stream.stream))
        .put(kind(row.activity.table))
        .put(row.activity.start)
        .put(row.activity.end)
        .put(row.name())
        .put(row.category)
        .put(row.step.map(|step| step.index))
        .put(row.step.map(|step| step.phase.as_str()))
        .put(row.step.and_then(|step| step.batch))
        .put(row.layer)
        .put(row.assignment.map(|known| known.op))
        .put(row.assignment.and_then(|known| known.m))
        .put(row.assignment.and_then(|known| known.n))
        .put(row.assignment.and_then(|known| known.k))
        .put(row.assignment.and_then(|known| known.groups))
        .put(grid.map(|[x, _, _]| x))
        .put(grid.map(|[_, y, _]| y))
        .put(grid.map(|[_, _, z]| z))
        .put(row.bytes())
        .put(row.correlation())
        .put(row.graph_node())
        .put(launch.map(|call| api.start()[call]))
        .put(launch.map(|call| api.end()[call]))
        .put(launch.map(|call| &*names[api.name()[call] as usize].name))
        .put(row.collective.map(|(number, _)| number))
        .put(row.collective.and_then(|(_, wait)| wait))
        .end();
}
