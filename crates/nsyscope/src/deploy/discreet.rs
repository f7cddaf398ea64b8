//! The deployment of a capture without the folders of the machine that it was recorded on.

use serde_json::Value;

use super::deployment::Deployment;
use super::differences::Difference;
use crate::text::without_paths;

/// How the cache of a hub names the folder of a model.
const CACHED_MODEL: &str = "models--";

impl Deployment {
    /// Shortens absolute paths to their last part: whoever reads a report need not learn where the
    /// capturing machine keeps its files. A model in a hub's cache gets its hub id.
    pub(crate) fn forget_paths(&mut self) {
        for setting in [&mut self.model, &mut self.spec_model].into_iter().flatten() {
            setting.value = model(&setting.value);
        }
        for setting in [
            &mut self.engine_version,
            &mut self.image,
            &mut self.config_file,
            &mut self.executor_backend,
            &mut self.quantization,
            &mut self.dtype,
            &mut self.kv_cache_dtype,
            &mut self.load_format,
        ]
        .into_iter()
        .flatten()
        {
            setting.value = without_paths(&setting.value);
        }
        for setting in self.env.values_mut() {
            setting.value = without_paths(&setting.value);
        }
        for value in self.hf_overrides.values_mut() {
            shorten(value);
        }
        for flag in &mut self.unknown_flags {
            flag.name = without_paths(&flag.name);
        }
        for warning in &mut self.warnings {
            warning.message = without_paths(&warning.message);
        }
    }
}

impl Difference {
    /// As [`Deployment::forget_paths`], of what ran.
    pub(crate) fn forget_paths(&mut self) {
        if let (true, Value::String(text)) = (self.field.ends_with("model"), &mut self.ran) {
            *text = model(text);
        } else {
            shorten(&mut self.ran);
        }
    }
}

fn model(value: &str) -> String {
    match value.split('/').find_map(|part| part.strip_prefix(CACHED_MODEL)) {
        Some(id) => id.replacen("--", "/", 1),
        None => without_paths(value),
    }
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_paths(text),
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(map) => map.values_mut().for_each(shorten),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_keeps_its_name() {
        assert_eq!(model("/data/models/Kimi-K2.5-NVFP4/"), "…/Kimi-K2.5-NVFP4");
        assert_eq!(model("nvidia/Kimi-K2.5-NVFP4"), "nvidia/Kimi-K2.5-NVFP4");
        assert_eq!(
            model("/root/.cache/huggingface/hub/models--nvidia--Kimi-K2.5-NVFP4/snapshots/0c1d"),
            "nvidia/Kimi-K2.5-NVFP4"
        );
    }
}
