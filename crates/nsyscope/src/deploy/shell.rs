//! Reading shell text: words, quotes, variables and assignments, without running
//! anything. What only a run can tell (`$(...)`, unset variables, `$1`) becomes
//! [`RUNTIME`].

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;

use super::envfile::is_name;
use super::expand::{Expansion, braced};
use super::place::Place;
use super::warning::Warning;
use super::word::{Budget, MAX_WARNINGS, MAX_WORDS, RUNTIME, Variables, Word};

/// A simple command with the environment it would get.
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    pub(super) env: Variables,
}

/// Parts of words that make a command worth keeping.
const ENGINES: &[&str] = &["vllm", "sglang", "trtllm", "tensorrt_llm"];

/// What a script says.
#[derive(Default)]
pub(super) struct Script {
    /// The commands that mention an engine, in order.
    pub(super) commands: Vec<Command>,
    /// The last command of all, unless it mentions an engine.
    pub(super) last: Option<Command>,
    pub(super) warnings: Vec<Warning>,
    /// All variables at the end, for a script that only sets some.
    pub(super) variables: Variables,
}

/// Commands that only prepare; they are not kept.
const PREPARING: &[&str] = &[
    "cd", "source", ".", "echo", "printf", "set", "unset", "ulimit", "mkdir", "sleep", "trap",
    "true", "false", ":", "shift", "wait", "test", "[", "[[", "module", "umask", "alias", "pushd",
    "popd", "return", "exit", "local", "shopt", "cat", "rm", "cp", "ls", "kill", "pkill", "pip",
    "hash", "eval", "read", "which",
];

/// Most commands kept: each holds a copy of its environment.
const MAX_COMMANDS: usize = 64;

/// Reads shell text. `first_line` is where the text starts in its file; `exported` is
/// the environment that the shell itself gets.
pub(super) fn read(
    text: &str,
    first_line: Option<u32>,
    file: &Place,
    exported: &Variables,
) -> Result<Script> {
    let mut shell = Shell {
        chars: text.chars().collect(),
        at: 0,
        line: first_line,
        file,
        variables: exported.clone(),
        exported: exported.keys().cloned().collect(),
        arrays: BTreeMap::new(),
        export_all: false,
        branches: 0,
        heredocs: Vec::new(),
        total_words: 0,
        script: Script::default(),
        unset: Vec::new(),
        budget: Budget::default(),
        last: None,
    };
    while shell.at < shell.chars.len() {
        shell.command()?;
    }
    if let Some((words, prefix)) = shell.last.take() {
        let env = shell.environment(prefix);
        shell.script.last = Some(Command { words, env });
    }
    shell.script.variables = shell.variables;
    Ok(shell.script)
}

/// Assignments that stand before a command.
type Assignments = Vec<(String, Word)>;

struct Shell<'a> {
    chars: Vec<char>,
    at: usize,
    line: Option<u32>,
    file: &'a Place,
    variables: Variables,
    exported: BTreeSet<String>,
    arrays: BTreeMap<String, Vec<Word>>,
    export_all: bool,
    branches: usize,
    heredocs: Vec<(String, bool)>,
    total_words: usize,
    script: Script,
    unset: Vec<String>,
    budget: Budget,
    last: Option<(Vec<Word>, Assignments)>,
}

/// The word that is being read. `fields` are words already closed by the splitting of
/// an expansion.
#[derive(Default)]
struct Current {
    text: String,
    started: bool,
    quoted: bool,
    fields: Vec<String>,
}

impl Shell<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.line = self.line.map(|line| line.saturating_add(1));
        }
        Some(c)
    }

    fn place(&self) -> Place {
        Place { file: self.file.file.clone(), line: self.line }
    }

    fn warn(&mut self, code: &'static str, message: String, place: &Place) {
        if self.script.warnings.len() < MAX_WARNINGS {
            self.script.warnings.push(Warning::new(code, message, place));
        }
    }

    /// Reads one simple command, up to and with its end.
    fn command(&mut self) -> Result<()> {
        let mut words: Vec<Word> = Vec::new();
        let mut prefix = Assignments::new();
        let start = self.place();
        loop {
            while matches!(self.peek(0), Some(' ' | '\t' | '\r')) || self.at_continuation() {
                if self.at_continuation() {
                    self.bump();
                }
                self.bump();
            }
            match self.peek(0) {
                None => break,
                Some('#') => self.skip_comment(),
                Some('\n') => {
                    self.bump();
                    self.skip_heredocs();
                    break;
                }
                Some(';' | '&' | '|' | '(' | ')') => {
                    self.bump();
                    break;
                }
                Some('<' | '>') => self.redirection()?,
                Some(_) => self.word(&mut words, &mut prefix)?,
            }
            self.total_words += 1;
            if self.total_words > MAX_WORDS {
                return Err(self.place().error(format!("more than {MAX_WORDS} words")));
            }
        }
        self.finish(words, prefix, &start);
        Ok(())
    }

    fn at_continuation(&self) -> bool {
        self.peek(0) == Some('\\')
            && (self.peek(1) == Some('\n')
                || (self.peek(1) == Some('\r') && self.peek(2) == Some('\n')))
    }

    fn skip_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.bump();
        }
    }

    fn redirection(&mut self) -> Result<()> {
        let heredoc = self.peek(0) == Some('<') && self.peek(1) == Some('<');
        let here_string = heredoc && self.peek(2) == Some('<');
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
            self.bump();
        }
        let indented = heredoc && !here_string && self.peek(0) == Some('-');
        if indented {
            self.bump();
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.bump();
        }
        let mut target = Vec::new();
        if self.peek(0).is_some_and(|c| !"\n;&|()<>".contains(c)) {
            self.word(&mut target, &mut Vec::new())?;
        }
        if heredoc
            && !here_string
            && let Some(end) = target.into_iter().next()
        {
            self.heredocs.push((end.text, indented));
        }
        Ok(())
    }

    fn skip_heredocs(&mut self) {
        for (end, indented) in std::mem::take(&mut self.heredocs) {
            while self.at < self.chars.len() {
                let mut line = String::new();
                while let Some(c) = self.bump() {
                    if c == '\n' {
                        break;
                    }
                    line.push(c);
                }
                let line = if indented { line.trim_start_matches('\t') } else { &line };
                if line == end {
                    break;
                }
            }
        }
    }

    /// Reads one word; an assignment before the command's name goes to `prefix`.
    fn word(&mut self, words: &mut Vec<Word>, prefix: &mut Assignments) -> Result<()> {
        let place = self.place();
        let may_assign = words.is_empty() || declares(words);
        let mut current = Current::default();
        let mut name: Option<(String, bool)> = None;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | ')' | '<' | '>' => break,
                '(' => {
                    if let Some((name, append)) = name.take().filter(|_| current.text.is_empty()) {
                        return self.array(name, append);
                    }
                    break;
                }
                '=' if may_assign && name.is_none() && !current.quoted => {
                    let (text, append) = match current.text.strip_suffix('+') {
                        Some(text) => (text, true),
                        None => (current.text.as_str(), false),
                    };
                    if is_name(text) {
                        name = Some((text.to_owned(), append));
                        current = Current { started: true, ..Current::default() };
                        self.bump();
                    } else {
                        self.piece(&mut current, false, &place)?;
                    }
                }
                _ => self.piece(&mut current, name.is_some(), &place)?,
            }
        }
        if let Some((name, append)) = name {
            let mut value = current.text;
            if append {
                let before = self.variables.get(&name).map_or("", |word| word.text.as_str());
                self.budget.spend(before.len());
                self.budget.check(&place)?;
                value = format!("{before}{value}");
            }
            if declares(words) {
                words.push(Word::new(name.clone(), &place));
                self.assign(&name, Word::new(value, &place), &place);
            } else {
                prefix.push((name, Word::new(value, &place)));
            }
            return Ok(());
        }
        // A number right before a redirection is a file descriptor.
        let descriptor = matches!(self.peek(0), Some('<' | '>'))
            && !current.quoted
            && !current.text.is_empty()
            && current.text.chars().all(|c| c.is_ascii_digit());
        words.extend(current.fields.into_iter().map(|text| Word::new(text, &place)));
        if current.started && !descriptor {
            words.push(Word::new(current.text, &place));
        }
        if words.len() > MAX_WORDS {
            return Err(place.error(format!("more than {MAX_WORDS} words")));
        }
        Ok(())
    }

    fn array(&mut self, name: String, append: bool) -> Result<()> {
        self.bump();
        let mut items = Vec::new();
        loop {
            match self.peek(0) {
                None => break,
                Some(')') => {
                    self.bump();
                    break;
                }
                Some('#') => self.skip_comment(),
                Some(c) if c.is_whitespace() || ";&|<>(".contains(c) => {
                    self.bump();
                }
                Some(_) if self.at_continuation() => {
                    self.bump();
                    self.bump();
                }
                // A first word that no assignment may follow.
                Some(_) => {
                    let mut more = vec![Word::new("", self.file)];
                    self.word(&mut more, &mut Vec::new())?;
                    items.extend(more.into_iter().skip(1));
                }
            }
            if items.len() > MAX_WORDS {
                return Err(self.place().error(format!("more than {MAX_WORDS} words")));
            }
        }
        let list = self.arrays.entry(name).or_default();
        if !append {
            list.clear();
        }
        list.extend(items);
        Ok(())
    }

    /// Reads the next piece of a word: a quoted part, an expansion, or one character.
    fn piece(&mut self, current: &mut Current, whole: bool, place: &Place) -> Result<()> {
        let Some(c) = self.bump() else { return Ok(()) };
        match c {
            '\'' => {
                (current.started, current.quoted) = (true, true);
                loop {
                    match self.bump() {
                        None => return Err(place.error("a single quote is not closed")),
                        Some('\'') => break,
                        Some(c) => current.text.push(c),
                    }
                }
            }
            '"' => {
                (current.started, current.quoted) = (true, true);
                self.double_quoted(current, place)?;
            }
            '\\' => match self.bump() {
                Some('\n') | None => {}
                Some(c) => {
                    current.started = true;
                    current.text.push(c);
                }
            },
            '`' => {
                while self.bump().is_some_and(|c| c != '`') {}
                current.started = true;
                current.text.push(RUNTIME);
            }
            '$' => {
                if self.peek(0) == Some('\'') {
                    return Ok(());
                }
                let value = self.dollar(current, false, place)?;
                if whole {
                    current.started = true;
                    current.text.push_str(&value);
                } else {
                    split_into(current, &value);
                }
            }
            c => {
                current.started = true;
                current.text.push(c);
            }
        }
        Ok(())
    }

    fn double_quoted(&mut self, current: &mut Current, place: &Place) -> Result<()> {
        loop {
            match self.bump() {
                None => return Err(place.error("a double quote is not closed")),
                Some('"') => return Ok(()),
                Some('\\') => match self.bump() {
                    None => return Err(place.error("a double quote is not closed")),
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => current.text.push(c),
                    Some(c) => current.text.extend(['\\', c]),
                },
                Some('`') => {
                    while self.bump().is_some_and(|c| c != '`') {}
                    current.text.push(RUNTIME);
                }
                Some('$') => {
                    let value = self.dollar(current, true, place)?;
                    current.text.push_str(&value);
                }
                Some(c) => current.text.push(c),
            }
        }
    }

    /// Reads what follows a `$`. An array becomes fields of `current`.
    fn dollar(&mut self, current: &mut Current, quoted: bool, place: &Place) -> Result<String> {
        match self.peek(0) {
            Some('(') => {
                let mut depth = 0_usize;
                while let Some(c) = self.bump() {
                    match c {
                        '(' => depth += 1,
                        ')' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
                Ok(RUNTIME.to_string())
            }
            Some('{') => {
                let mut body = String::new();
                let mut depth = 0_usize;
                loop {
                    match self.bump() {
                        None => return Err(place.error("`${` is not closed")),
                        Some('{') => depth += 1,
                        Some('}') if depth == 1 => break,
                        Some('}') => depth -= 1,
                        _ => {}
                    }
                    body.extend(self.chars.get(self.at - 1));
                }
                body.remove(0);
                self.reference(&body, current, place)
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.peek(0).filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                {
                    name.push(c);
                    self.bump();
                }
                self.reference(&name, current, place)
            }
            Some('@' | '*') => {
                self.bump();
                let message = "takes arguments that are only known when it runs".to_owned();
                self.warn("arguments-at-run-time", message, place);
                if quoted {
                    current.started = !current.text.is_empty();
                }
                Ok(String::new())
            }
            Some('0'..='9' | '#' | '?' | '!' | '-' | '$') => {
                self.bump();
                Ok(RUNTIME.to_string())
            }
            _ => Ok("$".to_owned()),
        }
    }

    fn reference(&mut self, body: &str, current: &mut Current, place: &Place) -> Result<String> {
        let array = body.strip_suffix("[@]").or_else(|| body.strip_suffix("[*]"));
        if let Some(items) = array.and_then(|name| self.arrays.get(name)) {
            let bytes = items.iter().map(|word| word.text.len() + size_of::<Word>()).sum();
            self.budget.spend(bytes);
            self.budget.check(place)?;
            let mut items = items.iter().map(|word| word.text.clone());
            match items.next() {
                None => current.started = !current.text.is_empty(),
                Some(first) => {
                    current.started = true;
                    current.text.push_str(&first);
                    for item in items {
                        current.fields.push(std::mem::replace(&mut current.text, item));
                    }
                }
            }
            return Ok(String::new());
        }
        if body == "@" || body == "*" {
            return Ok(String::new());
        }
        let (variables, budget) = (&self.variables, &self.budget);
        let lookup = |name: &str| budget.lookup(variables, name);
        let value = match braced(body, &lookup, &mut self.unset, 0) {
            Expansion::Text(text) => text,
            Expansion::Required(name) => {
                self.unset.push(name);
                RUNTIME.to_string()
            }
            Expansion::Unknown => RUNTIME.to_string(),
        };
        self.budget.check(place)?;
        for name in std::mem::take(&mut self.unset) {
            let message = format!("`{name}` is not set by anything that was read");
            self.warn("variable-unset", message, place);
        }
        Ok(value)
    }

    fn assign(&mut self, name: &str, value: Word, place: &Place) {
        if self.branches > 0 {
            let message =
                format!("`{name}` is set inside a branch; the last value in the file was taken");
            self.warn("set-in-branch", message, place);
        }
        if self.export_all {
            self.exported.insert(name.to_owned());
        }
        self.variables.insert(name.to_owned(), value);
    }

    fn finish(&mut self, mut words: Vec<Word>, prefix: Assignments, start: &Place) {
        let mut keywords = 0;
        for word in &words {
            match word.text.as_str() {
                "if" | "while" | "until" => self.branches += 1,
                // Their own words are no command.
                "for" | "case" | "select" => {
                    self.branches += 1;
                    return;
                }
                "function" => return,
                "fi" | "done" | "esac" => self.branches = self.branches.saturating_sub(1),
                "then" | "else" | "elif" | "do" | "{" | "}" | "!" | "time" => {}
                _ => break,
            }
            keywords += 1;
        }
        words.drain(..keywords);
        let Some(first) = words.first().map(|word| word.text.clone()) else {
            for (name, value) in prefix {
                self.assign(&name, value, start);
            }
            return;
        };
        match first.as_str() {
            "export" | "declare" | "typeset" | "readonly" => {
                let exports = first == "export" || words.iter().any(|word| word.text == "-x");
                if exports {
                    self.exported.extend(words.into_iter().skip(1).map(|word| word.text));
                }
            }
            "unset" => {
                for word in words.into_iter().skip(1) {
                    self.variables.remove(&word.text);
                }
            }
            "set" => match words.get(1).map(|word| word.text.as_str()) {
                Some("-a" | "-ea" | "-ae") => self.export_all = true,
                Some("+a") => self.export_all = false,
                _ => {}
            },
            "source" | "." => self.sourced(&words, start),
            name if PREPARING.contains(&name) => {}
            _ => {
                let engine =
                    words.iter().any(|word| ENGINES.iter().any(|name| word.text.contains(name)));
                if !engine {
                    self.last = Some((words, prefix));
                } else if self.script.commands.len() < MAX_COMMANDS {
                    self.last = None;
                    let env = self.environment(prefix);
                    self.script.commands.push(Command { words, env });
                }
            }
        }
    }

    /// The environment that a command gets now.
    fn environment(&self, prefix: Assignments) -> Variables {
        let exported = self.variables.iter().filter(|(name, _)| self.exported.contains(*name));
        let mut env: Variables =
            exported.map(|(name, value)| (name.clone(), value.clone())).collect();
        env.extend(prefix);
        env
    }

    /// Another script may set what matters; a virtual environment's does not.
    fn sourced(&mut self, words: &[Word], place: &Place) {
        let Some(path) = words.get(1).filter(|word| !word.is_runtime()) else { return };
        let name = path.text.rsplit('/').next().unwrap_or_default();
        if !matches!(name, "activate" | "conda.sh" | ".bashrc" | "bashrc" | "setvars.sh") {
            let message = "sources another file, which was not read; give it with --env".to_owned();
            self.warn("source-not-read", message, place);
        }
    }
}

fn declares(words: &[Word]) -> bool {
    words.first().is_some_and(|word| {
        matches!(word.text.as_str(), "export" | "declare" | "typeset" | "readonly" | "local")
    })
}

/// Adds an unquoted expansion to a word: blanks split it.
fn split_into(current: &mut Current, value: &str) {
    for c in value.chars() {
        if c.is_whitespace() {
            if current.started {
                current.fields.push(std::mem::take(&mut current.text));
                current.started = false;
            }
        } else {
            current.started = true;
            current.text.push(c);
        }
    }
}

/// Splits text that has lost its quotes (`ps`, `systemctl show`) at blanks; an open
/// brace, bracket or quote at the start of a word keeps JSON together.
pub(super) fn split_unquoted(text: &str, place: &Place) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut json = false;
    for c in text.chars() {
        if c.is_whitespace() && depth == 0 {
            if !word.is_empty() {
                words.push(Word::new(std::mem::take(&mut word), place));
            }
            json = false;
            continue;
        }
        if !json && matches!(c, '{' | '[') && (word.is_empty() || word.ends_with(['=', '\''])) {
            json = true;
        }
        if json {
            match c {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                '{' | '[' if !in_string => depth += 1,
                '}' | ']' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        word.push(c);
        if words.len() > MAX_WORDS {
            return Err(place.error(format!("more than {MAX_WORDS} words")));
        }
    }
    if !word.is_empty() {
        words.push(Word::new(word, place));
    }
    for word in &mut words {
        for quote in ['\'', '"'] {
            let inner = word.text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
            if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
                word.text = inner.to_owned();
                break;
            }
        }
    }
    Ok(words)
}

/// Splits at blanks with the shell's quoting but nothing else of the shell, as compose
/// splits a command that is one string.
pub(super) fn split_quoted(text: &str, place: &Place) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if quote.is_none() && c.is_whitespace() {
            words.extend(word.take().map(|text| Word::new(text, place)));
            continue;
        }
        let current = word.get_or_insert_default();
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '\\') => current.extend(chars.next().filter(|c| *c != '\n')),
            (Some('"'), '\\') => match chars.next() {
                Some(c @ ('"' | '\\' | '$' | '`')) => current.push(c),
                Some('\n') | None => {}
                Some(c) => current.extend(['\\', c]),
            },
            (_, c) => current.push(c),
        }
        if words.len() > MAX_WORDS {
            return Err(place.error(format!("more than {MAX_WORDS} words")));
        }
    }
    if quote.is_some() {
        return Err(place.error("a quote is not closed"));
    }
    words.extend(word.map(|text| Word::new(text, place)));
    Ok(words)
}
