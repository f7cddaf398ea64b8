//! Rule files: TOML to rules, with the place of everything that is wrong.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::category::Category;
use super::check::{Problem, Severity};
use super::glob::Glob;
use super::literals;
use super::rule::{MatchOn, Origin, Pattern, Rule, RuleId};
use crate::{Error, ErrorKind, Result};

/// A rule file as it stands. `S` is a text with its place for users' files and
/// without for the builtin ones, which are read at every start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Deserialize<'de>")]
struct RawFile<S> {
    #[serde(default = "Vec::new")]
    rule: Vec<RawRule<S>>,
}

/// A text of a rule file.
trait Text {
    fn text(&self) -> &str;
    fn into_text(self) -> String;
    fn span(&self) -> Range<usize>;
}

impl Text for Spanned<String> {
    fn text(&self) -> &str {
        self.get_ref()
    }

    fn into_text(self) -> String {
        self.into_inner()
    }

    fn span(&self) -> Range<usize> {
        Self::span(self)
    }
}

impl Text for String {
    fn text(&self) -> &str {
        self
    }

    fn into_text(self) -> String {
        self
    }

    fn span(&self) -> Range<usize> {
        0..0
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Deserialize<'de>")]
struct RawRule<S> {
    id: S,
    order: Option<i64>,
    category: S,
    #[serde(default)]
    on: RawOn,
    #[serde(default = "Vec::new")]
    function: Vec<S>,
    #[serde(rename = "where")]
    condition: Option<S>,
    #[serde(default = "Vec::new")]
    literals: Vec<S>,
    regex: Option<S>,
    library: Option<String>,
    source: Option<String>,
    dims: Option<String>,
    note: Option<String>,
    #[serde(default)]
    needs_context: bool,
    #[serde(default = "Vec::new")]
    examples: Vec<S>,
    #[serde(default = "Vec::new")]
    counterexamples: Vec<S>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawOn {
    #[default]
    Demangled,
    Mangled,
}

/// A rule with the places of what can be wrong with it.
pub(super) struct Parsed {
    pub(super) rule: Rule,
    pub(super) place: Place,
    pub(super) examples: Vec<Place>,
    pub(super) counterexamples: Vec<Place>,
}

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// What a file holds: its rules in the order in which they are tried, those
/// left out that cannot work, and everything that is wrong with it.
pub(super) struct RuleFile {
    pub(super) rules: Vec<Parsed>,
    pub(super) problems: Vec<Problem>,
}

/// Reads a rule file.
///
/// # Errors
/// [`ErrorKind::Rules`] when the text is not TOML of the right shape; what is
/// wrong with a single rule is a problem in the result instead.
pub(super) fn parse(text: &str, origin: &Origin) -> Result<RuleFile> {
    match origin {
        Origin::Builtin => parse_as::<String>(text, origin),
        Origin::File(_) => parse_as::<Spanned<String>>(text, origin),
    }
}

fn parse_as<S: Text + DeserializeOwned>(text: &str, origin: &Origin) -> Result<RuleFile> {
    let raw: RawFile<S> = toml::from_str(text).map_err(|e| syntax_error(&e, text, origin))?;
    let lines = Lines::new(text);
    let mut file = RuleFile { rules: Vec::with_capacity(raw.rule.len()), problems: Vec::new() };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for raw in raw.rule {
        let before = file.problems.len();
        let id = raw.id.text().to_owned();
        let place = lines.place(&raw.id.span());
        if let Some(first) = seen.insert(id.clone(), place.line) {
            file.problems.push(Problem::error(
                &id,
                place,
                format!("a rule with this id is already on line {first}"),
                "give one of them another id",
            ));
        }
        let parsed = build(raw, place, &lines, origin, &mut file.problems);
        let broken = file.problems[before..].iter().any(|p| p.severity == Severity::Error);
        if let (Some(parsed), false) = (parsed, broken) {
            file.rules.push(parsed);
        }
    }
    file.rules.sort_by_key(|parsed| parsed.rule.order);
    Ok(file)
}

fn build<S: Text>(
    raw: RawRule<S>,
    place: Place,
    lines: &Lines<'_>,
    origin: &Origin,
    problems: &mut Vec<Problem>,
) -> Option<Parsed> {
    let id = raw.id.into_text();
    let mut wrong = |at: Place, message: String, hint: &str| {
        problems.push(Problem::error(&id, at, message, hint));
    };
    if id.is_empty() || id.contains(char::is_whitespace) {
        wrong(
            place,
            "the id is empty or has blanks in it".into(),
            "write it like `nccl.all_reduce`",
        );
    }
    let category = Category::new(raw.category.text()).filter(|c| !c.is_unclassified());
    if category.is_none() {
        wrong(
            lines.place(&raw.category.span()),
            format!("`{}` is no category", raw.category.text()),
            "write it as `family/kind` in lower case letters, digits and underscores, like `gemm/dense_gemm`",
        );
    }
    let names_function = !raw.function.is_empty();
    let mut functions = Vec::with_capacity(raw.function.len());
    for text in raw.function {
        match Glob::new(text.text()) {
            Some(glob) => functions.push(glob),
            None => wrong(
                lines.place(&text.span()),
                format!("`{}` is no function name", text.text()),
                "name the kernel function alone, without namespace, template arguments or parameters; \
                 `*` stands for any text, `#` for a number",
            ),
        }
    }
    let mut pattern = |text: Option<S>, key: &str| {
        let text = text?;
        let pattern = Pattern::new(text.text());
        if *origin != Origin::Builtin
            && let Err(e) = pattern.check()
        {
            wrong(
                lines.place(&text.span()),
                format!("the pattern of `{key}` is invalid: {}", last_line(&e.to_string())),
                "patterns are regular expressions without look-around and back-references; \
                 quote them with '...' so that backslashes stay",
            );
        }
        Some((pattern, lines.place(&text.span())))
    };
    let condition = pattern(raw.condition, "where");
    let regex = pattern(raw.regex, "regex");
    if !names_function && regex.is_none() {
        wrong(place, "the rule can match nothing".into(), "give it `function` or `regex`");
    }
    if let (Some((_, at)), true) = (&condition, !names_function) {
        wrong(*at, "`where` without `function`".into(), "use `regex`, or name the function");
    }
    if matches!(raw.on, RawOn::Mangled) && names_function {
        wrong(place, "`function` with `on = \"mangled\"`".into(), "use `regex` for mangled names");
    }
    let literals: Vec<String> = raw.literals.into_iter().map(S::into_text).collect();
    if literals.iter().any(String::is_empty) {
        wrong(place, "a literal is empty".into(), "remove it");
    }
    if *origin != Origin::Builtin
        && let Some((regex, at)) = &regex
        && regex.check().is_ok()
    {
        if literals.is_empty() {
            problems.push(Problem::warning(
                &id,
                *at,
                "no literals: the regex is tried on every name".into(),
                "list in `literals` texts of which every match contains at least one",
            ));
        } else if !literals::required(regex.as_str(), &literals) {
            problems.push(Problem::warning(
                &id,
                *at,
                "it cannot be shown that every match contains one of the literals".into(),
                "names without any of them are never tried: make sure that is meant",
            ));
        }
    }
    let (examples, example_places) = names(raw.examples, lines);
    let (counterexamples, counterexample_places) = names(raw.counterexamples, lines);
    Some(Parsed {
        rule: Rule {
            id: RuleId::new(&id),
            order: raw.order.unwrap_or(0),
            category: category?,
            on: match raw.on {
                RawOn::Demangled => MatchOn::Demangled,
                RawOn::Mangled => MatchOn::Mangled,
            },
            functions,
            condition: condition.map(|(pattern, _)| pattern),
            literals,
            regex: regex.map(|(pattern, _)| pattern),
            library: raw.library,
            source: raw.source,
            dims: raw.dims,
            note: raw.note,
            needs_context: raw.needs_context,
            examples,
            counterexamples,
            origin: origin.clone(),
        },
        place,
        examples: example_places,
        counterexamples: counterexample_places,
    })
}

fn names<S: Text>(raw: Vec<S>, lines: &Lines<'_>) -> (Vec<String>, Vec<Place>) {
    raw.into_iter()
        .map(|name| {
            let place = lines.place(&name.span());
            (name.into_text(), place)
        })
        .unzip()
}

/// Regex errors draw the pattern over several lines; the last one says what is
/// wrong.
fn last_line(message: &str) -> &str {
    let line = message.lines().last().unwrap_or(message);
    line.trim().trim_start_matches("error: ")
}

fn syntax_error(error: &toml::de::Error, text: &str, origin: &Origin) -> Error {
    let path = match origin {
        Origin::Builtin => Path::new("builtin rules"),
        Origin::File(path) => path,
    };
    let mut made = Error::new(ErrorKind::Rules, error.message().replace('\n', ", ")).in_file(path);
    if let Some(span) = error.span() {
        made = made.at(Lines::new(text).place(&span).to_string());
    }
    made.with_hint(
        "a rule file is a list of `[[rule]]` tables with `id`, `category` and `function` or `regex`; \
         see docs/kernel-rules.md",
    )
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Finds lines and columns of byte offsets.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let line = self.starts.partition_point(|start| *start <= span.start).max(1);
        let start = self.starts[line - 1];
        let column =
            self.text.get(start..span.start).map_or(1, |before| before.chars().count() + 1);
        Place { line, column }
    }
}
