//! The grammar of `NCCL_ALGO` and `NCCL_PROTO`: `list`, `^list`, and since NCCL 2.24
//! `default;function:list;...`.
//!
//! Source: NCCL user guide, "Environment variables", `NCCL_ALGO` and `NCCL_PROTO`.

use std::collections::BTreeMap;

use crate::{Error, ErrorKind, Result};

const FUNCTIONS: [&str; 5] = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];
const ALGORITHMS: [&str; 7] =
    ["Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"];

/// What NCCL may choose from, by collective function in lower case (`allreduce`, ...).
/// `None`: NCCL is free. An empty list: nothing that the variable allows exists for the
/// function.
pub type NcclChoice = BTreeMap<&'static str, Option<Vec<&'static str>>>;

/// Reads the value of `NCCL_ALGO` or `NCCL_PROTO`.
///
/// # Errors
///
/// When `variable` is neither of the two, or the value names a function, an algorithm
/// or a protocol that NCCL does not have.
pub fn nccl_choice(variable: &str, value: &str) -> Result<NcclChoice> {
    let names: &[&'static str] = match variable {
        "NCCL_PROTO" => &PROTOCOLS,
        "NCCL_ALGO" => &ALGORITHMS,
        _ => {
            return Err(Error::new(
                ErrorKind::Argument,
                "only NCCL_ALGO and NCCL_PROTO have this grammar",
            ));
        }
    };
    let mut default: Option<Vec<&'static str>> = None;
    let mut own: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
    for (index, element) in value.split(';').map(str::trim).enumerate() {
        if element.is_empty() {
            continue;
        }
        match element.split_once(':') {
            Some((function, list)) => {
                let function = FUNCTIONS
                    .iter()
                    .find(|name| name.eq_ignore_ascii_case(function.trim()))
                    .ok_or_else(|| bad(variable, "names a function that NCCL does not have"))?;
                own.insert(function, list_of(variable, list, names)?);
            }
            None if index == 0 => default = Some(list_of(variable, element, names)?),
            None => return Err(bad(variable, "has a list without a function after the first `;`")),
        }
    }
    Ok(FUNCTIONS
        .into_iter()
        .map(|function| {
            let choice = own.get(function).or(default.as_ref()).map(|list| {
                list.iter()
                    .copied()
                    .filter(|name| variable == "NCCL_PROTO" || algorithm_exists(function, name))
                    .collect()
            });
            (function, choice)
        })
        .collect())
}

/// Broadcast and reduce only have rings; trees, chains and `NVLSTree` only all-reduce;
/// PAT only all-gather and reduce-scatter.
fn algorithm_exists(function: &str, algorithm: &str) -> bool {
    match function {
        "allreduce" => algorithm != "PAT",
        "allgather" | "reducescatter" => {
            matches!(algorithm, "Ring" | "CollnetDirect" | "NVLS" | "PAT")
        }
        _ => algorithm == "Ring",
    }
}

fn list_of(variable: &str, list: &str, names: &[&'static str]) -> Result<Vec<&'static str>> {
    let list = list.trim();
    let (negated, list) = match list.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let mut listed = Vec::new();
    for item in list.split(',').map(str::trim) {
        let known = names.iter().find(|name| name.eq_ignore_ascii_case(item));
        listed
            .push(*known.ok_or_else(|| bad(variable, "names something that NCCL does not have"))?);
    }
    Ok(names.iter().copied().filter(|name| listed.contains(name) != negated).collect())
}

fn bad(variable: &str, what: &str) -> Error {
    let names: &[&str] = if variable == "NCCL_PROTO" { &PROTOCOLS } else { &ALGORITHMS };
    Error::new(ErrorKind::Deployment, format!("`{variable}` {what}")).with_hint(format!(
        "a list of {} (or `^` and a list), optionally followed by `;function:list` with a function of {}",
        names.join(", "),
        FUNCTIONS.join(", ")
    ))
}
