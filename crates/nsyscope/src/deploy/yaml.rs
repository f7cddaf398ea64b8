//! A small YAML tree with line numbers, anchors and `<<` merges, built from parser
//! events within limits on depth and size (an alias counts as what it stands for).

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::Value;

use crate::Result;

use super::place::Place;

const MAX_DEPTH: usize = 100;
const MAX_NODES: usize = 200_000;

/// A node and the place it starts at.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A scalar; `plain` ones may mean null, a boolean or a number.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The entries of a map; empty for anything else.
    pub(super) fn entries(&self) -> &[(String, Node)] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; empty for anything else.
    pub(super) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar that is not null.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// A plain boolean of YAML 1.2.
    pub(super) fn boolean(&self) -> Option<bool> {
        match &self.kind {
            Kind::Scalar { text, plain: true } => match text.as_str() {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// What kind of node it is, for messages.
    pub(super) fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Scalar { .. } => "a scalar",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// The same value as JSON.
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar { .. } if self.is_null() => Value::Null,
            Kind::Scalar { text, plain } => match self.boolean() {
                Some(value) => Value::Bool(value),
                None if *plain => serde_json::from_str::<serde_json::Number>(text)
                    .map_or_else(|_| Value::String(text.clone()), Value::Number),
                None => Value::String(text.clone()),
            },
            Kind::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Kind::Map(entries) => {
                Value::Object(entries.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
        }
    }
}

enum Open {
    List { node: Vec<Node>, place: Place, anchor: usize },
    Map { node: Vec<(String, Node)>, key: Option<String>, place: Place, anchor: usize },
}

struct Builder {
    stack: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    documents: Vec<Node>,
    nodes: usize,
}

/// Reads all documents of a YAML text.
pub(super) fn parse(text: &str, file: &Place) -> Result<Vec<Node>> {
    let mut builder =
        Builder { stack: Vec::new(), anchors: BTreeMap::new(), documents: Vec::new(), nodes: 0 };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            let line = u32::try_from(error.marker().line()).unwrap_or(u32::MAX);
            file.at_line(line).error(format!("invalid YAML: {}", error.info()))
        })?;
        let place = file.at_line(u32::try_from(span.start.line()).unwrap_or(u32::MAX));
        builder.event(event, place)?;
    }
    Ok(builder.documents)
}

impl Builder {
    fn event(&mut self, event: Event<'_>, place: Place) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let kind = Kind::Scalar { text: text.into_owned(), plain };
                self.add(Node { place, kind }, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(place.error("an alias stands inside its own anchor"));
                };
                self.nodes = self.nodes.saturating_add(size(&node));
                self.add(node, 0)
            }
            Event::SequenceStart(anchor, _) => {
                self.open(Open::List { node: Vec::new(), place, anchor })
            }
            Event::MappingStart(anchor, _) => {
                self.open(Open::Map { node: Vec::new(), key: None, place, anchor })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open::List { node, place, anchor }) => {
                    self.add(Node { place, kind: Kind::List(node) }, anchor)
                }
                Some(Open::Map { node, place, anchor, .. }) => {
                    let node = merge(node, &place)?;
                    self.add(Node { place, kind: Kind::Map(node) }, anchor)
                }
                None => Err(place.error("invalid YAML: an end without a start")),
            },
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open) -> Result<()> {
        if self.stack.len() >= MAX_DEPTH {
            let (Open::List { place, .. } | Open::Map { place, .. }) = &open;
            return Err(place.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push(open);
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<()> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > MAX_NODES {
            return Err(node.place.error(format!("more than {MAX_NODES} YAML nodes")));
        }
        if anchor != 0 {
            self.nodes = self.nodes.saturating_add(size(&node));
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Open::List { node: items, .. }) => items.push(node),
            Some(Open::Map { node: entries, key, .. }) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => match node.kind {
                    Kind::Scalar { text, .. } => *key = Some(text),
                    _ => return Err(node.place.error("a key of a map must be a scalar")),
                },
            },
        }
        Ok(())
    }
}

fn size(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|(_, node)| 1 + size(node)).sum::<usize>(),
    }
}

/// Applies `<<`: own keys win over merged ones, earlier merged maps over later ones.
/// A key that is given twice is an error, as it is for compose and Kubernetes.
fn merge(entries: Vec<(String, Node)>, place: &Place) -> Result<Vec<(String, Node)>> {
    let mut seen = std::collections::BTreeSet::new();
    for (key, node) in &entries {
        if key != "<<" && !seen.insert(key.as_str()) {
            return Err(node.place.error(format!("key `{key}` is given twice in one map")));
        }
    }
    if !entries.iter().any(|(key, _)| key == "<<") {
        return Ok(entries);
    }
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key == "<<");
    let mut known: std::collections::BTreeSet<String> =
        own.iter().map(|(key, _)| key.clone()).collect();
    for (_, node) in merges {
        let sources = match node.kind {
            Kind::List(items) => items,
            _ => vec![node],
        };
        for source in sources {
            let Kind::Map(source) = source.kind else {
                return Err(place.error("`<<` merges a map or a list of maps"));
            };
            for (key, value) in source {
                if known.insert(key.clone()) {
                    own.push((key, value));
                }
            }
        }
    }
    Ok(own)
}
