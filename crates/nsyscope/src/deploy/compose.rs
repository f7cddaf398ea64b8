//! Compose files: one service's image, entry point, command, environment and GPUs.
//!
//! Source: the Compose specification, <https://github.com/compose-spec/compose-spec>.

use std::path::Path;

use crate::Result;

use super::argv::starts_engine;
use super::docker::{env_file, with_entrypoint};
use super::envfile;
use super::expand::inline;
use super::limits::read_text;
use super::place::Place;
use super::shell::split_quoted;
use super::word::{Budget, Launch, RUNTIME, Variables, Word};
use super::yaml::{self, Kind, Node};

/// Most services of one file.
const MAX_SERVICES: usize = 1000;

/// How many files or services `extends` may go through.
const MAX_EXTENDS: usize = 16;

/// Reads a compose document. `service` picks one; else the first that starts an engine.
pub(super) fn read(
    document: &Node,
    file: &Place,
    service: Option<&str>,
    given: &Variables,
) -> Result<Launch> {
    let mut variables = Variables::new();
    let beside = file.directory().join(".env");
    if file.file.is_some() && beside.is_file() {
        variables.extend(envfile::parse(&read_text(&beside)?, &Place::file(&beside))?);
    }
    variables.extend(given.clone());
    let Some(services) = document.get("services") else {
        return Err(document.place.error("has no `services`"));
    };
    if !matches!(services.kind, Kind::Map(_)) {
        let message = format!("`services` is {}, expected a map", services.noun());
        return Err(services.place.error(message));
    }
    let budget = Budget::default();
    let mut launches = Vec::new();
    if services.entries().len() > MAX_SERVICES {
        return Err(services.place.error(format!("more than {MAX_SERVICES} services")));
    }
    for (name, node) in services.entries() {
        if service.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let mut reader =
            Reader { variables: &variables, budget: &budget, launch: Launch::default() };
        let parts = reader.service(node, document, file, 0)?;
        budget.check(&node.place)?;
        launches.push((name, reader.finish(parts), &node.place));
    }
    if let (Some(wanted), true) = (service, launches.is_empty()) {
        let names: Vec<&str> = services.entries().iter().map(|(name, _)| name.as_str()).collect();
        return Err(services
            .place
            .error(format!("has no service `{wanted}`"))
            .with_hint(format!("services: {}", names.join(", "))));
    }
    let engines: Vec<usize> =
        (0..launches.len()).filter(|index| starts_engine(&launches[*index].1)).collect();
    let chosen = engines.first().copied().unwrap_or(0);
    let names: Vec<&str> = engines.iter().map(|index| launches[*index].0.as_str()).collect();
    if launches.is_empty() {
        return Err(services.place.error("`services` is empty"));
    }
    let (name, mut launch, place) = launches.swap_remove(chosen);
    if names.len() > 1 {
        let message = format!("services {} start an engine; `{name}` was taken", names.join(", "));
        launch.warn("several-services", message, place);
    }
    launch.env.extend(given.clone());
    Ok(launch)
}

/// What a service says, `extends` applied.
#[derive(Default)]
struct Parts {
    entrypoint: Option<Vec<Word>>,
    command: Option<Vec<Word>>,
    environment: Variables,
}

struct Reader<'a> {
    variables: &'a Variables,
    budget: &'a Budget,
    launch: Launch,
}

impl Reader<'_> {
    fn finish(mut self, parts: Parts) -> Launch {
        self.launch.env.extend(parts.environment);
        self.launch.argv = with_entrypoint(
            parts.entrypoint,
            parts.command.unwrap_or_default(),
            self.launch.image.as_ref(),
        );
        self.launch
    }

    fn service(
        &mut self,
        node: &Node,
        document: &Node,
        file: &Place,
        depth: usize,
    ) -> Result<Parts> {
        if !matches!(node.kind, Kind::Map(_)) {
            let message = format!("a service is {}, expected a map", node.noun());
            return Err(node.place.error(message));
        }
        let mut parts = match node.get("extends") {
            Some(extends) => self.extended(extends, document, file, depth)?,
            None => Parts::default(),
        };
        if let Some(image) = node.get("image").and_then(|image| self.text(image)) {
            self.launch.image = Some(image);
        }
        for file in node.get("env_file").map(one_or_many).unwrap_or_default() {
            let path = file.get("path").unwrap_or(file);
            if let Some(path) = self.text(path) {
                env_file(Path::new(&path.text), &path.place, &mut self.launch)?;
            }
        }
        if let Some(environment) = node.get("environment") {
            let environment = self.environment(environment)?;
            parts.environment.extend(environment);
        }
        if let Some(words) = node.get("entrypoint") {
            parts.entrypoint = Some(self.words(words)?);
            // An own entry point drops the image's and the inherited command.
            parts.command = None;
        }
        if let Some(words) = node.get("command").filter(|node| !node.is_null()) {
            parts.command = Some(self.words(words)?);
        }
        self.gpus(node);
        Ok(parts)
    }

    fn extended(
        &mut self,
        extends: &Node,
        document: &Node,
        file: &Place,
        depth: usize,
    ) -> Result<Parts> {
        let place = &extends.place;
        if depth >= MAX_EXTENDS {
            return Err(place.error("`extends` goes in a circle or too deep"));
        }
        let name = extends.get("service").or(Some(extends)).and_then(Node::text);
        let Some(name) = name else { return Err(place.error("`extends` names no service")) };
        let other = extends.get("file").and_then(Node::text);
        let find = |document: &Node| {
            document.get("services").and_then(|services| services.get(name)).cloned()
        };
        match other {
            None => match find(document) {
                Some(node) => self.service(&node, document, file, depth + 1),
                None => Err(place.error("`extends` names a service that is not there")),
            },
            Some(path) => {
                let path = file.directory().join(path);
                if !path.is_file() {
                    let message = "`extends` names a file that is not here; it was not read";
                    self.launch.warn("extends-not-read", message, place);
                    return Ok(Parts::default());
                }
                let file = Place::file(&path);
                let documents = yaml::parse(&read_text(&path)?, &file)?;
                let Some((document, node)) =
                    documents.iter().find_map(|document| Some((document, find(document)?)))
                else {
                    return Err(place.error("`extends` names a service that is not there"));
                };
                self.service(&node, document, &file, depth + 1)
            }
        }
    }

    /// A scalar with its variables replaced.
    fn text(&mut self, node: &Node) -> Option<Word> {
        let text = node.text()?;
        let mut unset = Vec::new();
        let lookup = |name: &str| self.budget.lookup(self.variables, name);
        let text = inline(text, &lookup, &mut unset, 0);
        for name in unset {
            let message = format!("`{name}` is not set by anything that was read");
            self.launch.warn("variable-unset", message, &node.place);
        }
        Some(Word::new(text, &node.place))
    }

    fn words(&mut self, node: &Node) -> Result<Vec<Word>> {
        match &node.kind {
            Kind::List(items) => items
                .iter()
                .map(|item| {
                    self.text(item).ok_or_else(|| {
                        let message = format!("a word of a command is {}", item.noun());
                        item.place.error(message).with_hint("quote it")
                    })
                })
                .collect(),
            Kind::Map(_) => Err(node
                .place
                .error("a command is a map, expected a list or a string")
                .with_hint("a word with `: ` in it needs quotes")),
            Kind::Scalar { .. } => match self.text(node) {
                Some(word) => split_quoted(&word.text, &word.place),
                None => Ok(Vec::new()),
            },
        }
    }

    fn environment(&mut self, node: &Node) -> Result<Variables> {
        let mut out = Variables::new();
        let unknown = |place: &Place| Word::new(RUNTIME.to_string(), place);
        match &node.kind {
            Kind::Map(entries) => {
                for (name, value) in entries {
                    let word = if let Kind::Scalar { .. } = &value.kind {
                        self.text(value).unwrap_or_else(|| unknown(&value.place))
                    } else {
                        let message = format!("variable `{name}` is {}", value.noun());
                        return Err(value.place.error(message));
                    };
                    out.insert(name.clone(), word);
                }
            }
            Kind::List(items) => {
                for item in items {
                    let Some(word) = self.text(item) else {
                        return Err(item.place.error("a variable is not `NAME=value`"));
                    };
                    match word.text.split_once('=') {
                        Some((name, value)) => {
                            out.insert(name.to_owned(), Word::new(value, &item.place));
                        }
                        None => {
                            out.insert(word.text, unknown(&item.place));
                        }
                    }
                }
            }
            Kind::Scalar { .. } if node.is_null() => {}
            Kind::Scalar { .. } => {
                return Err(node
                    .place
                    .error("`environment` is a scalar, expected a map or a list"));
            }
        }
        Ok(out)
    }

    fn gpus(&mut self, node: &Node) {
        let devices = node
            .get("deploy")
            .and_then(|deploy| deploy.get("resources")?.get("reservations")?.get("devices"))
            .or_else(|| node.get("gpus"));
        for device in devices.map(Node::items).unwrap_or_default() {
            let count = match (device.get("device_ids"), device.get("count")) {
                (Some(ids), _) => u32::try_from(ids.items().len()).ok(),
                (None, Some(count)) => self.text(count).and_then(|word| word.text.parse().ok()),
                (None, None) => None,
            };
            if let Some(count) = count {
                self.launch.gpus = Some((count, device.place.clone(), "devices"));
            }
        }
    }
}

fn one_or_many(node: &Node) -> Vec<&Node> {
    match &node.kind {
        Kind::List(items) => items.iter().collect(),
        _ => vec![node],
    }
}
