//! Kubernetes manifests: the container that starts an engine, wherever a pod template
//! stands (Deployment, `StatefulSet`, Job, Pod, `LeaderWorkerSet`, List, ...).

use crate::Result;

use super::argv::starts_engine;
use super::docker::with_entrypoint;
use super::place::Place;
use super::word::{Budget, Launch, RUNTIME, Variables, Word};
use super::yaml::{Kind, Node};

/// Most containers looked at.
const MAX_CONTAINERS: usize = 1000;

/// Whether a document looks like a manifest.
pub(super) fn is_manifest(document: &Node) -> bool {
    document.get("apiVersion").is_some() && document.get("kind").is_some()
}

/// Reads manifests. `container` picks one by name.
pub(super) fn read(
    documents: &[Node],
    file: &Place,
    container: Option<&str>,
    given: &Variables,
) -> Result<Launch> {
    let mut containers = Vec::new();
    for document in documents {
        collect(document, &mut containers)?;
    }
    let names: Vec<&str> =
        containers.iter().filter_map(|node| node.get("name").and_then(Node::text)).collect();
    if let Some(wanted) = container {
        containers.retain(|node| node.get("name").and_then(Node::text) == Some(wanted));
    }
    let mut launches = Vec::new();
    let budget = Budget::default();
    for node in containers.into_iter().take(MAX_CONTAINERS) {
        launches.push((read_container(node, &budget)?, node));
        budget.check(&node.place)?;
    }
    if launches.is_empty() {
        return Err(file
            .error(match container {
                Some(wanted) => format!("has no container `{wanted}`"),
                None => "has no containers".to_owned(),
            })
            .with_hint(format!("containers: {}", names.join(", "))));
    }
    let engines: Vec<usize> =
        (0..launches.len()).filter(|index| starts_engine(&launches[*index].0)).collect();
    let (mut launch, node) = launches.swap_remove(engines.first().copied().unwrap_or(0));
    if engines.len() > 1 {
        let message = format!("{} containers start an engine; the first was taken", engines.len());
        launch.warn("several-containers", message, &node.place);
    }
    launch.env.extend(given.clone());
    Ok(launch)
}

/// Containers in document order, those of init containers left out.
fn collect<'a>(node: &'a Node, out: &mut Vec<&'a Node>) -> Result<()> {
    for (key, value) in node.entries() {
        if key == "containers" {
            if !matches!(value.kind, Kind::List(_)) {
                let message = format!("`containers` is {}, expected a list", value.noun());
                return Err(value.place.error(message));
            }
            out.extend(value.items());
        } else if key != "initContainers" {
            collect(value, out)?;
        }
    }
    for item in node.items() {
        collect(item, out)?;
    }
    Ok(())
}

fn read_container(node: &Node, budget: &Budget) -> Result<Launch> {
    let image = node.get("image").and_then(word);
    let mut launch = Launch { image, ..Launch::default() };
    for variable in node.get("env").map(Node::items).unwrap_or_default() {
        let Some(name) = variable.get("name").and_then(Node::text) else {
            return Err(variable.place.error("an entry of `env` has no `name`"));
        };
        let text = match variable.get("value") {
            Some(value) if matches!(value.kind, Kind::Scalar { .. }) => {
                expand(value.text().unwrap_or_default(), &launch.env, budget)
            }
            Some(value) => {
                let message = format!("the value of `{name}` is {}", value.noun());
                return Err(value.place.error(message));
            }
            None if variable.get("valueFrom").is_some() => RUNTIME.to_string(),
            None => String::new(),
        };
        launch.env.insert(name.to_owned(), Word::new(text, &variable.place));
    }
    if let Some(source) = node.get("envFrom") {
        let message = "takes variables from a ConfigMap or Secret, which was not read";
        launch.warn("env-from-not-read", message, &source.place);
    }
    let command = words(node.get("command"), &launch.env, budget)?;
    let args = words(node.get("args"), &launch.env, budget)?.unwrap_or_default();
    launch.argv = with_entrypoint(command, args, launch.image.as_ref());
    let resources = node.get("resources");
    let limit = |kind: &str| resources.and_then(|node| node.get(kind)?.get("nvidia.com/gpu"));
    if let Some(gpus) = limit("limits").or_else(|| limit("requests")) {
        let count = gpus.text().and_then(|text| text.parse().ok());
        launch.gpus = count.map(|count| (count, gpus.place.clone(), "nvidia.com/gpu"));
    }
    Ok(launch)
}

fn word(node: &Node) -> Option<Word> {
    node.text().map(|text| Word::new(text, &node.place))
}

fn words(node: Option<&Node>, env: &Variables, budget: &Budget) -> Result<Option<Vec<Word>>> {
    let Some(node) = node.filter(|node| !node.is_null()) else { return Ok(None) };
    if !matches!(node.kind, Kind::List(_)) {
        let message = format!("a command is {}, expected a list", node.noun());
        return Err(node.place.error(message));
    }
    let items = node.items().iter().map(|item| match &item.kind {
        Kind::Scalar { text, .. } => Ok(Word::new(expand(text, env, budget), &item.place)),
        _ => Err(item.place.error(format!("a word of a command is {}", item.noun()))),
    });
    items.collect::<Result<Vec<Word>>>().map(Some)
}

/// `$(NAME)` is the value of a variable defined before, `$$(` an escape; an undefined
/// name stays as it is.
fn expand(text: &str, env: &Variables, budget: &Budget) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|body| body.split_once(')'));
        match reference.and_then(|(name, after)| Some((budget.lookup(env, name)?, after))) {
            Some((value, after)) => {
                out.push_str(&value);
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out.push_str(rest);
    // Helm and kustomize placeholders are only known to the tool that fills them in.
    if let Some(at) = out.find("{{") {
        out.truncate(at);
        out.push(RUNTIME);
    }
    out
}
