//! From a start to a deployment: strips wrappers, reads the engine's flags and the
//! environment, derives sizes, notes conflicts.

use crate::Result;

use super::argv::{Program, base_name, place_of, strip};
use super::checks;
use super::deployment::{Deployment, Engine, Origin, Setting, UnknownFlag};
use super::derive;
use super::flags::Arity::{One, Switch};
use super::flags::{Flag, Grammar};
use super::nccl::nccl_choice;
use super::reader::Reader;
use super::secrets::{may_keep_variable, names_a_secret_variable, scrub};
use super::warning::Warning;
use super::word::{Launch, RUNTIME, Variables};
use super::{sglang, trtllm, vllm};

/// Names that several programs use with the same meaning, for programs that are none of
/// the engines (a script around an engine, a benchmark).
const COMMON: Grammar = Grammar {
    flags: &[
        Flag(&["model", "model-path"], &[], One),
        Flag(&["tensor-parallel-size", "tp-size", "tp"], &["tp"], One),
        Flag(&["pipeline-parallel-size", "pp-size", "pp"], &["pp"], One),
        Flag(&["data-parallel-size", "dp-size", "dp"], &["dp"], One),
        Flag(&["enable-expert-parallel"], &[], Switch),
        Flag(&["quantization"], &[], One),
        Flag(&["dtype"], &[], One),
        Flag(&["kv-cache-dtype"], &[], One),
        Flag(&["max-num-seqs"], &[], One),
        Flag(&["max-model-len"], &[], One),
        Flag(&["enforce-eager"], &[], Switch),
        Flag(&["disable-custom-all-reduce", "no-custom-ar"], &[], Switch),
    ],
    switches: &[],
    ignored: &[],
    underscores: true,
    extended: true,
    abbreviations: false,
};

/// Reads a start. `keep_empty`: keep variables without a value whatever their name (an
/// environment file that is itself the input).
pub(super) fn deployment(mut launch: Launch, keep_empty: bool) -> Result<Deployment> {
    let mut d = Deployment::default();
    let whole = place_of(&launch.argv);
    let program = strip(&mut launch)?;
    let Launch { argv, env, image, gpus, cuda_graph_trace, processes, warnings } = launch;
    d.warnings = warnings;
    let engine = match program {
        Program::Vllm => Engine::Vllm,
        Program::Sglang => Engine::Sglang,
        Program::Trtllm => Engine::Trtllm,
        Program::Other => Engine::Unknown,
    };
    let parsed = match program {
        Program::Vllm => {
            let parsed = vllm::parse(&argv, &mut d)?;
            vllm::fill(&parsed, &mut d)?;
            parsed
        }
        Program::Sglang => {
            let parsed = sglang::parse(&argv, &mut d)?;
            sglang::fill(&parsed, &mut d)?;
            parsed
        }
        Program::Trtllm => {
            let parsed = trtllm::parse(&argv);
            trtllm::fill(&parsed, &mut d)?;
            parsed
        }
        Program::Other => {
            let parsed = COMMON.parse(argv.get(1..).unwrap_or_default());
            common(&mut Reader::new(&parsed), &mut d);
            parsed
        }
    };
    if engine == Engine::Unknown {
        d.engine = Some(Setting::default(Engine::Unknown));
    } else {
        d.engine = Some(Setting::new(engine, Origin::Program, &whole));
        let surplus = parsed.positionals.len().saturating_sub(1);
        if surplus > 0 {
            let message = format!("{surplus} words are neither flags nor values; not read");
            d.warnings.push(Warning::new("surplus-words", message, &whole));
        }
    }
    d.unknown_flags =
        parsed.unknown.into_iter().map(|(name, place)| UnknownFlag { name, place }).collect();
    if let Some(image) = image.filter(|image| !image.is_runtime()) {
        let version = image_version(&image.text, engine);
        d.engine_version =
            version.map(|version| Setting::new(version, Origin::Image, &image.place));
        d.image = Some(Setting::new(scrub(&image.text), Origin::Image, &image.place));
    }
    if let Some((mode, place)) = cuda_graph_trace.filter(|(mode, _)| !mode.contains(RUNTIME)) {
        let origin = Origin::Flag("--cuda-graph-trace".to_owned());
        d.cuda_graph_trace = Some(Setting::new(scrub(&mode), origin, &place));
    }
    environment(&env, keep_empty, &mut d);
    if let Some((count, place, key)) = gpus {
        d.visible_gpus = Some(Setting::new(count, Origin::Key(key.to_owned()), &place));
    }
    derive::from_environment(&mut d)?;
    if let Some((count, place, flag)) = processes {
        d.world = Some(Setting::new(count, Origin::Flag(flag), &place));
    }
    derive::sizes(&mut d);
    checks::run(&mut d);
    Ok(d)
}

/// An unknown program may use a common name for something else, so what does not parse
/// is left out instead of being an error.
fn common(r: &mut Reader<'_>, d: &mut Deployment) {
    d.model = r.text("model");
    d.tp = r.size("tensor-parallel-size").ok().flatten();
    d.pp = r.size("pipeline-parallel-size").ok().flatten();
    d.dp = r.size("data-parallel-size").ok().flatten();
    d.ep = r.switch("enable-expert-parallel");
    d.quantization = r.text("quantization");
    d.dtype = r.text("dtype");
    d.kv_cache_dtype = r.text("kv-cache-dtype");
    d.max_num_seqs = r.human("max-num-seqs").ok().flatten();
    d.max_model_len = r.human("max-model-len").ok().flatten();
    d.eager = r.switch("enforce-eager");
    d.custom_ar = r.switch("disable-custom-all-reduce").map(|off| off.map(|off| !off));
    d.warnings.append(&mut r.warnings);
}

/// `vllm/vllm-openai:v0.15.1` and `lmsysorg/sglang:v0.5.9-cu129` name the version.
fn image_version(image: &str, engine: Engine) -> Option<String> {
    if engine == Engine::Unknown {
        return None;
    }
    let (_, tag) = base_name(image).split('@').next()?.split_once(':')?;
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let end = tag.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(tag.len());
    let version = &tag[..end];
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.'))
        .then(|| version.to_owned())
}

fn environment(env: &Variables, keep_empty: bool, d: &mut Deployment) {
    for (name, word) in env {
        let value = &word.text;
        let empty = keep_empty && value.is_empty() && !names_a_secret_variable(name, value);
        if !empty && !may_keep_variable(name, value) {
            continue;
        }
        if word.is_runtime() {
            let message = format!("the value of `{name}` is only known when it runs");
            d.warnings.push(Warning::new("value-at-run-time", message, &word.place));
            continue;
        }
        let setting = Setting::new(value.clone(), Origin::Environment(name.clone()), &word.place);
        if matches!(name.as_str(), "NCCL_ALGO" | "NCCL_PROTO") {
            match nccl_choice(name, value) {
                Ok(choice) => {
                    d.nccl.insert(name.clone(), choice);
                }
                Err(error) => {
                    let message = error.to_string();
                    d.warnings.push(Warning::new("nccl-value", message, &word.place));
                }
            }
        }
        d.env.insert(name.clone(), setting);
    }
}
