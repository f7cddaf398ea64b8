//! Of what the steps of each phase and batch consist, for hypotheses about them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::analysis::{Activity, ActivityKind, Classes, Collectives, WallTime};
use crate::attribute::{Alignment, Attribution, StepPhase};
use crate::capture::NONE;
use crate::causes::{Cause, Idle, IdleTime};
use crate::cost::CostModel;
use crate::run::Run;
use crate::segment::{PhaseKey, RankSteps, Step, Steps};
use crate::whatif::{Atom, IdlePart, Part, Profile, Shared};

/// A step is warming up if it takes so many times the typical one, and is idle for half of it.
const WARM_UP: i64 = 3;

/// Steps of a rank that are summed up by themselves; fixed, so that sums of floating point numbers
/// are the same for any number of threads.
const PART: usize = 256;

/// What the steps of a run are made from.
pub(super) struct Source<'a> {
    pub(super) run: &'a Run,
    pub(super) classes: &'a Classes,
    pub(super) steps: &'a Steps,
    pub(super) times: &'a [Vec<WallTime>],
    pub(super) idle: &'a Idle,
    pub(super) matched: &'a Collectives,
}

/// The model's part: which operation each kernel executes, and what it takes at least.
pub(super) struct Priced<'a> {
    pub(super) attribution: &'a Attribution,
    pub(super) cost: Option<&'a CostModel>,
}

impl Source<'_> {
    /// One profile a phase and batch, those whose steps take most time first.
    pub(super) fn profiles(&self, priced: Option<&Priced<'_>>) -> Vec<Profile> {
        let waits = self.waits();
        let mut usual: BTreeMap<PhaseKey, i64> = BTreeMap::new();
        for key in self.steps.ranks.iter().flat_map(|rank| &rank.steps).map(Step::key) {
            usual.entry(key).or_insert_with(|| self.usual_ns(key));
        }
        let parts: Vec<(usize, Range<usize>)> = self
            .steps
            .ranks
            .iter()
            .enumerate()
            .flat_map(|(at, rank)| {
                let steps = rank.steps.len();
                (0..steps).step_by(PART).map(move |from| (at, from..steps.min(from + PART)))
            })
            .collect();
        let communicates = self.classes.communicate();
        let sums = self.run.threads().map(parts.len(), |part| {
            let (at, range) = parts[part].clone();
            self.tallies(at, range, &usual, &waits[at], Floors::new(priced, &communicates))
        });
        let mut tallies: BTreeMap<PhaseKey, Tally> = BTreeMap::new();
        for (key, tally) in sums.into_iter().flatten() {
            tallies.entry(key).or_default().merge(tally);
        }
        let mut out: Vec<Profile> =
            tallies.into_iter().map(|(key, tally)| tally.finish(key)).collect();
        out.sort_by_key(|profile| Reverse(profile.wall_ns()));
        out
    }

    /// Sums up some of the steps of a rank.
    fn tallies(
        &self,
        at: usize,
        range: Range<usize>,
        usual: &BTreeMap<PhaseKey, i64>,
        waits: &[(u32, i64)],
        mut floors: Floors<'_>,
    ) -> BTreeMap<PhaseKey, Tally> {
        let rank = &self.steps.ranks[at];
        let mut waits = Waits { waits, next: 0 };
        let mut tallies: BTreeMap<PhaseKey, Tally> = BTreeMap::new();
        for number in range {
            let step = &rank.steps[number];
            let key = step.key();
            let tally = tallies.entry(key).or_default();
            let (time, idle) = (&self.times[at][number], &self.idle.steps[at][number]);
            let wall = time.end - time.start;
            let usual = usual.get(&key).copied().unwrap_or(0);
            if wall > usual.saturating_mul(WARM_UP) && idle.total_ns() * 2 > wall {
                tally.warm_up += 1;
                continue;
            }
            tally.step(step, idle);
            self.activities(at, number, rank, step, &mut waits, &mut floors, tally);
        }
        for tally in tallies.values_mut() {
            tally.plans = FxHashMap::default();
        }
        tallies
    }

    /// The lower median of the wall times of steps.
    fn usual_ns(&self, key: PhaseKey) -> i64 {
        let steps = self.steps.ranks.iter().flat_map(|rank| &rank.steps);
        let mut walls: Vec<i64> =
            steps.filter(|step| step.key() == key).map(Step::wall_ns).collect();
        match walls.len().checked_sub(1) {
            Some(last) => *walls.select_nth_unstable(last / 2).1,
            None => 0,
        }
    }

    /// For each of the steps' ranks, the rows of its collectives in the kernel table, ascending, each
    /// with its wait in ns.
    fn waits(&self) -> Vec<Vec<(u32, i64)>> {
        let mut place = vec![None; self.run.ranks().len()];
        for (at, rank) in self.steps.ranks.iter().enumerate() {
            place[rank.rank as usize] = Some(at);
        }
        let mut out = vec![Vec::new(); self.steps.ranks.len()];
        for call in self.matched.calls().filter(|call| call.width() > 1) {
            for member in call.members() {
                if let Some(at) = place[member.rank as usize] {
                    out[at].push((member.row, member.wait_ns));
                }
            }
        }
        // Calls are nearly in the order of each rank's own.
        for rows in &mut out {
            rows.sort_unstable();
        }
        out
    }

    #[allow(clippy::too_many_arguments)]
    fn activities(
        &self,
        at: usize,
        number: usize,
        rank: &RankSteps,
        step: &Step,
        waits: &mut Waits<'_>,
        floors: &mut Floors<'_>,
        tally: &mut Tally,
    ) {
        let alignment = floors.alignment(at, number);
        if let Some(alignment) = &alignment {
            floors.prepare(alignment);
        }
        let floors = &*floors;
        let floor_of = alignment.as_ref().map_or(&[][..], |alignment| floors.known(alignment));
        let assignments = if alignment.is_some() { floors.assignments(at) } else { &[] };
        // Steps of one alignment have the same at the same place.
        let (address, places) = alignment.as_ref().map_or((0, 0), |alignment| {
            (Arc::as_ptr(alignment) as usize, alignment.placements.len())
        });
        let mut plan = tally.plans.remove(&address).unwrap_or_else(|| vec![Planned::NONE; places]);
        // Wait and transfer of one kernel are two intervals: the second is taken up in its turn.
        let mut clock = SetClock::default();
        let mut later: BinaryHeap<Reverse<(i64, i64, u32)>> = BinaryHeap::new();
        for (place, (index, activity)) in rank.activities_of(step).enumerate() {
            let class = u32::from(rank.category()[index]);
            let communicates = floors.communicates[class as usize];
            let wait = if communicates { waits.of(activity) } else { None };
            while let Some(&Reverse((start, end, atom))) = later.peek() {
                if start > activity.start {
                    break;
                }
                clock.add(start, end, atom, tally);
                later.pop();
            }
            let mut name = |part: Part| {
                if let Some(atom) = plan.get(place).and_then(|planned| planned.atom(class, part)) {
                    return atom;
                }
                let assignment = assignments.get(index).copied().unwrap_or(NONE);
                let category = || self.classes.categories()[class as usize].as_str().to_owned();
                let atom = tally.atom(class, floors.op(assignment), part, category);
                if let Some(planned) = plan.get_mut(place) {
                    planned.set(class, part, atom);
                }
                atom
            };
            let (whole, end) = (activity.end - activity.start, activity.end);
            let main = if let Some(wait) = wait {
                let (waiting, moving) = (name(Part::Wait), name(Part::Transfer));
                let arrived = activity.start + wait;
                clock.add(activity.start, arrived, waiting, tally);
                later.push(Reverse((arrived, end, moving)));
                tally.atoms[waiting as usize].activities += 1;
                tally.atoms[waiting as usize].busy_ns += wait;
                tally.atoms[moving as usize].busy_ns += whole - wait;
                moving
            } else {
                let atom = name(Part::Whole);
                clock.add(activity.start, end, atom, tally);
                tally.atoms[atom as usize].busy_ns += whole;
                atom
            };
            tally.atoms[main as usize].activities += 1;
            if let Some(alignment) = &alignment {
                let atom = &mut tally.atoms[main as usize];
                add_floor(alignment, floor_of, place, atom, &mut tally.unpriced);
            }
        }
        while let Some(Reverse((start, end, atom))) = later.pop() {
            clock.add(start, end, atom, tally);
        }
        clock.finish(tally);
        tally.plans.insert(address, plan);
    }
}

/// The atoms of what lies at a place of an alignment, by [`Part`]; [`NONE`] until they are known.
#[derive(Clone, Copy)]
struct Planned {
    /// A copy's differs by where it goes.
    class: u32,
    atoms: [u32; 3],
}

impl Planned {
    const NONE: Self = Self { class: NONE, atoms: [NONE; 3] };

    fn atom(&self, class: u32, part: Part) -> Option<u32> {
        let atom = self.atoms[part as usize];
        (self.class == class && atom != NONE).then_some(atom)
    }

    fn set(&mut self, class: u32, part: Part, atom: u32) {
        if self.class != class {
            *self = Self { class, ..Self::NONE };
        }
        self.atoms[part as usize] = atom;
    }
}

/// The waits of a rank's collectives by row, asked for in nearly that order.
struct Waits<'a> {
    waits: &'a [(u32, i64)],
    next: usize,
}

impl Waits<'_> {
    /// The wait of a collective that was matched.
    fn of(&mut self, activity: &Activity) -> Option<i64> {
        if activity.table != ActivityKind::Kernel {
            return None;
        }
        let is_it = |at: usize| self.waits.get(at).is_some_and(|(row, _)| *row == activity.row);
        if !is_it(self.next) {
            self.next = self.waits.partition_point(|(row, _)| *row < activity.row);
        }
        let found = is_it(self.next).then(|| self.waits[self.next].1);
        self.next += usize::from(found.is_some());
        found
    }
}

/// The floors of operations, and the operations of activities.
struct Floors<'a> {
    priced: Option<&'a Priced<'a>>,
    /// Which classes are collectives: others wait for no rank.
    communicates: &'a [bool],
    /// By alignment, the floor in ns of each of its operations.
    of: FxHashMap<*const Alignment, Vec<Option<f64>>>,
}

impl<'a> Floors<'a> {
    fn new(priced: Option<&'a Priced<'a>>, communicates: &'a [bool]) -> Self {
        Self { priced, communicates, of: FxHashMap::default() }
    }

    fn alignment(&self, rank: usize, step: usize) -> Option<Arc<Alignment>> {
        self.priced?.attribution.ranks.get(rank)?.steps.get(step)?.clone()
    }

    /// The assignment of each activity of a rank, an index; empty without any.
    fn assignments(&self, rank: usize) -> &[u32] {
        let of_rank = self.priced.and_then(|priced| priced.attribution.ranks.get(rank));
        of_rank.map_or(&[], |ops| &ops.assignment_of)
    }

    fn op(&self, assignment: u32) -> Option<&'static str> {
        Some(self.priced?.attribution.assignments.get(assignment as usize)?.op)
    }

    /// Prices the operations of an alignment, which many steps share, once.
    fn prepare(&mut self, alignment: &Arc<Alignment>) {
        let cost = self.priced.and_then(|priced| priced.cost);
        self.of.entry(Arc::as_ptr(alignment)).or_insert_with(|| {
            let setup = &alignment.setup;
            let cache = setup.context.is_some()
                || (setup.phase == StepPhase::Prefill && setup.batch.is_some());
            alignment
                .ops
                .iter()
                .map(|op| {
                    let known = setup.rows.is_some() && (op.cache_read == 0.0 || cache);
                    Some(cost.filter(|_| known)?.floor(op)?.ns)
                })
                .collect()
        });
    }

    /// The floor in ns of each operation of an alignment that was prepared.
    fn known(&self, alignment: &Arc<Alignment>) -> &[Option<f64>] {
        self.of.get(&Arc::as_ptr(alignment)).map_or(&[], Vec::as_slice)
    }
}

/// Adds what the activity at a place of the step says of its operation's calls and floor.
fn add_floor(
    alignment: &Alignment,
    floor_of: &[Option<f64>],
    place: usize,
    atom: &mut Atom,
    unpriced: &mut Vec<&'static str>,
) {
    let Some(placement) = alignment.placements.get(place).copied().flatten() else { return };
    // What completes a call has no floor of its own: that of the call covers it.
    let floor = atom.floor_ns.get_or_insert(0.0);
    if !(placement.main && alignment.is_call[placement.op as usize]) {
        return;
    }
    atom.calls += 1;
    if let Some(ns) = floor_of[placement.op as usize] {
        *floor += ns;
        return;
    }
    let op = alignment.ops[placement.op as usize].name;
    if !unpriced.contains(&op) {
        unpriced.push(op);
    }
}

/// What tells atoms apart: class, operation and part.
type AtomKey = (u32, Option<&'static str>, Part);

/// What is summed up for a phase and batch.
#[derive(Default)]
struct Tally {
    steps: u64,
    warm_up: u64,
    tokens: u64,
    tokens_unknown: bool,
    atoms: Vec<Atom>,
    /// By class: what has no operation and no parts, which without a model is nearly everything.
    plain: Vec<u32>,
    /// By the address of the alignment.
    plans: FxHashMap<usize, Vec<Planned>>,
    index: FxHashMap<AtomKey, u32>,
    /// Of each atom.
    keys: Vec<AtomKey>,
    shared: BTreeMap<Vec<u32>, i64>,
    idle: [(i64, u64); Cause::ALL.len()],
    /// Operations of which a call has no known floor.
    unpriced: Vec<&'static str>,
}

impl Tally {
    fn step(&mut self, step: &Step, idle: &IdleTime) {
        self.steps += 1;
        match &step.tokens {
            Some(tokens) => self.tokens += u64::from(tokens.count),
            None => self.tokens_unknown = true,
        }
        for (cause, ns, gaps) in idle.causes() {
            let sum = &mut self.idle[cause as usize];
            sum.0 += ns;
            sum.1 += gaps;
        }
    }

    fn atom(
        &mut self,
        class: u32,
        op: Option<&'static str>,
        part: Part,
        category: impl Fn() -> String,
    ) -> u32 {
        let plain = op.is_none() && part == Part::Whole;
        if plain && let Some(&atom) = self.plain.get(class as usize).filter(|at| **at != NONE) {
            return atom;
        }
        let (atoms, keys) = (&mut self.atoms, &mut self.keys);
        let atom = *self.index.entry((class, op, part)).or_insert_with(|| {
            atoms.push(Atom::new(category(), op, part));
            keys.push((class, op, part));
            (atoms.len() - 1) as u32
        });
        if plain {
            self.plain.resize(self.plain.len().max(class as usize + 1), NONE);
            self.plain[class as usize] = atom;
        }
        atom
    }

    /// Adds what follows.
    fn merge(&mut self, other: Self) {
        self.steps += other.steps;
        self.warm_up += other.warm_up;
        self.tokens += other.tokens;
        self.tokens_unknown |= other.tokens_unknown;
        for (sum, more) in self.idle.iter_mut().zip(other.idle) {
            sum.0 += more.0;
            sum.1 += more.1;
        }
        let mut place = Vec::with_capacity(other.atoms.len());
        for ((class, op, part), more) in other.keys.into_iter().zip(other.atoms) {
            let at = self.atom(class, op, part, || more.category.clone());
            let atom = &mut self.atoms[at as usize];
            atom.activities += more.activities;
            atom.calls += more.calls;
            atom.busy_ns += more.busy_ns;
            atom.alone_ns += more.alone_ns;
            if let Some(floor) = more.floor_ns {
                *atom.floor_ns.get_or_insert(0.0) += floor;
            }
            place.push(at);
        }
        for (atoms, ns) in other.shared {
            let mut atoms: Vec<u32> = atoms.into_iter().map(|at| place[at as usize]).collect();
            atoms.sort_unstable();
            *self.shared.entry(atoms).or_default() += ns;
        }
        for op in other.unpriced {
            if !self.unpriced.contains(&op) {
                self.unpriced.push(op);
            }
        }
    }

    fn finish(mut self, key: PhaseKey) -> Profile {
        let mut out = Profile::new(key.phase, key.batch);
        for atom in &mut self.atoms {
            // A part of an operation's floor is none.
            if atom.op.is_none_or(|op| self.unpriced.contains(&op)) || atom.part == Part::Wait {
                atom.floor_ns = None;
            }
        }
        (out.steps, out.warm_up, out.atoms) = (self.steps, self.warm_up, self.atoms);
        out.tokens_per_step = (!self.tokens_unknown && self.steps > 0)
            .then(|| self.tokens as f64 / self.steps as f64);
        out.shared = self.shared.into_iter().map(|(atoms, ns)| Shared::new(atoms, ns)).collect();
        out.idle = Cause::ALL
            .into_iter()
            .zip(self.idle)
            .filter(|(_, (ns, _))| *ns != 0)
            .map(|(cause, (ns, gaps))| IdlePart::new(cause, ns, gaps))
            .collect();
        out
    }
}

/// Which atoms run at once, by intervals in order of start.
#[derive(Default)]
struct SetClock {
    now: i64,
    /// The end and atom of what runs now, as long as it is one activity, as nearly always: then
    /// nothing below is in use.
    lone: Option<(i64, u32)>,
    running: BinaryHeap<Reverse<(i64, u32)>>,
    /// The atoms of which any runs now, ascending, and how many activities of each.
    present: Vec<(u32, u32)>,
    /// These atoms alone, where there are several.
    together: Vec<u32>,
}

impl SetClock {
    fn add(&mut self, start: i64, end: i64, atom: u32, tally: &mut Tally) {
        if self.running.is_empty() && self.alone_until(start, tally) {
            self.now = start;
            self.lone = (start < end).then_some((end, atom));
            return;
        }
        self.advance(start, tally);
        if start < end {
            self.run(end, atom);
        }
    }

    /// Counts what runs alone, if it ends by `time`; otherwise `false`, and it runs beside others
    /// from now on.
    fn alone_until(&mut self, time: i64, tally: &mut Tally) -> bool {
        let Some((end, atom)) = self.lone.take() else { return true };
        if end > time {
            self.run(end, atom);
            return false;
        }
        tally.atoms[atom as usize].alone_ns += end - self.now;
        true
    }

    fn run(&mut self, end: i64, atom: u32) {
        self.running.push(Reverse((end, atom)));
        match self.present.binary_search_by_key(&atom, |(atom, _)| *atom) {
            Ok(at) => self.present[at].1 += 1,
            Err(at) => self.present.insert(at, (atom, 1)),
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        if !self.alone_until(i64::MAX, tally) || !self.running.is_empty() {
            self.advance(i64::MAX, tally);
        }
    }

    fn advance(&mut self, time: i64, tally: &mut Tally) {
        while let Some(&Reverse((end, atom))) = self.running.peek() {
            if end > time {
                break;
            }
            self.pass(end, tally);
            self.running.pop();
            if let Ok(at) = self.present.binary_search_by_key(&atom, |(atom, _)| *atom) {
                self.present[at].1 -= 1;
                if self.present[at].1 == 0 {
                    self.present.remove(at);
                }
            }
        }
        if !self.present.is_empty() {
            self.pass(time, tally);
        }
        self.now = time;
    }

    /// Counts the time until `to` for what runs.
    fn pass(&mut self, to: i64, tally: &mut Tally) {
        let ns = to - self.now;
        if ns <= 0 {
            return;
        }
        match self.present.as_slice() {
            [] => {}
            [(atom, _)] => tally.atoms[*atom as usize].alone_ns += ns,
            several => {
                self.together.clear();
                self.together.extend(several.iter().map(|(atom, _)| *atom));
                match tally.shared.get_mut(&self.together) {
                    Some(sum) => *sum += ns,
                    None => _ = tally.shared.insert(self.together.clone(), ns),
                }
            }
        }
        self.now = to;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_runs_at_once_is_counted_once(
            mut all in prop::collection::vec((0i64..60, 0i64..20, 0u32..3), 1..20),
        ) {
            all.sort_unstable();
            let mut tally = Tally::default();
            for class in 0..3 {
                tally.atom(class, None, Part::Whole, String::new);
            }
            let mut clock = SetClock::default();
            for &(start, length, atom) in &all {
                clock.add(start, start + length, atom, &mut tally);
            }
            clock.finish(&mut tally);
            // Instant by instant.
            let (mut alone, mut shared) = ([0; 3], BTreeMap::new());
            for t in 0..100 {
                let mut now: Vec<u32> = all
                    .iter()
                    .filter(|(start, length, _)| (*start..start + length).contains(&t))
                    .map(|(.., atom)| *atom)
                    .collect();
                now.sort_unstable();
                now.dedup();
                match now.as_slice() {
                    [] => {}
                    [atom] => alone[*atom as usize] += 1,
                    _ => *shared.entry(now).or_insert(0) += 1,
                }
            }
            let found: Vec<i64> = tally.atoms.iter().map(|atom| atom.alone_ns).collect();
            prop_assert_eq!(found, alone);
            prop_assert_eq!(tally.shared, shared);
        }
    }
}
