//! Which operation of the model each kernel executes.
mod align;
mod form;
mod path;
mod role;
mod roles;
mod slot;
mod step;

pub use align::{Aligner, Alignment, Contradiction, Decided, FoundLayer, Placement};
pub use form::{Form, LatentRoute, STEP_INPUT, STEP_OUTPUT};
pub use role::Role;
pub use roles::Roles;
pub use step::{Setup, StepPhase, Work};
