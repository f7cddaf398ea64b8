//! Models' configurations, and what is priced from them.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use nsyscope::cost::{CostModel, KvCacheFormat, Options, Parallelism, Phase};
use nsyscope::hardware::Hardware;
use nsyscope::model::{self, Parameters};
use nsyscope::model_report::{ModelReport, ModelReportInput};
use nsyscope::report::ViewOptions;
use serde_json::Value;

use crate::output::{check_error, check_json, check_text};

static MODELS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    [
        include_str!("../../../fixtures/models/deepseek-v3-like-fp8.json"),
        include_str!("../../../fixtures/models/gpt-oss-like-20b.json"),
        include_str!("../../../fixtures/models/kimi-k2.5-like.json"),
        include_str!("../../../fixtures/models/llama-like-8b.json"),
        include_str!("../../../fixtures/models/qwen3-moe-like.json"),
    ]
    .iter()
    .map(|text| serde_json::from_str(text).expect("the fixture is JSON"))
    .collect()
});

static HARDWARE: LazyLock<Hardware> = LazyLock::new(Hardware::builtin);

/// Reads a configuration (the bytes after the first are one, or spoil one that is sound) and prices
/// steps of it.
pub fn config(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        price(rest, &Setting::default());
        return;
    }
    let mut u = Unstructured::new(rest);
    let mut spoilt = || -> Result<(Vec<u8>, Setting)> {
        let setting = Setting::draw(&mut u)?;
        let mut value = u.choose(&MODELS)?.clone();
        crate::json::spoil(&mut value, &mut u, 12)?;
        Ok((serde_json::to_vec(&value).unwrap_or_default(), setting))
    };
    if let Ok((json, setting)) = spoilt() {
        price(&json, &setting);
    }
}

/// How a model is spread, and what one step holds.
struct Setting {
    parallelism: Parallelism,
    cache: &'static str,
    batch: u64,
    context: u64,
    speculative: u64,
    gpu: &'static str,
    sweep: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            parallelism: Parallelism::tensor(8),
            cache: "auto",
            batch: 8,
            context: 4096,
            speculative: 0,
            gpu: "h200",
            sweep: false,
        }
    }
}

impl Setting {
    fn draw(u: &mut Unstructured<'_>) -> Result<Self> {
        let sizes = [1, 1, 1, 2, 3, 4, 8, 64, 0, 1_000_000_000, u64::MAX];
        let mut parallelism = Parallelism::tensor(*u.choose(&sizes)?);
        parallelism.pp = *u.choose(&sizes)?;
        parallelism.dp = *u.choose(&sizes)?;
        parallelism.dcp = *u.choose(&sizes)?;
        parallelism.attention_dp = *u.choose(&sizes)?;
        parallelism.expert_parallel = u.arbitrary()?;
        parallelism.sequence_parallel = u.arbitrary()?;
        if u.ratio(1, 4)? {
            parallelism.stage = Some(*u.choose(&sizes)?);
        }
        Ok(Self {
            parallelism,
            cache: *u.choose(&["auto", "fp8", "fp8_ds_mla", "nvfp4", "bfloat16", "x"])?,
            batch: *u.choose(&sizes)?,
            context: *u.choose(&sizes)?,
            speculative: *u.choose(&[0, 0, 1, 3, 1_000_000_000, u64::MAX])?,
            gpu: *u.choose(&["h200", "rtx_pro_6000_bw", "b200"])?,
            sweep: u.ratio(1, 4)?,
        })
    }
}

fn price(json: &[u8], setting: &Setting) {
    let architecture = match model::parse(json) {
        Ok(architecture) => architecture,
        Err(error) => return check_error(&error),
    };
    check_json(&Parameters::of(&architecture));
    let cost = HARDWARE.gpu(setting.gpu).ok().map(|gpu| CostModel::new(&HARDWARE, gpu, None));
    let kv_cache = KvCacheFormat::from_name(setting.cache).unwrap_or_default();
    let Setting { batch, context, speculative, .. } = *setting;
    let phases = vec![
        Phase::Decode { batch, context, speculative },
        Phase::Prefill { tokens: context, batch, cached: speculative },
    ];
    let input = ModelReportInput {
        parallelism: setting.parallelism,
        options: Options { kv_cache, ..Options::default() },
        phases,
        cost: cost.as_ref(),
        sweep: if setting.sweep { (vec![1, 8], vec![1, batch]) } else { Default::default() },
        ..ModelReportInput::new(&architecture)
    };
    match ModelReport::build(&input) {
        Ok(report) => {
            check_json(&report);
            check_text(&report.to_text(&ViewOptions::new()));
            check_text(&report.to_markdown());
        }
        Err(error) => check_error(&error),
    }
}
