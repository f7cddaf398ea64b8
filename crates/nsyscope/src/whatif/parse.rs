//! From what is typed to a [`WhatIf`].

use super::{Change, Part, Target, To, WhatIf};
use crate::causes::Cause;
use crate::kernel::{Classifier, distance};
use crate::segment::Phase;
use crate::{Error, ErrorKind, Result};

const HINT: &str = "write [PHASE:]TARGET=CHANGE[,TARGET=CHANGE...]: `all_reduce=0.5x`, \
                    `moe_gemm=floor`, `launch=graph`, `all_reduce=10us` (each call), `wait=0`, \
                    `decode:tp.all_reduce.attn=0,idle/sync=0`";

impl WhatIf {
    /// Reads a hypothesis; categories are those of the classifier's rules. Whether an operation
    /// exists is known once there is a model ([`WhatIf::check_ops`]).
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where it is not of the form `[PHASE:]TARGET=CHANGE[,...]`, a phase,
    /// category or cause does not exist, target and change do not fit, or two changes mean the same.
    pub fn parse(text: &str, classifier: &Classifier) -> Result<Self> {
        let wrong = |message: String| error(text, message, HINT);
        let (mut phase, mut rest) = (None, text);
        if let Some((word, after)) = text.split_once(':') {
            let word = word.trim();
            let known = Phase::ALL.into_iter().find(|p| p.as_str() == word).ok_or_else(|| {
                wrong(format!("`{word}` is no phase (decode, prefill, mixed, unknown)"))
            })?;
            (phase, rest) = (Some(known), after);
        }
        let mut changes: Vec<Change> = Vec::new();
        for part in rest.split(',').map(str::trim) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{part}` does not say what changes to what")))?;
            let (name, value) = (name.trim(), value.trim());
            let target = target(text, name, classifier)?;
            let to = change(name, &target, value, &wrong)?;
            if let Some(known) = changes.iter().find(|known| known.target.same(&target)) {
                return Err(wrong(format!("`{}` and `{part}` change the same", known.text)));
            }
            changes.push(Change { text: part.to_owned(), target, to });
        }
        Ok(Self { text: text.to_owned(), phase, changes })
    }

    /// Whether it needs the model's operations.
    pub fn needs_model(&self) -> bool {
        let of = |change: &Change| change.to == To::Floor || matches!(change.target, Target::Op(_));
        self.changes.iter().any(of)
    }

    /// Checks the operations that it names against those of a model; `None`: no model was given.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where one does not exist, or operations or floors are asked for and
    /// there is no model.
    pub fn check_ops(&self, ops: Option<&[&str]>) -> Result<()> {
        let Some(ops) = ops else {
            if self.needs_model() {
                return Err(Error::new(
                    ErrorKind::Argument,
                    "operations and floors are those of a model, and none was given",
                )
                .at(format!("what-if `{}`", self.text))
                .with_hint("give the model's config.json with --config"));
            }
            return Ok(());
        };
        for change in &self.changes {
            let Target::Op(name) = &change.target else { continue };
            if ops.iter().all(|op| !names(name, op)) {
                let message = format!("no operation `{name}` in these steps");
                return Err(error(&self.text, message, near(name, ops)));
            }
        }
        Ok(())
    }
}

/// Whether `name` means the operation: its whole name, or the beginning up to a dot.
pub(super) fn names(name: &str, op: &str) -> bool {
    op.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn error(text: &str, message: String, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::Argument, message).at(format!("what-if `{text}`")).with_hint(hint.into())
}

/// Operations, or beginnings of their names, that are spelt like the name; else all.
fn near(name: &str, ops: &[&str]) -> String {
    let limit = (name.chars().count() / 3).max(2);
    let beginnings = ops.iter().flat_map(|op| op.match_indices('.').map(|(at, _)| &op[..at]));
    let mut alike: Vec<(usize, &str)> = ops
        .iter()
        .copied()
        .chain(beginnings)
        .map(|known| (distance(name, known), known))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    alike.sort_unstable();
    alike.dedup();
    if alike.is_empty() {
        return format!("operations: {}", ops.join(", "));
    }
    let alike: Vec<String> = alike.iter().take(5).map(|(_, known)| format!("`{known}`")).collect();
    format!("did you mean {}?", alike.join(", "))
}

fn target(text: &str, name: &str, classifier: &Classifier) -> Result<Target> {
    let wrong = |message: String| error(text, message, HINT);
    Ok(match name {
        "" => return Err(wrong("it does not say what changes".to_owned())),
        "idle" => Target::Idle(None),
        "launch" => Target::Idle(Some(Cause::Launch)),
        "wait" => Target::Part(Part::Wait),
        "transfer" => Target::Part(Part::Transfer),
        "step" => return Err(wrong("a step is what is computed: name a part of it".to_owned())),
        _ => {
            if let Some(cause) = name.strip_prefix("idle/") {
                let known = Cause::ALL.into_iter().find(|known| known.as_str() == cause);
                return known.map(|cause| Target::Idle(Some(cause))).ok_or_else(|| {
                    let all: Vec<&str> = Cause::ALL.into_iter().map(Cause::as_str).collect();
                    let hint = format!("causes: {}", all.join(", "));
                    error(text, format!("no cause `{cause}` of idle time"), hint)
                });
            }
            if name.contains('.') {
                return Ok(Target::Op(name.to_owned()));
            }
            Target::Categories(classifier.filter(name).map_err(|unknown| {
                let hint = unknown.hint().unwrap_or(HINT).to_owned();
                error(text, format!("no category `{name}`"), hint)
            })?)
        }
    })
}

fn change(
    name: &str,
    target: &Target,
    value: &str,
    wrong: &impl Fn(String) -> Error,
) -> Result<To> {
    const UNITS: [(&str, f64); 5] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let number = |text: &str| -> Result<f64> {
        let value = text.trim().parse().ok();
        value.filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or_else(|| {
            wrong(format!(
                "`{value}` is neither a factor (0.5x), a time (10us), 0, `floor` nor `graph`",
                value = value_of(text)
            ))
        })
    };
    match value {
        "floor" => {
            return match target {
                Target::Categories(_) | Target::Op(_) => Ok(To::Floor),
                _ => Err(wrong(format!("`{name}` has no floor; write `{name}=0`"))),
            };
        }
        "graph" => {
            return match target {
                Target::Idle(Some(Cause::Launch)) => Ok(To::Graph),
                _ => Err(wrong(format!(
                    "`{name}` is not launched through a graph; write `launch=graph`"
                ))),
            };
        }
        _ => {}
    }
    if let Some(factor) = value.strip_suffix('x') {
        return number(factor).map(To::Times);
    }
    for (unit, ns) in UNITS {
        if let Some(time) = value.strip_suffix(unit) {
            return number(time).map(|time| To::Ns(time * ns));
        }
    }
    // Nothing needs no unit.
    match number(value)? {
        0.0 => Ok(To::Times(0.0)),
        _ => Err(wrong(format!("`{value}` has no unit: `{value}x` or a time such as `{value}us`"))),
    }
}

fn value_of(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WhatIf> {
        WhatIf::parse(text, &Classifier::builtin())
    }

    #[test]
    fn targets_and_changes() {
        let found = parse("decode: all_reduce=0.5x, moe_gemm = floor,launch=graph").unwrap();
        assert_eq!(found.phase, Some(Phase::Decode));
        let to: Vec<To> = found.changes.iter().map(|change| change.to).collect();
        assert_eq!(to, [To::Times(0.5), To::Floor, To::Graph]);
        assert_eq!(found.changes[2].target, Target::Idle(Some(Cause::Launch)));
        let one = |text: &str| {
            let found = parse(text).unwrap();
            (found.changes[0].target.clone(), found.changes[0].to)
        };
        assert_eq!(one("all_reduce=10us").1, To::Ns(10_000.0));
        assert_eq!(one("all_reduce=1.5 ms").1, To::Ns(1_500_000.0));
        let op = Target::Op("tp.all_reduce.attn".to_owned());
        assert_eq!(one("tp.all_reduce.attn=0"), (op, To::Times(0.0)));
        assert_eq!(one("wait=0"), (Target::Part(Part::Wait), To::Times(0.0)));
        assert_eq!(one("idle/sync=0.25x"), (Target::Idle(Some(Cause::Sync)), To::Times(0.25)));
        assert_eq!(one("comm/all_reduce=2x").1, To::Times(2.0));
    }

    #[test]
    fn what_cannot_be_meant_says_what_could() {
        for (text, message, hint) in [
            ("allreduce=0.5x", "no category `allreduce`", "`all_reduce`"),
            ("all_reduce", "does not say what changes", "TARGET=CHANGE"),
            ("all_reduce=", "`nothing` is neither", "TARGET=CHANGE"),
            ("all_reduce=-1x", "`-1` is neither", "TARGET=CHANGE"),
            ("all_reduce=5", "`5` has no unit", "TARGET=CHANGE"),
            ("all_reduce=NaNx", "is neither", "TARGET=CHANGE"),
            ("all_reduce=graph", "write `launch=graph`", "TARGET=CHANGE"),
            ("wait=floor", "`wait` has no floor; write `wait=0`", "TARGET=CHANGE"),
            ("idle/coffee=0", "no cause `coffee`", "launch, sync"),
            ("dekode:comm=0", "`dekode` is no phase", "TARGET=CHANGE"),
            ("comm=0,comm=1x", "`comm=0` and `comm=1x` change the same", "TARGET=CHANGE"),
            ("launch=graph,idle/launch=0", "change the same", "TARGET=CHANGE"),
            ("step=0", "name a part of it", "TARGET=CHANGE"),
            ("", "does not say what changes", "TARGET=CHANGE"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument, "{text}");
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(error.hint().unwrap().contains(hint), "{text}: {:?}", error.hint());
        }
    }

    #[test]
    fn operations_are_checked_once_there_is_a_model() {
        let ops = ["attn.o_proj", "tp.all_reduce.attn", "tp.all_reduce.moe"];
        let check = |text: &str, ops| parse(text).unwrap().check_ops(ops);
        assert!(check("tp.all_reduce=0", Some(&ops)).is_ok());
        assert!(check("attn.o_proj=floor", Some(&ops)).is_ok());
        assert!(check("moe_gemm=0.5x", None).is_ok());
        let error = check("tp.all_reduce.atn=0", Some(&ops)).unwrap_err();
        assert!(error.hint().unwrap().contains("`tp.all_reduce.attn`"), "{error:?}");
        let error = check("tp.all_reduse=0", Some(&ops)).unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `tp.all_reduce`?"));
        let error = check("mlp.gate=0", Some(&ops)).unwrap_err();
        assert!(error.hint().unwrap().starts_with("operations: attn.o_proj"), "{error:?}");
        // The beginning of a name ends at a dot.
        assert!(check("tp.all=0", Some(&ops)).is_err());
        for text in ["moe_gemm=floor", "attn.o_proj=0"] {
            let error = check(text, None).unwrap_err();
            assert!(error.hint().unwrap().contains("--config"), "{error:?}");
        }
    }
}
