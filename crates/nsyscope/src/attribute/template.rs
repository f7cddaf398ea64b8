//! A form's operations as chains, and as one list.

use super::form::{FormGraph, FormOp};
use super::path::{Chains, Node};
use super::slot::Slot;
use crate::cost::Op;

/// Bodies that look alike share one chain; the plan tells them apart by order.
pub(super) struct Templates {
    pub(super) chains: Chains,
    /// For each body its template.
    pub(super) template_of: Vec<usize>,
}

impl Templates {
    pub(super) fn new(graph: &FormGraph, aside: bool) -> Self {
        let mut nodes = Vec::new();
        let mut chain = |ops: &[FormOp]| {
            let from = nodes.len();
            nodes.extend(ops.iter().map(|f| Node {
                slot: f.slot,
                skip: if f.optional || (aside && f.op.side_stream) { 0 } else { f.slot.skip() },
            }));
            from..nodes.len()
        };
        let prologue = chain(&graph.prologue);
        let alike = |a: &[FormOp], b: &[FormOp]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.op.name == b.op.name && a.slot == b.slot)
        };
        let mut bodies = Vec::new();
        let mut first: Vec<usize> = Vec::new();
        let mut template_of = Vec::new();
        for (i, body) in graph.bodies.iter().enumerate() {
            let known = first.iter().position(|&other| alike(&graph.bodies[other], body));
            template_of.push(known.unwrap_or(first.len()));
            if known.is_none() {
                first.push(i);
                bodies.push(chain(body));
            }
        }
        let epilogue = chain(&graph.epilogue);
        Self { chains: Chains { nodes, prologue, bodies, epilogue }, template_of }
    }

    /// The template that a node is part of.
    pub(super) fn of_node(&self, node: usize) -> Option<usize> {
        self.chains.bodies.iter().position(|body| body.contains(&node))
    }

    /// The first body of a template.
    pub(super) fn first_body(&self, template: usize) -> usize {
        self.template_of.iter().position(|&t| t == template).unwrap_or(0)
    }
}

/// All operations of a form in one list: before the layers, of each body, after the layers.
pub(super) struct OpList {
    pub(super) ops: Vec<Op>,
    pub(super) slots: Vec<Slot>,
    /// Whether the main kernel of each is a call of its own.
    pub(super) is_call: Vec<bool>,
    /// The body of each.
    pub(super) body_of: Vec<Option<usize>>,
    /// Where each body begins.
    pub(super) bodies: Vec<usize>,
    /// Where those after the layers begin.
    pub(super) epilogue: usize,
}

impl OpList {
    pub(super) fn new(graph: &FormGraph) -> Self {
        let mut list = Self {
            ops: Vec::new(),
            slots: Vec::new(),
            is_call: Vec::new(),
            body_of: Vec::new(),
            bodies: Vec::new(),
            epilogue: 0,
        };
        list.extend(&graph.prologue, None);
        for (i, body) in graph.bodies.iter().enumerate() {
            list.bodies.push(list.ops.len());
            list.extend(body, Some(i));
        }
        list.epilogue = list.ops.len();
        list.extend(&graph.epilogue, None);
        list
    }

    fn extend(&mut self, ops: &[FormOp], body: Option<usize>) {
        self.ops.extend(ops.iter().map(|f| f.op.clone()));
        self.slots.extend(ops.iter().map(|f| f.slot));
        self.is_call.extend(ops.iter().map(|f| !f.repeat));
        self.body_of.resize(self.ops.len(), body);
    }

    /// The operations of a body.
    pub(super) fn body(&self, body: usize) -> std::ops::Range<usize> {
        let end = self.bodies.get(body + 1).copied().unwrap_or(self.epilogue);
        self.bodies[body]..end
    }
}
