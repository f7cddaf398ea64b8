//! One classification rule.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

use super::category::Category;
use super::glob::Glob;
use super::index::By;
use super::name::KernelName;

/// Which spelling of a kernel's name a rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchOn {
    /// The demangled name in its normal form.
    #[default]
    Demangled,
    /// The mangled name, or the name itself where the capture kept it mangled.
    Mangled,
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The rules that ship with the library.
    Builtin,
    /// A user's file.
    File(PathBuf),
}

/// The name of a rule, such as `nccl.all_reduce`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(Arc<str>);

impl RuleId {
    pub(super) fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialEq<str> for RuleId {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl Serialize for RuleId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// One rule: names that fit it belong to its category, unless an earlier rule
/// took them.
///
/// It fits a name whose kernel function one of [`Rule::functions`] covers and,
/// if there is one, [`Rule::condition`] is found in; or in which
/// [`Rule::regex`] is found.
#[derive(Debug, Serialize)]
pub struct Rule {
    pub(super) id: RuleId,
    pub(super) order: i64,
    pub(super) category: Category,
    pub(super) on: MatchOn,
    #[serde(rename = "function", skip_serializing_if = "Vec::is_empty")]
    pub(super) functions: Vec<Glob>,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub(super) condition: Option<Pattern>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) literals: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) regex: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) library: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dims: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    pub(super) needs_context: bool,
    pub(super) examples: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) counterexamples: Vec<String>,
    pub(super) origin: Origin,
}

impl Rule {
    /// The rule's name, unique among all rules in force.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The place among the rules of its origin: the lowest is tried first.
    pub fn order(&self) -> i64 {
        self.order
    }

    /// What a name that fits belongs to.
    pub fn category(&self) -> &Category {
        &self.category
    }

    /// Which spelling of the name the regex is looked for in.
    pub fn on(&self) -> MatchOn {
        self.on
    }

    /// Patterns for the kernel's own function; `*` is any text, `#` a number.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(Glob::as_str)
    }

    /// What must be found in the name besides a fitting function.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_ref().map(Pattern::as_str)
    }

    /// What is looked for in the whole name.
    pub fn regex(&self) -> Option<&str> {
        self.regex.as_ref().map(Pattern::as_str)
    }

    /// Texts of which every match of the regex contains at least one.
    pub fn literals(&self) -> &[String] {
        &self.literals
    }

    /// The software that has these kernels.
    pub fn library(&self) -> Option<&str> {
        self.library.as_deref()
    }

    /// Where the names were seen, if that is noted.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Which sizes and types the name tells.
    pub fn dims(&self) -> Option<&str> {
        self.dims.as_deref()
    }

    /// What a reader should know about these kernels.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether the operation depends on the neighbours: the name alone says
    /// what the kernel does, not what for.
    pub fn needs_context(&self) -> bool {
        self.needs_context
    }

    /// Names that this rule decides.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// Names that look similar and that this rule does not decide.
    pub fn counterexamples(&self) -> &[String] {
        &self.counterexamples
    }

    /// Where the rule comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file of a user's rule.
    pub fn file(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Builtin => None,
            Origin::File(path) => Some(path),
        }
    }

    /// How the rule fits the name, if it does.
    pub(super) fn fit<'a>(
        &'a self,
        name: &'a KernelName<'_>,
        mangled: Option<&'a str>,
    ) -> Option<Fit<'a>> {
        if let Some(glob) = self.covering(name) {
            let condition = self.condition.as_ref().map(|regex| regex.find(name.text()));
            if condition != Some(None) {
                return Some(Fit::Function(glob.as_str(), condition.flatten()));
            }
        }
        let text = self.subject(name, mangled)?;
        let found = self.regex.as_ref()?.find(text)?;
        Some(Fit::Regex(found))
    }

    /// Whether the rule fits a name for which the index offers it.
    pub(super) fn fits(&self, by: By, name: &KernelName<'_>, mangled: Option<&str>) -> bool {
        match by {
            By::Function => self.condition.as_ref().is_none_or(|regex| regex.is_in(name.text())),
            By::Regex => {
                let text = self.subject(name, mangled);
                self.regex.as_ref().zip(text).is_some_and(|(regex, text)| regex.is_in(text))
            }
        }
    }

    /// The text that the rule's regex is for.
    pub(super) fn subject<'n>(
        &self,
        name: &'n KernelName<'_>,
        mangled: Option<&'n str>,
    ) -> Option<&'n str> {
        match self.on {
            MatchOn::Demangled => Some(name.text()),
            MatchOn::Mangled if name.text().starts_with("_Z") => Some(name.text()),
            MatchOn::Mangled => mangled,
        }
    }

    /// The first function pattern that covers the name's function.
    pub(super) fn covering(&self, name: &KernelName<'_>) -> Option<&Glob> {
        let (full, base) = (name.function(), name.base_function());
        self.functions
            .iter()
            .find(|glob| glob.matches(full) || (base.len() < full.len() && glob.matches(base)))
    }
}

/// How a rule fits a name.
pub(super) enum Fit<'a> {
    /// This function pattern covers the function, and these bytes meet the
    /// condition, if there is one.
    Function(&'a str, Option<&'a [u8]>),
    /// The regex was found: the bytes that it covers.
    Regex(&'a [u8]),
}

/// A regular expression that is compiled when it is first needed.
///
/// Bytes and ASCII classes: kernel names are ASCII, and Unicode tables would
/// make compiling several times as dear.
#[derive(Debug)]
pub(super) struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Compiles a pattern for good or says what is wrong with it.
    pub(super) fn check(&self) -> Result<(), regex::Error> {
        if self.compiled.get().is_none() {
            let compiled = compile(&self.text)?;
            self.compiled.get_or_init(|| Some(compiled));
        }
        Ok(())
    }

    /// The first match in a text.
    pub(super) fn find<'t>(&self, text: &'t str) -> Option<&'t [u8]> {
        self.compiled()?.find(text.as_bytes()).map(|found| found.as_bytes())
    }

    /// Whether there is a match in a text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.compiled().is_some_and(|regex| regex.is_match(text.as_bytes()))
    }

    /// A pattern that does not compile has no match: user files with such a
    /// pattern are refused, the builtin ones are tested.
    fn compiled(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| compile(&self.text).ok()).as_ref()
    }
}

/// What a pattern may take once compiled. The largest builtin one takes a fraction of it; a few
/// nested repetitions would take the crate's own 10 MB, for every rule of a file.
const MOST_BYTES: usize = 256 << 10;

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).unicode(false).size_limit(MOST_BYTES).build()
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
