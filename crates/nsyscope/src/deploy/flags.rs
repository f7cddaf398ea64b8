//! A reader for argparse-like command lines: long and short flags, `=` forms,
//! abbreviations, negations, JSON flags and their dotted forms. Last one wins.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::place::Place;
use super::secrets::{is_secret_flag, names_a_secret};
use super::word::Word;

/// How many values a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    /// None; where the grammar has negations, `--no-...` turns it off.
    Switch,
    /// One.
    One,
    /// One or more, up to the next flag.
    Many,
    /// One JSON object, or dotted sub-keys.
    Json,
}

/// A flag: its long names (the first is the canonical one, without dashes), its short
/// names (one dash), and its arity.
pub(super) struct Flag(
    pub(super) &'static [&'static str],
    pub(super) &'static [&'static str],
    pub(super) Arity,
);

/// The command line grammar of an engine.
pub(super) struct Grammar {
    pub(super) flags: &'static [Flag],
    /// Switches that are only known so that they do not swallow a word.
    pub(super) switches: &'static [&'static str],
    /// Flags with one value of no interest here.
    pub(super) ignored: &'static [&'static str],
    /// `_` may stand for `-`.
    pub(super) underscores: bool,
    /// Dotted JSON flags and `--no-` negations exist.
    pub(super) extended: bool,
    /// A prefix of a flag stands for it, as argparse has it; a program whose other flags are not
    /// known here may have one of that very name.
    pub(super) abbreviations: bool,
}

/// A value as given.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Switch(bool),
    Words(Vec<Word>),
    Json(Value),
}

/// The last occurrence of a flag.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    /// As it was written, without a value.
    pub(super) shown: String,
    pub(super) given: Given,
    pub(super) place: Place,
}

/// A command line, taken apart.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) flags: BTreeMap<&'static str, Occurrence>,
    pub(super) positionals: Vec<Word>,
    /// Names of flags that the grammar lacks, in order, without their values.
    pub(super) unknown: Vec<(String, Place)>,
}

enum Known {
    Flag(&'static Flag),
    Off(&'static Flag),
    Switch,
    Ignored,
}

impl Grammar {
    /// Reads the words after the program's name and subcommand.
    pub(super) fn parse(&self, words: &[Word]) -> Parsed {
        let mut parsed = Parsed::default();
        let mut dotted: Vec<(String, &'static Flag, Place, Map<String, Value>)> = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            if word.text == "--" {
                parsed.positionals.extend(words[at..].iter().cloned());
                break;
            }
            if !is_flag(&word.text) {
                if !word.is_runtime() {
                    parsed.positionals.push(word.clone());
                }
                continue;
            }
            let (name, inline) = match word.text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.text.as_str(), None),
            };
            if self.extended && name.contains('.') {
                let (stem, keys) = name.split_once('.').unwrap_or((name, ""));
                let found = self.find(stem);
                if let Some(Known::Ignored | Known::Switch) = found {
                    at += usize::from(
                        inline.is_none() && words.get(at).is_some_and(|word| is_value(&word.text)),
                    );
                    continue;
                }
                if let Some(Known::Flag(flag @ Flag(_, _, Arity::Json))) = found {
                    let text = match inline {
                        Some(value) => Some(value.to_owned()),
                        None => words.get(at).map(|word| word.text.clone()),
                    };
                    at += usize::from(inline.is_none());
                    let (keys, appends) = match keys.strip_suffix('+') {
                        Some(keys) => (keys, true),
                        None => (keys, false),
                    };
                    let Some(text) = text.filter(|_| !names_a_secret(keys)) else { continue };
                    let value = if appends {
                        Value::Array(text.split(',').map(scalar).collect())
                    } else {
                        serde_json::from_str(&text).unwrap_or(Value::String(text))
                    };
                    let stem = self.normal(stem);
                    let index =
                        if let Some(index) = dotted.iter().position(|(name, ..)| *name == stem) {
                            index
                        } else {
                            dotted.push((stem, flag, word.place.clone(), Map::new()));
                            dotted.len() - 1
                        };
                    insert(&mut dotted[index].3, keys, value, 0);
                    continue;
                }
            }
            let shown = name.to_owned();
            // `-tp8` is not argparse's for multi-letter flags, `-O3` is.
            let (known, inline) = match self.find(name) {
                Some(known) => (Some(known), inline.map(str::to_owned)),
                None => match name.strip_prefix("-O").filter(|level| !level.is_empty()) {
                    Some(level) => (self.find("-O"), Some(level.to_owned())),
                    None => (None, inline.map(str::to_owned)),
                },
            };
            let inline = inline.map(|text| Word::new(text, &word.place));
            if is_secret_flag(name) && !matches!(known, Some(Known::Switch | Known::Ignored)) {
                if inline.is_none() {
                    at += words[at..].iter().take_while(|word| !is_flag(&word.text)).count();
                }
                continue;
            }
            let given = match known {
                Some(Known::Flag(flag)) => {
                    let given = match flag.2 {
                        Arity::Switch => Some(Given::Switch(
                            inline.as_ref().is_none_or(|word| is_true(&word.text)),
                        )),
                        Arity::One | Arity::Json => inline
                            .or_else(|| {
                                let next = words.get(at).filter(|word| is_value(&word.text))?;
                                at += 1;
                                Some(next.clone())
                            })
                            .map(|word| Given::Words(vec![word])),
                        Arity::Many => {
                            let mut list: Vec<Word> = inline.into_iter().collect();
                            if list.is_empty() {
                                let count = words[at..]
                                    .iter()
                                    .take_while(|word| is_value(&word.text))
                                    .count();
                                list.extend(words[at..at + count].iter().cloned());
                                at += count;
                            }
                            Some(Given::Words(list))
                        }
                    };
                    given.map(|given| (flag, given))
                }
                Some(Known::Off(flag)) => Some((flag, Given::Switch(false))),
                Some(Known::Switch) => None,
                Some(Known::Ignored) => {
                    at += usize::from(
                        inline.is_none() && words.get(at).is_some_and(|word| is_value(&word.text)),
                    );
                    None
                }
                None => {
                    // Most unknown flags take a value, but not those named like a switch.
                    // Nothing of an unknown value is kept: it could be anything.
                    at += usize::from(
                        inline.is_none()
                            && !looks_like_switch(name)
                            && words.get(at).is_some_and(|word| !is_flag(&word.text)),
                    );
                    parsed.unknown.push((name.to_owned(), word.place.clone()));
                    None
                }
            };
            if let Some((flag, given)) = given {
                let occurrence = Occurrence { shown, given, place: word.place.clone() };
                parsed.flags.insert(flag.0[0], occurrence);
            }
        }
        // vLLM appends the collected sub-keys after all other arguments, one JSON value
        // for each literal flag text, so each replaces what came before it.
        for (shown, flag, place, map) in dotted {
            let given = Given::Json(Value::Object(map));
            parsed.flags.insert(flag.0[0], Occurrence { shown, given, place });
        }
        parsed
    }

    fn normal(&self, name: &str) -> String {
        if self.underscores && name.starts_with("--") {
            name.replace('_', "-")
        } else {
            name.to_owned()
        }
    }

    fn find(&self, name: &str) -> Option<Known> {
        let name = self.normal(name);
        let Some(long) = name.strip_prefix("--") else {
            let short = name.strip_prefix('-')?;
            return self.flags.iter().find(|flag| flag.1.contains(&short)).map(Known::Flag);
        };
        let exact = |long: &str| self.flags.iter().find(|flag| flag.0.contains(&long));
        if let Some(flag) = exact(long) {
            return Some(Known::Flag(flag));
        }
        if self.switches.contains(&long) {
            return Some(Known::Switch);
        }
        if self.ignored.contains(&long) {
            return Some(Known::Ignored);
        }
        if let Some(positive) = long.strip_prefix("no-").filter(|_| self.extended) {
            if let Some(flag) = exact(positive).filter(|flag| flag.2 == Arity::Switch) {
                return Some(Known::Off(flag));
            }
            if self.switches.contains(&positive) {
                return Some(Known::Switch);
            }
        }
        self.abbreviated(long)
    }

    /// argparse accepts a prefix that fits one flag only.
    fn abbreviated(&self, prefix: &str) -> Option<Known> {
        if !self.abbreviations || prefix.len() < 2 {
            return None;
        }
        let mut fits: BTreeSet<&'static str> = BTreeSet::new();
        let mut found = None;
        for flag in self.flags {
            if flag.0.iter().any(|name| name.starts_with(prefix)) {
                fits.insert(flag.0[0]);
                found = Some(Known::Flag(flag));
            }
        }
        for name in self.switches.iter().filter(|name| name.starts_with(prefix)) {
            fits.insert(name);
            found = Some(Known::Switch);
        }
        for name in self.ignored.iter().filter(|name| name.starts_with(prefix)) {
            fits.insert(name);
            found = Some(Known::Ignored);
        }
        found.filter(|_| fits.len() == 1)
    }
}

/// Whether argparse takes a word for a flag: a dash, and not a negative number.
pub(super) fn is_flag(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && text[1..].parse::<f64>().is_err()
}

fn is_value(text: &str) -> bool {
    !is_flag(text) && text != "--"
}

fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "false" | "0" | "no" | "off")
}

fn looks_like_switch(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    ["enable", "disable", "no-", "skip", "allow", "trust", "use-", "return-", "log-", "print-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn scalar(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn insert(map: &mut Map<String, Value>, keys: &str, value: Value, depth: usize) {
    match keys.split_once('.').filter(|_| depth < 16) {
        None => match (map.get_mut(keys), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (_, value) => {
                map.insert(keys.to_owned(), value);
            }
        },
        Some((key, rest)) => {
            let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            if let Value::Object(inner) = entry {
                insert(inner, rest, value, depth + 1);
            }
        }
    }
}
