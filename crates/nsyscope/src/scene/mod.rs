//! Scenes: what a picture shows, without any picture.
//!
//! A [`Timeline`] is a window of a run cut into bins, one a pixel column. Each bin holds the exact
//! time of every category in it, so a picture of ten million kernels costs as much as one of a
//! thousand and still shows what runs below a pixel: its mix. Nothing is sampled or dropped: the
//! bins of a lane sum to the time of its activities within the window, in integer ns.

mod bands;
mod bins;
mod joins;
pub mod palette;
mod strip;
mod timeline;
mod window;

pub use bands::{Band, LayerBand};
pub use bins::Bins;
pub use joins::{Join, JoinMember};
pub use strip::{StepStrip, StripStep};
pub use timeline::{Block, Lane, RankScene, Timeline, TimelineOptions};
pub use window::Window;
