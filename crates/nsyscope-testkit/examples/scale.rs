//! Writes larger captures from real ones, for trying sizes that no fixture has.

use std::path::Path;
use std::process::ExitCode;

use nsyscope_testkit::{Error, Result, Scale, ranks};

const USAGE: &str = "\
usage: scale INPUT.sqlite COPIES OUT.sqlite
       scale INPUT.sqlite --kernels N [--api-per-kernel X] [--nvtx-per-kernel X] OUT.sqlite
       scale --ranks N [--kernels N] RANK0.sqlite [RANK1.sqlite ...] FOLDER

The first repeats all events COPIES times. The second makes N kernels of them, with as many calls of
the API and ranges of NVTX for each as asked for. The third writes a capture for each of N ranks,
made from the given ones in turn. Inputs may be .sqlite.zst.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let mut plain = Vec::new();
    let (mut kernels, mut api, mut nvtx, mut count) = (None, None, None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let option = match argument.as_str() {
            "--kernels" => &mut kernels,
            "--api-per-kernel" => &mut api,
            "--nvtx-per-kernel" => &mut nvtx,
            "--ranks" => &mut count,
            option if option.starts_with("--") => return Err(Error::Usage(USAGE.into())),
            plain_argument => {
                plain.push(plain_argument);
                continue;
            }
        };
        *option = Some(number(rest.next().map(String::as_str))?);
    }
    let shape = |mut scale: Scale| {
        if let Some(ratio) = api {
            scale = scale.api_per_kernel(ratio);
        }
        if let Some(ratio) = nvtx {
            scale = scale.nvtx_per_kernel(ratio);
        }
        scale
    };
    if let Some(count) = count {
        let Some((folder, inputs)) = plain.split_last() else {
            return Err(Error::Usage(USAGE.into()));
        };
        let scale = kernels.map_or(Scale::copies(1), |kernels| Scale::kernels(kernels as u64));
        let written = ranks(inputs, count as u32, shape(scale), Path::new(folder))?;
        println!("{} captures", written.len());
        return Ok(());
    }
    let (scale, input, output) = match (kernels, plain.as_slice()) {
        (None, &[input, copies, output]) => {
            (Scale::copies(number(Some(copies))? as u32), input, output)
        }
        (Some(kernels), &[input, output]) => (Scale::kernels(kernels as u64), input, output),
        _ => return Err(Error::Usage(USAGE.into())),
    };
    let scaled = shape(scale).write(input, output)?;
    println!("{} kernels, {} API rows, {} NVTX rows", scaled.kernels, scaled.api, scaled.nvtx);
    Ok(())
}

/// A number of at least 0; `1e7` is one too.
fn number(text: Option<&str>) -> Result<f64> {
    text.and_then(|text| text.parse().ok())
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| Error::Usage(USAGE.into()))
}
