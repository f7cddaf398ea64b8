//! What a decode step of a model takes at least, from its configuration alone.
//!
//! ```text
//! cargo run --example model_floor -- config.json [GPU] [TP] [BATCH] [CONTEXT]
//! ```

use nsyscope::cost::{CostModel, Parallelism, Phase};
use nsyscope::hardware::Hardware;
use nsyscope::model;
use nsyscope::model_report::{ModelReport, ModelReportInput};
use nsyscope::report::ViewOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(config) = arguments.first() else {
        return Err("usage: model_floor config.json [GPU] [TP] [BATCH] [CONTEXT]".into());
    };
    let text = |i: usize, default: &str| arguments.get(i).map_or(default, |a| a).to_owned();
    let number = |i: usize, default: u64| match arguments.get(i) {
        Some(argument) => argument.parse::<u64>().map_err(|e| format!("{argument}: {e}")),
        None => Ok(default),
    };

    let architecture = model::load(config.as_ref())?;
    let hardware = Hardware::builtin();
    let cost = CostModel::new(&hardware, hardware.gpu(&text(1, "rtx_pro_6000_bw"))?, None);
    let tp = number(2, 8)?;
    let report = ModelReport::build(&ModelReportInput {
        parallelism: Parallelism::tensor(tp),
        phases: vec![Phase::decode(number(3, 1)?, number(4, 4096)?)],
        cost: Some(&cost),
        sweep: (vec![tp], vec![1, 8, 32, 128]),
        ..ModelReportInput::new(&architecture)
    })?;
    print!("{}", report.to_text(&ViewOptions::new().width(160)));
    Ok(())
}
