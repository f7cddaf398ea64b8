//! Each stage by itself, on one capture: `cargo bench -p nsyscope-bench`.
//!
//! The capture is scaled from a fixture to a million kernels, or the one that
//! `NSYSCOPE_BENCH_CAPTURE` names. Throughput is in its kernels.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use nsyscope::analysis::{Classes, GroupBy, collectives, kernel_rows, launch_stats, rank_times};
use nsyscope::capture::{Capture, OpenOptions};
use nsyscope::causes::Idle;
use nsyscope::deploy::{self, Deployment};
use nsyscope::kernel::Classifier;
use nsyscope::report::{
    DeploymentSection, Figures, ModelContext, Report, ReportOptions, ResolvedModel, ViewOptions,
};
use nsyscope::scene::{Timeline, TimelineOptions};
use nsyscope::segment::{StepOptions, Steps, step_times};
use nsyscope::tables::Annotated;
use nsyscope::{Run, model, perfetto};
use nsyscope_testkit::{Scale, fixtures};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const KERNELS: u64 = 1_000_000;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut capture = folder.path().join("capture.sqlite");
    if let Some(path) = std::env::var_os("NSYSCOPE_BENCH_CAPTURE") {
        capture = PathBuf::from(path);
    } else {
        Scale::kernels(KERNELS)
            .api_per_kernel(1.0)
            .nvtx_per_kernel(0.1)
            .write(fixtures::path("c1_tp2"), &capture)?;
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    open_and_ingest(&mut criterion, &capture, folder.path())?;
    let run = Run::open([&capture], &OpenOptions::new())?;
    stages(&mut criterion, &run)?;
    criterion.final_summary();
    Ok(())
}

/// A group whose throughput is counted in kernels.
fn group<'a>(criterion: &'a mut Criterion, name: &str, run: &Run) -> BenchmarkGroup<'a, WallTime> {
    let kernels: usize = run.traces().iter().map(|trace| trace.kernels().len()).sum();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(kernels as u64));
    group
}

fn open_and_ingest(criterion: &mut Criterion, capture: &Path, folder: &Path) -> Result<()> {
    let mut open = criterion.benchmark_group("open");
    open.bench_function("schema", |b| b.iter(|| Capture::open(capture)));
    open.bench_function("info", |b| b.iter(|| Capture::open(capture).map(|c| c.info())));
    open.finish();
    // A write-ahead log is nothing that the reader of pages touches: SQLite reads such a file.
    let logged = folder.join("logged.sqlite");
    std::io::copy(&mut std::fs::File::open(capture)?, &mut std::fs::File::create(&logged)?)?;
    let db = rusqlite::Connection::open(&logged)?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.close().map_err(|(_, error)| error)?;
    let run = Run::open([capture], &OpenOptions::new())?;
    let mut ingest = group(criterion, "ingest", &run);
    for (name, path) in [("pages", capture), ("sqlite", logged.as_path())] {
        for threads in [1, 2] {
            let options = OpenOptions::new().threads(threads);
            ingest.bench_function(format!("{name}, {threads} threads"), |b| {
                b.iter(|| Capture::open_with(path, &options).and_then(|capture| capture.read()));
            });
        }
    }
    ingest.finish();
    Ok(())
}

fn stages(criterion: &mut Criterion, run: &Run) -> Result<()> {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("inputs");
    let deployment =
        Deployment::from_file(inputs.join("serve.service"), &deploy::Options::default())?;
    let context = ModelContext::new(model::load(&inputs.join("config.json"))?);
    let classifier = Classifier::builtin();

    let mut classify = group(criterion, "classify", run);
    classify.bench_function("names of the capture", |b| {
        // Rules are compiled when they are first needed, which is part of it.
        b.iter(|| Classes::new(run, &Classifier::builtin()));
    });
    classify.finish();
    let classes = Classes::new(run, &classifier);

    let mut segment = group(criterion, "segment", run);
    let find = |options: &StepOptions| Steps::find(run, &classes, options);
    let mut unmarked = StepOptions::new();
    unmarked.ignore_nvtx = true;
    segment.bench_function("by NVTX", |b| b.iter(|| find(&StepOptions::new())));
    segment.bench_function("by repetition", |b| b.iter(|| find(&unmarked)));
    let steps = find(&StepOptions::new());
    segment.bench_function("times of steps", |b| b.iter(|| step_times(run, &classes, &steps)));
    segment.finish();
    let times = step_times(run, &classes, &steps);

    let section = DeploymentSection::new(run, Some(&deployment))?;
    let resolved = ResolvedModel::new(&context, run, section.as_ref())?;
    let mut attribute = group(criterion, "attribute", run);
    attribute.bench_function("operations and layers", |b| {
        b.iter(|| resolved.attribute(&context, run, &classes, &steps));
    });
    attribute.finish();

    let mut analyse = group(criterion, "analyse", run);
    analyse.bench_function("wall time of ranks", |b| b.iter(|| rank_times(run, &classes)));
    analyse.bench_function("kernels by name", |b| {
        b.iter(|| kernel_rows(run, &classes, GroupBy::Name));
    });
    let spans: Vec<i64> =
        rank_times(run, &classes).iter().map(|time| time.wall.end - time.wall.start).collect();
    analyse.bench_function("launches", |b| b.iter(|| launch_stats(run, &spans)));
    analyse.bench_function("collectives", |b| b.iter(|| collectives(run, &classes)));
    analyse.bench_function("causes of idle time", |b| b.iter(|| Idle::find(run, &steps, &times)));
    let options = ReportOptions::new().deployment(deployment).model(context);
    analyse.bench_function("the whole report", |b| {
        b.iter(|| Report::new(run, &classifier, &options));
    });
    analyse.finish();

    let matched = collectives(run, &classes);
    let report = Report::new(run, &classifier, &options)?;
    let mut present = criterion.benchmark_group("present");
    present.bench_function("text", |b| b.iter(|| report.to_text(&ViewOptions::default())));
    present.bench_function("json", |b| b.iter(|| serde_json::to_string(&report)));
    present.bench_function("html without pictures", |b| {
        b.iter(|| report.to_html(&Figures::default()));
    });
    let style = nsyscope_plot::Style::new();
    present.bench_function("timeline", |b| {
        b.iter(|| {
            let options = TimelineOptions::new().bins(style.bins());
            let scene = Timeline::new(run, &classes, &steps, &matched, &options)?;
            Ok::<_, nsyscope::Error>(nsyscope_plot::timeline(&scene, &style).to_svg())
        });
    });
    let all = Annotated::new(run, &classifier, &options)?;
    present.bench_function("perfetto", |b| {
        b.iter(|| perfetto::write(black_box(&all), std::io::sink()));
    });
    present.finish();
    Ok(())
}
