//! Which operation of the model each kernel executes, and how far that is from its floor.
//!
//! [`Attribution::new`] takes the steps that [`crate::segment`] found and a model with its
//! deployment, and aligns the kernels of each step with the operations that
//! [`crate::cost::StepGraph`] lists. [`Aligner`] does so for one step and needs no segmentation.
//!
//! # How an operation is decided
//!
//! A kernel's name gives a [`Role`]: what it can be. Attention, expert products, routing, cache
//! writes and collectives can be one kind of operation only and anchor the rest; of a product, a
//! norm or an elementary kernel the name says nothing more than that. Dynamic programming finds
//! the run through prologue, layers and epilogue that surprises least, over the whole step at once,
//! so that layers, their number and their kinds are found and not assumed; what differs from the
//! configuration is a [`Contradiction`]. Engines execute the same layer in different forms
//! ([`Form`]: gate and up apart, shared experts last, latent attention absorbed or expanded,
//! norms written out); the form that surprises least is taken. Where the GPU's peaks are known, a
//! form in which a product is faster than its weights can be read surprises too.
//!
//! An operation has one main kernel. Other kernels are billed to it by these rules:
//! - what completes a kernel belongs to that kernel's operation: the reduction of a split product,
//!   the merge of a split attention, a copy of attention's output;
//! - an elementary kernel (copy, conversion, concatenation, fill, pointwise) belongs to the
//!   operation that it feeds, unless it continues a written-out norm, rotation, activation or
//!   choice of experts;
//! - a residual addition belongs to the norm that follows it;
//! - scaling the experts' output belongs to its addition to the shared experts' output;
//! - gathering tokens by expert belongs to `moe.align`, scattering them back to `moe.sum`;
//! - a kernel that is fused from several operations is billed to the first of them, a collective
//!   fused with a norm to the collective.
//!
//! Kernels on other streams are aligned with the operations that the layer's main line does not
//! show. What fits nothing stays without an operation. [`STEP_INPUT`] and [`STEP_OUTPUT`] are no
//! operations of the model: they take what prepares a step and what carries its result away.

mod align;
mod attribution;
mod base;
mod contradiction;
mod form;
mod heat;
mod path;
mod possible;
mod reading;
mod role;
mod roles;
mod roofline;
mod slot;
mod step;
mod streams;
mod template;

pub use align::{Aligner, Alignment, Decided, FoundLayer, Placement};
pub use attribution::{Assignment, Attribution, RankOps, Target};
pub use contradiction::Contradiction;
pub use form::{Form, LatentRoute, STEP_INPUT, STEP_OUTPUT};
pub use heat::{Deviation, HeatColumn, HeatRow, LayerHeat, LayerKindRow};
pub use role::Role;
pub use roles::Roles;
pub use roofline::{OpRow, PhaseOps, UnmappedKernel};
pub use step::{Setup, StepPhase, Work};
