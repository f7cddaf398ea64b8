//! Writes the inputs that fuzzing begins with, from the repository's own fixtures:
//!
//! ```sh
//! cargo run -p nsyscope-fuzz --example seeds -- fuzz/seeds
//! ```

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const RULES: &str = r#"
[[rule]]
id = "mine.gemm"
category = "gemm/dense"
pattern = "my_gemm_(bf16|fp8)_[0-9]+x[0-9]+"
examples = ["my_gemm_bf16_128x64"]
"#;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "fuzz/seeds".to_owned()));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let write = |target: &str, name: &str, bytes: &[u8]| -> io::Result<()> {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), bytes)
    };
    for size in [512, 1024, 4096] {
        write("pages", &format!("sound-{size}"), &nsyscope_fuzz::pages_base(size))?;
    }
    // What these targets make of bytes is no format of anything: any bytes are as good as others.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |length: usize| -> Vec<u8> {
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    };
    for i in 0..40 {
        write("capture", &format!("any-{i}"), &random(40 + 40 * i))?;
        for target in ["config", "saved"] {
            write(target, &format!("any-{i}"), &[&[1][..], &random(20 + 4 * i)].concat())?;
        }
    }
    let mut kind = 0;
    for entry in fs::read_dir(fixtures.join("deployments"))? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            kind = match name.rsplit('.').next() {
                Some("service" | "conf") => 0,
                Some("yaml") => 1,
                Some("Dockerfile") => 2,
                Some("env") => 3,
                Some("sh") => 4,
                _ => 5 + (kind + 1) % 3,
            };
            write("deployment", &name, &[&[kind][..], &fs::read(&path)?].concat())?;
        }
    }
    for entry in fs::read_dir(fixtures.join("models"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write("config", &name, &[&[0][..], &fs::read(&path)?].concat())?;
    }
    for (kind, name, text) in [
        (0, "rules", RULES),
        (3, "thresholds", "step = 0.02\nkernels = 0.05\n"),
        (4, "gpu", include_str!("../../nsyscope/data/gpus.toml")),
        (5, "name", "void cutlass::device_kernel<flash::FlashAttnFwdSm90<a> >(b)"),
        (6, "gate", "step:decode:2%"),
        (6, "expectation", "decode step < 12 ms"),
        (7, "windows", "0, 100\n200 300 # the second\n"),
        (7, "what-if", "gemm x 0.5, idle = 0"),
    ] {
        write("rules", name, &[&[kind], text.as_bytes()].concat())?;
    }
    Ok(())
}
