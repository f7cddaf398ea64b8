//! Classification of GPU kernels by their names.
//!
//! A kernel's name decides its [`Category`], nothing else does: shapes,
//! position and model come later, when operations are attributed. The rules
//! are data (`rules/*.toml`), ordered, and the first that matches wins;
//! [`Classifier::explain`] says which one did and what came close. The format
//! is described in `docs/kernel-rules.md`.
//!
//! ```
//! use nsyscope::kernel::Classifier;
//!
//! let classifier = Classifier::builtin();
//! let found = classifier.classify("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", None);
//! assert_eq!(found.category.as_str(), "gemm/dense_gemm");
//! assert_eq!(found.rule.as_ref().map(|rule| rule.as_str()), Some("nvjet"));
//! ```

mod builtin;
mod category;
mod check;
mod classifier;
mod explain;
mod filter;
mod glob;
mod index;
mod literals;
mod name;
mod normalise;
mod parse;
mod product_type;
mod rule;

pub use category::Category;
pub use check::{CheckReport, CheckedName, CheckedRule, Outcome, Problem, Severity, check};
pub use classifier::{Classification, Classifier};
pub use explain::{Explanation, NearMiss, RuleHit};
pub use filter::CategoryFilter;
pub(crate) use filter::distance;
pub use name::KernelName;
pub use normalise::normalise;
pub use product_type::ProductType;
pub use rule::{MatchOn, Origin, Rule, RuleId};
