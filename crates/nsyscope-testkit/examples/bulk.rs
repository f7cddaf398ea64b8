//! Writes a capture of N kernels with their launches: `bulk N OUT.sqlite`.
//! For trying readers at sizes that no fixture has.

use nsyscope_testkit::{ApiRow, CaptureBuilder, Gpu, KernelRow, Result, Schema};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(count), Some(out)) = (args.next().and_then(|n| n.parse::<u32>().ok()), args.next())
    else {
        eprintln!("usage: bulk N OUT.sqlite");
        return Ok(());
    };
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "python");
    let stream = db.stream(process, 0, 1, 7);
    let launch = db.string("cudaLaunchKernel_v7000");
    let names: Vec<_> =
        (0..500).map(|i| db.string(&format!("void kernel_{i}<bf16>(int)"))).collect();
    db.bulk(move |rows| {
        let mut api = ApiRow::new(process.main_thread(), launch);
        let mut kernel = KernelRow::new(stream, names[0]);
        for i in 0..count {
            let at = i64::from(i) * 5_000;
            rows.api(api.at(at, at + 2_000).correlation(i))?;
            kernel.name(names[i as usize % names.len()]).at(at + 4_000, at + 8_500).correlation(i);
            rows.kernel(&kernel)?;
        }
        Ok(())
    });
    db.write_to(out)
}
