//! The longest gaps between kernels of one rank, and what ran on either side: the columns of a
//! capture used directly.
//!
//! `cargo run -p nsyscope --example longest_gaps -- fixtures/captures/b3_eager.sqlite.zst`

use nsyscope::Run;
use nsyscope::analysis::activities;
use nsyscope::capture::OpenOptions;
use nsyscope::interval;

fn main() -> nsyscope::Result<()> {
    let run = Run::open(std::env::args().skip(1), &OpenOptions::new())?;
    for rank in run.ranks() {
        let trace = &run.traces()[rank.file];
        let own: Vec<_> = activities(trace)
            .filter(|activity| run.rank_of_stream(rank.file, activity.stream) == rank.rank)
            .collect();
        let busy = interval::union(own.iter().map(|activity| (activity.start, activity.end)));
        let mut gaps: Vec<_> = busy.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect();
        gaps.sort_by_key(|(start, end)| start - end);
        println!("rank {}: {} gaps", rank.rank, gaps.len());
        for (start, end) in gaps.into_iter().take(5) {
            let kernels = trace.kernels();
            let name = |row: usize| &trace.kernel_names()[kernels.name()[row] as usize].short;
            let after = kernels.start().partition_point(|&s| s < end);
            let before = kernels.end()[..after].iter().rposition(|&e| e <= start);
            println!(
                "  {:>9} ns between {} and {}",
                end - start,
                before.map_or("the beginning", |row| name(row)),
                (after < kernels.len()).then(|| name(after)).map_or("the end", |name| name),
            );
        }
    }
    Ok(())
}
