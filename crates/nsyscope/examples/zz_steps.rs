use nsyscope::Run;
use nsyscope::analysis::Classes;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::segment::{StepOptions, Steps, step_times};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut options = StepOptions::new();
    options.ignore_nvtx = args.iter().any(|a| a == "--no-nvtx");
    for path in args.iter().filter(|a| !a.starts_with("--")) {
        let run = Run::open([path], &OpenOptions::new()).unwrap();
        let classes = Classes::new(&run, &Classifier::builtin());
        let t = std::time::Instant::now();
        let steps = Steps::find(&run, &classes, &options);
        eprintln!("{path} {:?}", t.elapsed());
        let times = step_times(&run, &classes, &steps);
        println!("R {path}");
        for (rank, times) in steps.ranks.iter().zip(&times) {
            let p = &run.ranks()[rank.rank as usize];
            println!(
                "K {} {} {} {:?} {:?} {} | {:?}",
                rank.rank, p.pid, p.device, rank.method, rank.confidence, rank.reason, rank.outside
            );
            for (s, t) in rank.steps.iter().zip(times) {
                let kinds: String = s.layers.iter().map(|l| &l.kind.as_str()[..1]).collect();
                let ok = t.start == s.start_ns
                    && t.end == s.end_ns
                    && t.exposed_ns.iter().sum::<i64>() + t.idle_ns == s.wall_ns();
                println!(
                    "S {} {} {} {:?} {} {} {} {} {} {} {} {} {} {}",
                    s.index,
                    s.start_ns,
                    s.end_ns,
                    s.method.as_str(),
                    s.phase.as_str(),
                    s.batch.map_or(-1, i64::from),
                    s.tokens.as_ref().map_or(-1, |t| i64::from(t.count)),
                    s.tokens.as_ref().and_then(|t| t.padded).map_or(-1, i64::from),
                    s.tokens.as_ref().map_or("-", |t| t.witness.as_str()),
                    s.kernels,
                    s.graph_launches,
                    if kinds.is_empty() { "-" } else { &kinds },
                    ok,
                    s.last - s.first
                );
            }
        }
    }
}
