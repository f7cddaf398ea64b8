//! Names to categories.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::builtin;
use super::category::Category;
use super::check::{self, CheckReport};
use super::explain::Explanation;
use super::filter::CategoryFilter;
use super::index::Index;
use super::name::KernelName;
use super::rule::{Origin, Rule, RuleId};
use crate::Result;

/// What a name was classified as, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classification {
    /// The category; [`Category::UNCLASSIFIED`] when no rule fits.
    pub category: Category,
    /// The id of the rule that decided, `None` when no rule fits.
    pub rule: Option<RuleId>,
}

/// An ordered set of rules that gives kernel names their categories.
///
/// Making one costs next to nothing: rules are read and indexed when the first
/// name is classified, and each regex is compiled when a name first needs it.
/// Share one between threads by reference.
#[derive(Debug, Default)]
pub struct Classifier {
    /// The user's rules, in the order in which they are tried.
    user: Vec<Arc<Rule>>,
    ready: OnceLock<Ready>,
}

#[derive(Debug)]
struct Ready {
    rules: Vec<Arc<Rule>>,
    index: Index,
}

impl Classifier {
    /// The rules that ship with the library.
    pub fn builtin() -> Self {
        Self::default()
    }

    /// Adds the rules of a user's file.
    ///
    /// They are tried before the builtin ones and before those of files added
    /// earlier, sorted by `order` (0 where none is given) and else as they
    /// stand in the file. A rule replaces one of the same id.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Rules`], with file, line and rule, for what
    /// [`Classifier::check`] counts as an error; the first one is told.
    pub fn with_user_rules(self, text: &str, origin: &Path) -> Result<Self> {
        let (extended, report) = check::extend(&self, text, origin)?;
        match report.first_error() {
            Some(error) => Err(error),
            None => Ok(extended),
        }
    }

    /// Adds the rules of a user's file, as [`Classifier::with_user_rules`] does.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`] when the file cannot be read, else as there.
    pub fn with_rules_file(self, path: &Path) -> Result<Self> {
        let text = check::read(path)?;
        self.with_user_rules(&text, path)
    }

    /// Checks a user's rule file against these rules: its examples have to be
    /// decided by their own rule, its counterexamples must not be.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Rules`] when the text is not TOML of the right
    /// shape. All else that is wrong is in the report.
    pub fn check(&self, text: &str, origin: &Path) -> Result<CheckReport> {
        check::extend(self, text, origin).map(|(_, report)| report)
    }

    /// Puts rules before those that are there; one of the same id goes.
    pub(super) fn prepend(&self, rules: Vec<Arc<Rule>>) -> Self {
        let ids: BTreeSet<&str> = rules.iter().map(|rule| rule.id()).collect();
        let kept: Vec<Arc<Rule>> =
            self.user.iter().filter(|rule| !ids.contains(rule.id())).cloned().collect();
        drop(ids);
        Self { user: rules.into_iter().chain(kept).collect(), ready: OnceLock::new() }
    }

    /// How many rules are of users' files.
    pub(super) fn rules_of_user(&self) -> usize {
        self.user.len()
    }

    /// Reads and indexes the rules now instead of when the first name comes:
    /// a few milliseconds that fit beside the reading of a capture.
    pub fn prepare(&self) {
        self.ready();
    }

    fn ready(&self) -> &Ready {
        self.ready.get_or_init(|| {
            let replaced: BTreeSet<&str> = self.user.iter().map(|rule| rule.id()).collect();
            let builtin = builtin::rules().iter().filter(|rule| !replaced.contains(rule.id()));
            let rules: Vec<Arc<Rule>> = self.user.iter().chain(builtin).cloned().collect();
            let index = Index::new(&rules);
            Ready { rules, index }
        })
    }

    /// The category of a kernel, from its name and, where the capture has it,
    /// its mangled name.
    ///
    /// The name may be spelled by any demangler, be mangled itself or be the
    /// short name alone, which says less. Any text is taken; the cost grows
    /// linearly with its length. The answer depends on nothing else.
    pub fn classify(&self, name: &str, mangled: Option<&str>) -> Classification {
        let Ready { rules, index } = self.ready();
        let name = KernelName::new(name);
        let mut candidates = Vec::with_capacity(16);
        index.candidates(&name, &mut candidates);
        candidates
            .iter()
            .map(|candidate| (&rules[candidate.rule as usize], candidate.by))
            .find(|(rule, by)| rule.fits(*by, &name, mangled))
            .map_or(Classification { category: Category::UNCLASSIFIED, rule: None }, |rule| {
                Classification { category: rule.0.category.clone(), rule: Some(rule.0.id.clone()) }
            })
    }

    /// Why a name is classified as it is: the rule that decided, those that
    /// would have taken it too, and those that nearly did.
    pub fn explain(&self, name: &str, mangled: Option<&str>) -> Explanation {
        Explanation::new(&self.ready().rules, name, mangled)
    }

    /// The rules in the order in which they are tried.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.ready().rules.iter().map(AsRef::as_ref)
    }

    /// The rule of an id.
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules().find(|rule| rule.id() == id)
    }

    /// All categories that a report can hold: those of the rules and
    /// [`Category::FIXED`].
    pub fn categories(&self) -> BTreeSet<Category> {
        self.rules().map(|rule| rule.category.clone()).chain(Category::FIXED).collect()
    }

    /// Resolves a family, a kind or both among these categories.
    ///
    /// # Errors
    /// As [`CategoryFilter::parse`].
    pub fn filter(&self, text: &str) -> Result<CategoryFilter> {
        CategoryFilter::parse(text, &self.categories())
    }

    /// Where the rule of an id comes from, if there is one.
    pub(super) fn origin_of(&self, id: &str) -> Option<&Origin> {
        self.rule(id).map(Rule::origin)
    }
}
