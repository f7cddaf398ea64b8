//! The cheapest way to read a sequence of kernels as a run through a chain of operations.
//!
//! A step is a prologue, any number of layers, each with one of a few bodies, and an epilogue.
//! Dynamic programming over (kernel, operation) finds the reading of least cost; an operation has
//! one main kernel, and kernels before and after it that belong to it. Layers are not given: how
//! many there are, and which body each has, is part of what is found.

use super::role::Role;
use super::slot::{NEVER, Slot};

/// An operation in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) slot: Slot,
    /// What it costs to leave it out.
    pub(super) skip: i32,
}

/// The chains that a step can run through.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    pub(super) nodes: Vec<Node>,
    /// Nodes before the first layer.
    pub(super) prologue: std::ops::Range<usize>,
    /// The nodes of each body.
    pub(super) bodies: Vec<std::ops::Range<usize>>,
    /// Nodes after the last layer.
    pub(super) epilogue: std::ops::Range<usize>,
}

/// How a kernel belongs to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Before,
    Main,
    After,
}

impl Part {
    /// What it costs that a kernel of this role is this part of an operation.
    pub(super) fn cost(self, slot: Slot, role: Role) -> i32 {
        match self {
            Self::Before => slot.before(role),
            Self::Main => slot.main(role),
            Self::After => slot.after(role),
        }
    }
}

/// Where a kernel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: u16,
    pub(super) part: Part,
    /// Whether a layer begins with it.
    pub(super) opens_layer: bool,
}

/// What a step without any layer costs: not impossible, only unlikely.
const NO_LAYERS: i32 = 500;
const NOWHERE: u16 = u16::MAX;
const STAY: u8 = 0;
const PREPARED: u8 = 1;
const ARRIVED: u8 = 2;
/// Set beside a source where the way leads through the start of a layer.
const NEW_LAYER: u8 = 4;

/// For each node, the cheapest way to arrive at it with nothing of it done.
///
/// No cost is above [`NEVER`], so that two and more can be added.
struct Arrivals {
    cost: Vec<i32>,
    source: Vec<u16>,
    /// [`NEW_LAYER`] where the way leads through the start of one, else 0.
    new_layer: Vec<u8>,
}

impl Arrivals {
    fn new(nodes: usize) -> Self {
        Self { cost: vec![NEVER; nodes], source: vec![NOWHERE; nodes], new_layer: vec![0; nodes] }
    }

    /// Walks a chain from `(cost, source)`, which is not the start of a layer; returns what arriving
    /// behind its end costs.
    fn walk(
        &mut self,
        chains: &Chains,
        range: &std::ops::Range<usize>,
        done: &[i32],
        start: (i32, u16),
    ) -> (i32, u16) {
        let (mut cost, mut source) = start;
        let costs = self.cost[range.clone()].iter_mut();
        let places = costs.zip(&mut self.source[range.clone()]);
        let places = places.zip(&mut self.new_layer[range.clone()]);
        let nodes = chains.nodes[range.clone()].iter().zip(&done[range.clone()]);
        for (number, (((to, from), fresh), (node, &done))) in (range.start..).zip(places.zip(nodes))
        {
            (*to, *from, *fresh) = (cost, source, 0);
            // Without a branch: which is cheaper cannot be guessed.
            let on = (cost + node.skip).min(NEVER);
            source = if done < on { number as u16 } else { source };
            cost = on.min(done);
        }
        (cost, source)
    }

    /// All arrivals after a kernel, from what has been done by then.
    fn update(&mut self, chains: &Chains, done: &[i32], begin: i32) -> (i32, u16) {
        let before = self.walk(chains, &chains.prologue, done, (begin, NOWHERE));
        let mut start = before;
        let mut end = if chains.bodies.is_empty() { before } else { (NEVER, NOWHERE) };
        for body in &chains.bodies {
            let at = self.walk(chains, body, done, (NEVER, NOWHERE));
            if at.0 < start.0 {
                start = at;
            }
            if at.0 < end.0 {
                end = at;
            }
        }
        for body in &chains.bodies {
            self.open(chains, body, start);
        }
        if before.0 + NO_LAYERS < end.0 {
            end = ((before.0 + NO_LAYERS).min(NEVER), before.1);
        }
        self.walk(chains, &chains.epilogue, done, end)
    }

    /// Arrivals through the start of a layer, where they are cheaper.
    fn open(&mut self, chains: &Chains, body: &std::ops::Range<usize>, start: (i32, u16)) {
        let mut cost = start.0;
        for node in body.clone() {
            if cost < self.cost[node] {
                self.cost[node] = cost;
                self.source[node] = start.1;
                self.new_layer[node] = NEW_LAYER;
            }
            cost = (cost + chains.nodes[node].skip).min(NEVER);
            if cost >= NEVER {
                break;
            }
        }
    }
}

/// What a kernel of one role costs as each part of each node.
#[derive(Default)]
struct Costs {
    before: Vec<i32>,
    main: Vec<i32>,
    after: Vec<i32>,
}

impl Costs {
    fn new(chains: &Chains, role: Role) -> Self {
        let of = |part: Part| {
            chains.nodes.iter().map(|node| part.cost(node.slot, role).min(NEVER)).collect()
        };
        Self { before: of(Part::Before), main: of(Part::Main), after: of(Part::After) }
    }
}

/// For each node what it costs so far.
#[derive(Clone)]
struct Front {
    /// Kernels before its main one are there, and it is not.
    waiting: Vec<i32>,
    /// Its main kernel is there.
    done: Vec<i32>,
}

/// How each cost of a [`Front`] came about: [`STAY`], [`PREPARED`] or [`ARRIVED`].
struct Ways<'a> {
    waiting: &'a mut [u8],
    done: &'a mut [u8],
}

/// The front after one more kernel.
fn advance(
    front: &Front,
    arrivals: &Arrivals,
    costs: &Costs,
    next: &mut Front,
    ways: &mut Ways<'_>,
) {
    // One length for all, which the compiler then knows.
    let n = arrivals.cost.len();
    let (waiting, done) = (&front.waiting[..n], &front.done[..n]);
    let (arrived, new_layer) = (&arrivals.cost[..n], &arrivals.new_layer[..n]);
    let (before, main, after) = (&costs.before[..n], &costs.main[..n], &costs.after[..n]);
    let (to_waiting, to_done) = (&mut next.waiting[..n], &mut next.done[..n]);
    let (from_waiting, from_done) = (&mut ways.waiting[..n], &mut ways.done[..n]);
    for node in 0..n {
        let fresh = ARRIVED | new_layer[node];
        let stays = waiting[node] <= arrived[node];
        let least = waiting[node].min(arrived[node]);
        to_waiting[node] = (least + before[node]).min(NEVER);
        from_waiting[node] = if stays { STAY } else { fresh };

        let begun = (least + main[node]).min(NEVER);
        let kept = (done[node] + after[node]).min(NEVER);
        // Between equals the main kernel is the later one, so helpers feed it.
        to_done[node] = begun.min(kept);
        let way = if stays { PREPARED } else { fresh };
        from_done[node] = if begun <= kept { way } else { STAY };
    }
}

/// The least cost and the place of each kernel; `None` where no reading exists.
pub(super) fn solve(chains: &Chains, roles: &[Role]) -> Option<(i32, Vec<Place>)> {
    let n = chains.nodes.len();
    let count = roles.len();
    // Costs depend on slot and role alone, of which there are few.
    let mut distinct: Vec<Role> = roles.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let tables: Vec<Costs> = distinct.iter().map(|&role| Costs::new(chains, role)).collect();

    let mut arrivals = Arrivals::new(n);
    let mut front = Front { waiting: vec![NEVER; n], done: vec![NEVER; n] };
    let mut next = front.clone();
    let mut from_waiting = vec![0u8; count * n];
    let mut from_done = vec![0u8; count * n];
    let mut sources = vec![NOWHERE; count * n];
    for (i, role) in roles.iter().enumerate() {
        let _ = arrivals.update(chains, &front.done, if i == 0 { 0 } else { NEVER });
        let Ok(table) = distinct.binary_search(role) else { return None };
        let row = i * n..(i + 1) * n;
        sources[row.clone()].copy_from_slice(&arrivals.source);
        let mut ways = Ways { waiting: &mut from_waiting[row.clone()], done: &mut from_done[row] };
        advance(&front, &arrivals, &tables[table], &mut next, &mut ways);
        std::mem::swap(&mut front, &mut next);
    }
    let done = front.done;
    let (cost, last) = arrivals.update(chains, &done, NEVER);
    if cost >= NEVER || last == NOWHERE {
        return None;
    }

    let mut places = vec![Place { node: 0, part: Part::Main, opens_layer: false }; count];
    let mut node = last as usize;
    let mut is_done = true;
    for i in (0..count).rev() {
        let at = i * n + node;
        let way = if is_done { from_done[at] } else { from_waiting[at] };
        let part = match (is_done, way) {
            (true, STAY) => Part::After,
            (true, _) => Part::Main,
            (false, _) => Part::Before,
        };
        let opens_layer = way & NEW_LAYER != 0;
        places[i] = Place { node: node as u16, part, opens_layer };
        if way & ARRIVED != 0 {
            is_done = true;
            let source = sources[at];
            if source == NOWHERE {
                return (i == 0).then_some((cost, places));
            }
            node = source as usize;
        } else if way == PREPARED {
            is_done = false;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chains(parts: &[&[Slot]]) -> Chains {
        let mut out = Chains::default();
        let ranges: Vec<_> = parts
            .iter()
            .map(|slots| {
                let from = out.nodes.len();
                out.nodes.extend(slots.iter().map(|&slot| Node { slot, skip: slot.skip() }));
                from..out.nodes.len()
            })
            .collect();
        out.prologue = ranges[0].clone();
        out.epilogue = ranges[ranges.len() - 1].clone();
        out.bodies = ranges[1..ranges.len() - 1].to_vec();
        out
    }

    const DENSE: &[Slot] =
        &[Slot::Norm, Slot::Gemm, Slot::Attention, Slot::Gemm, Slot::Norm, Slot::Activation];
    const MOE: &[Slot] = &[
        Slot::Norm,
        Slot::Gemm,
        Slot::Attention,
        Slot::Gemm,
        Slot::Norm,
        Slot::TopK,
        Slot::MoeGemm,
    ];

    #[test]
    fn layers_and_their_kinds_are_found() {
        use Role::{Activation, Attention, Embedding, Gemm, MoeGemm, Norm, TopK};
        let chains = chains(&[&[Slot::Embed], DENSE, MOE, &[Slot::Norm, Slot::Gemm]]);
        let dense = [Norm, Gemm, Attention, Gemm, Norm, Activation];
        let moe = [Norm, Gemm, Attention, Gemm, Norm, TopK, MoeGemm];
        let mut roles = vec![Embedding];
        roles.extend(dense);
        roles.extend(moe);
        roles.extend(moe);
        roles.extend(dense);
        roles.extend([Norm, Gemm]);
        let (cost, places) = solve(&chains, &roles).unwrap();
        assert_eq!(cost, 0);
        let opened: Vec<usize> = (0..roles.len()).filter(|&i| places[i].opens_layer).collect();
        assert_eq!(opened, [1, 7, 14, 21]);
        assert!(places.iter().all(|p| p.part == Part::Main));
        assert!(chains.bodies[1].contains(&usize::from(places[8].node)));
        assert!(chains.bodies[0].contains(&usize::from(places[21].node)));
        assert!(chains.epilogue.contains(&usize::from(places[28].node)));
    }

    #[test]
    fn helpers_feed_what_follows_and_split_products_end_before() {
        let chains = chains(&[&[], DENSE, &[Slot::Gemm]]);
        let roles = [
            Role::Norm,
            Role::Copy,
            Role::Gemm,
            Role::SplitReduce,
            Role::Attention,
            Role::Combine,
            Role::Gemm,
            Role::Pointwise,
            Role::Norm,
            Role::Activation,
            Role::Gemm,
        ];
        let (_, places) = solve(&chains, &roles).unwrap();
        let nodes: Vec<u16> = places.iter().map(|p| p.node).collect();
        assert_eq!(nodes, [0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 6]);
        assert_eq!(places[1].part, Part::Before);
        assert_eq!(places[3].part, Part::After);
        assert_eq!(places[7].part, Part::Before);
    }

    #[test]
    fn a_norm_may_be_fused_away() {
        let chains = chains(&[&[], DENSE, &[Slot::Norm, Slot::Gemm]]);
        let layer = [Role::Gemm, Role::Attention, Role::Gemm, Role::Activation];
        let mut roles = Vec::new();
        for _ in 0..3 {
            roles.extend(layer);
        }
        roles.push(Role::Gemm);
        let (_, places) = solve(&chains, &roles).unwrap();
        assert_eq!(places.iter().filter(|p| p.opens_layer).count(), 3);
        assert_eq!(places[4].node, 1);
        assert_eq!(places[12].node, 7);
    }

    #[test]
    fn nothing_has_no_reading() {
        assert!(solve(&chains(&[&[], DENSE, &[]]), &[]).is_none());
    }

    /// Roles that the chains below know, and some that they do not.
    const ROLES: [Role; 9] = [
        Role::Embedding,
        Role::Norm,
        Role::Gemm,
        Role::Attention,
        Role::Activation,
        Role::TopK,
        Role::MoeGemm,
        Role::Copy,
        Role::SplitReduce,
    ];

    /// What a reading costs, counted along its places.
    fn price(chains: &Chains, roles: &[Role], places: &[Place]) -> i32 {
        let skips = |from: usize, to: usize| -> i32 {
            (from..to).map(|node| chains.nodes[node].skip).sum()
        };
        let chain_of = |node: usize| {
            let all = chains.bodies.iter().chain([&chains.prologue, &chains.epilogue]);
            all.clone().find(|range| range.contains(&node)).unwrap().clone()
        };
        let mut cost = 0;
        // One past the last node that was reached, `None` before the first.
        let mut reached: Option<usize> = None;
        for (place, &role) in places.iter().zip(roles) {
            let node = usize::from(place.node);
            cost += place.part.cost(chains.nodes[node].slot, role);
            let chain = chain_of(node);
            let last = reached.map(|end| chain_of(end - 1));
            if last.as_ref() == Some(&chain) && !place.opens_layer {
                cost += skips(reached.unwrap(), node.max(reached.unwrap()));
            } else {
                match (&last, reached) {
                    (Some(last), Some(end)) => cost += skips(end, last.end),
                    _ if chain == chains.prologue => {}
                    _ => cost += skips(0, chains.prologue.end),
                }
                let from_prologue = last.as_ref().is_none_or(|last| *last == chains.prologue);
                if from_prologue && chain == chains.epilogue {
                    cost += NO_LAYERS;
                }
                cost += skips(chain.start, node);
            }
            reached = Some(node + 1);
        }
        let end = reached.unwrap();
        let last = chain_of(end - 1);
        cost += skips(end, last.end);
        if last != chains.epilogue {
            cost += skips(chains.epilogue.start, chains.epilogue.end);
        }
        if last == chains.prologue {
            cost += NO_LAYERS;
        }
        cost
    }

    proptest! {
        #[test]
        fn a_reading_is_in_order_and_costs_what_is_said(
            picks in prop::collection::vec(0usize..ROLES.len(), 1..30),
        ) {
            let chains = chains(&[&[Slot::Embed], DENSE, MOE, &[Slot::Norm, Slot::Gemm]]);
            let roles: Vec<Role> = picks.iter().map(|&i| ROLES[i]).collect();
            // Elementary kernels alone are no operation.
            let solved = solve(&chains, &roles);
            prop_assume!(solved.is_some());
            let (cost, places) = solved.unwrap();
            prop_assert_eq!(places.len(), roles.len());
            for pair in places.windows(2) {
                prop_assert!(
                    pair[1].opens_layer || pair[0].node <= pair[1].node,
                    "operations go forward within a layer"
                );
                // An operation has one main kernel.
                if pair[0].node == pair[1].node && !pair[1].opens_layer {
                    prop_assert!(pair[1].part != Part::Main || pair[0].part == Part::Before);
                    prop_assert!(pair[1].part != Part::Before || pair[0].part == Part::Before);
                }
            }
            prop_assert_eq!(price(&chains, &roles, &places), cost);
        }
    }
}
