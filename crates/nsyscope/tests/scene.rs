//! Scenes hold every nanosecond of what they show.

use nsyscope::analysis::{Classes, Collectives, collectives, rank_times};
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};
use nsyscope::scene::{Timeline, TimelineOptions, Window};
use nsyscope::segment::{StepOptions, Steps};
use nsyscope::{Error, ErrorKind, Run};
use nsyscope_testkit::fixtures;

struct Scene {
    run: Run,
    classes: Classes,
    steps: Steps,
    matched: Collectives,
}

impl Scene {
    fn of(run: Run) -> Self {
        let classes = Classes::new(&run, &Classifier::builtin());
        let steps = Steps::find(&run, &classes, &StepOptions::new());
        let matched = collectives(&run, &classes);
        Self { run, classes, steps, matched }
    }

    fn fixture(name: &str) -> Self {
        Self::of(Run::open([fixtures::path(name)], &OpenOptions::new()).unwrap())
    }

    fn timeline(&self, options: &TimelineOptions) -> Result<Timeline, Error> {
        Timeline::new(&self.run, &self.classes, &self.steps, &self.matched, options)
    }
}

#[test]
fn lanes_sum_to_the_time_of_their_activities() {
    for name in fixtures::names().unwrap() {
        let scene = Scene::fixture(&name);
        let times = rank_times(&scene.run, &scene.classes);
        for bins in [1, 7, 1000] {
            let options = TimelineOptions::new().window(Window::Whole).bins(bins);
            let timeline = scene.timeline(&options).unwrap();
            assert_eq!(timeline.ranks.len(), times.len(), "{name}");
            for (rank, time) in timeline.ranks.iter().zip(&times) {
                let mut by_category = vec![0i64; timeline.categories.len()];
                for (category, ns) in rank.lanes.iter().flat_map(|l| l.mix.iter().flatten()) {
                    by_category[*category as usize] += ns;
                }
                assert_eq!(by_category, time.busy_ns, "{name} rank {} in {bins}", rank.rank);
                assert_eq!(rank.busy_ns.iter().sum::<i64>(), time.wall.busy_ns, "{name}");
                let activities: u64 = rank.lanes.iter().map(|lane| lane.activities).sum();
                assert_eq!(activities, time.calls.iter().sum::<u64>(), "{name}");
                for lane in &rank.lanes {
                    for (bin, (mix, busy)) in lane.mix.iter().zip(&lane.busy_ns).enumerate() {
                        let (from, until) = timeline.cut().edges(bin);
                        let sum: i64 = mix.iter().map(|(_, ns)| ns).sum();
                        assert!(*busy <= until - from && *busy <= sum, "{name} bin {bin}");
                    }
                }
            }
        }
    }
}

#[test]
fn windows_sum_to_the_whole() {
    let scene = Scene::fixture("kimi_tp8_decode");
    let whole = scene.timeline(&TimelineOptions::new().window(Window::Whole).bins(500)).unwrap();
    let length = whole.end_ns - whole.start_ns;
    let cut = length / 3 + 17;
    let time = |from, until| {
        let options = TimelineOptions::new().window(Window::Time(from, until)).bins(333);
        let part = scene.timeline(&options).unwrap();
        part.ranks.iter().flat_map(|r| &r.lanes).map(nsyscope::scene::Lane::time_ns).sum::<i64>()
    };
    assert_eq!(time(0, cut) + time(cut, length), time(0, length));
    // Its eight ranks run the same collectives: each join has all of them.
    assert!(whole.joins_in_all > whole.joins.len() as u64 && !whole.joins.is_empty());
    assert!(whole.joins.iter().all(|join| join.members.len() == 8));
    assert!(whole.joins.windows(2).all(|w| {
        w[0].members.iter().map(|m| m.start_ns).min()
            <= w[1].members.iter().map(|m| m.start_ns).min()
    }));
}

#[test]
fn a_step_and_its_layers_are_windows() {
    let scene = Scene::fixture("kimi_tp8_decode");
    let step = &scene.steps.ranks[0].steps[1];
    let options = TimelineOptions::new().window(Window::Step(1)).exact(100_000);
    let shown = scene.timeline(&options).unwrap();
    assert!(shown.start_ns <= step.start_ns && shown.end_ns >= step.end_ns);
    assert!(shown.title.starts_with("step 1 (decode"), "{}", shown.title);
    let rank = &shown.ranks[0];
    assert_eq!(rank.layers.len(), step.layers.len());
    // With room for all, every activity is a block, and the blocks are the lane.
    for lane in &rank.lanes {
        let inside = lane
            .blocks
            .iter()
            .map(|block| block.end_ns.min(shown.end_ns) - block.start_ns.max(shown.start_ns));
        assert_eq!(inside.sum::<i64>(), lane.time_ns());
    }
    let layer = &step.layers[1];
    let window = Window::Layer { step: 1, layer: 1 };
    let shown = scene.timeline(&TimelineOptions::new().window(window).rank(Some(0))).unwrap();
    assert_eq!((shown.start_ns, shown.end_ns), (layer.start_ns, layer.end_ns));
    assert_eq!(shown.ranks.len(), 1);
}

#[test]
fn what_is_not_there_is_refused() {
    let scene = Scene::fixture("d2_ds_fp8_tp1");
    for window in [
        Window::Step(9_999),
        Window::Layer { step: 0, layer: 9_999 },
        Window::Time(5, 5),
        Window::Time(i64::MAX - 1, i64::MAX),
    ] {
        let error = scene.timeline(&TimelineOptions::new().window(window)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{window:?}: {error}");
    }
    assert!(scene.timeline(&TimelineOptions::new().rank(Some(7))).is_err());
}

#[test]
fn a_run_without_activity_is_an_empty_scene() {
    let scene = Scene::of(Run::new(Vec::new()));
    let shown = scene.timeline(&TimelineOptions::new()).unwrap();
    assert_eq!((shown.bins, shown.ranks.len(), shown.joins.len()), (0, 0, 0));
}

#[test]
fn bands_are_the_steps_and_the_programs_own_ranges() {
    let scene = Scene::fixture("c1_tp2");
    let options = TimelineOptions::new().window(Window::Whole);
    let shown = scene.timeline(&options).unwrap();
    for rank in &shown.ranks {
        let steps = &scene.steps.ranks[rank.rank as usize].steps;
        assert_eq!(rank.steps.len(), steps.len());
        assert!(!rank.nvtx.is_empty(), "rank {}", rank.rank);
        assert!(rank.nvtx.iter().all(|band| !band.text.contains("nccl")));
    }
}

#[test]
fn ranks_steps_sum_to_those_of_all() {
    let run = Run::open([fixtures::path("d7_kimi_tp2")], &OpenOptions::new()).unwrap();
    let report = Report::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    let mut checked = 0;
    for row in report.breakdown.iter().filter(|row| row.phase != "all") {
        let of_ranks = || {
            report.rank_step_breakdown.iter().filter(|r| {
                (r.phase, r.batch, &r.category) == (row.phase, row.batch, &row.category)
            })
        };
        assert_eq!(of_ranks().map(|r| r.exposed_ns).sum::<i64>(), row.exposed_ns);
        assert_eq!(of_ranks().map(|r| r.calls).sum::<u64>(), row.calls);
        assert!(of_ranks().all(|r| r.rank.is_some()));
        checked += 1;
    }
    assert!(checked > 10);
}
