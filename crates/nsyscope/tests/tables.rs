//! Tables say what the report says, and `docs/tables.md` says what they are.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::model;
use nsyscope::report::{ModelContext, Report, ReportOptions};
use nsyscope::tables::{Annotated, Table, TableKind, Values};
use nsyscope_testkit::fixtures;

/// A run with the options of its report.
fn runs() -> Vec<(String, Vec<PathBuf>, ReportOptions)> {
    let mut out: Vec<_> = fixtures::names()
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), vec![fixtures::path(&name)], ReportOptions::new()))
        .collect();
    let both = ["c9_rank0", "c9_rank1"].map(fixtures::path);
    out.push(("c9".to_owned(), both.to_vec(), ReportOptions::new()));
    let config = common::fixtures().join("models/kimi-k2.5-like.json");
    let context = ModelContext::new(model::load(&config).unwrap());
    let kimi = vec![fixtures::path("kimi_tp8_decode")];
    out.push(("kimi with its model".to_owned(), kimi, ReportOptions::new().model(context)));
    out
}

fn numbers(table: &Table, name: &str) -> Vec<Option<i64>> {
    match table.column(name).unwrap_or_else(|| panic!("no column {name}")) {
        Values::I64(values) => values.clone(),
        Values::U32(values) => values.iter().map(|v| v.map(i64::from)).collect(),
        Values::U64(values) => values.iter().map(|v| v.map(|v| v as i64)).collect(),
        other => panic!("{name} holds {other:?}"),
    }
}

fn words<'a>(table: &'a Table, name: &str) -> Vec<Option<&'a str>> {
    match table.column(name) {
        Some(Values::Text(texts)) => texts.iter().collect(),
        other => panic!("{name} holds {other:?}"),
    }
}

fn known(values: Vec<Option<i64>>) -> Vec<i64> {
    values.into_iter().map(Option::unwrap).collect()
}

type Sums = BTreeMap<(i64, String), (u64, i64)>;

#[test]
fn rows_and_sums_are_those_of_the_report() {
    for (name, captures, options) in runs() {
        let run = Run::open(&captures, &OpenOptions::new()).unwrap();
        let classifier = Classifier::builtin();
        let report = Report::new(&run, &classifier, &options).unwrap();
        let all = Annotated::new(&run, &classifier, &options).unwrap();

        let (mut whole, mut stepped, mut op_time) = (Sums::new(), Sums::new(), BTreeMap::new());
        let (mut kernels, mut waits) = (0, 0);
        for part in all.kernels() {
            let (ranks, starts) =
                (known(numbers(&part, "rank")), known(numbers(&part, "start_ns")));
            let ends = known(numbers(&part, "end_ns"));
            let (categories, kinds) = (words(&part, "category"), words(&part, "kind"));
            let (phases, ops) = (words(&part, "phase"), words(&part, "op"));
            waits += numbers(&part, "wait_ns").into_iter().flatten().sum::<i64>();
            for row in 0..part.len() {
                let (time, category) = (ends[row] - starts[row], categories[row].unwrap());
                kernels += u64::from(kinds[row] == Some("kernel"));
                let add = |sums: &mut Sums, key: &str| {
                    let sum = sums.entry((ranks[row], key.to_owned())).or_default();
                    sum.0 += 1;
                    sum.1 += time;
                };
                add(&mut whole, category);
                if let Some(phase) = phases[row] {
                    add(&mut stepped, &format!("{phase} {category}"));
                }
                if let Some(op) = ops[row] {
                    *op_time.entry(op.to_owned()).or_insert(0) += time;
                }
            }
        }
        assert_eq!(Some(kernels), report.capture.kernel_count.or(Some(0)), "{name}");
        let mut expected = Sums::new();
        for row in &report.rank_breakdown {
            let key = (i64::from(row.rank.unwrap()), row.category.clone());
            expected.insert(key, (row.calls, row.busy_ns));
        }
        assert_eq!(whole, expected, "{name}: the whole capture");
        let mut expected = Sums::new();
        for row in &report.rank_step_breakdown {
            let key = (i64::from(row.rank.unwrap()), format!("{} {}", row.phase, row.category));
            let sum = expected.entry(key).or_default();
            sum.0 += row.calls;
            sum.1 += row.busy_ns;
        }
        assert_eq!(stepped, expected, "{name}: steps");

        let steps = all.steps();
        let count: usize = all.steps_found().ranks.iter().map(|rank| rank.steps.len()).sum();
        assert_eq!(steps.len(), count, "{name}");
        let mut walls: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for (phase, wall) in words(&steps, "phase").iter().zip(known(numbers(&steps, "wall_ns"))) {
            walls.entry(phase.unwrap()).or_default().push(wall);
        }
        for phase in &report.steps.phases {
            let walls = &walls[phase.phase.as_str()];
            let wall = &phase.wall_ns;
            assert_eq!(walls.iter().min(), Some(&wall.min), "{name}");
            assert_eq!(walls.iter().max(), Some(&wall.max), "{name}");
        }
        assert_eq!(walls.len(), report.steps.phases.len(), "{name}");

        let calls = all.collectives();
        let mut distinct = known(numbers(&calls, "call"));
        distinct.dedup();
        let sections = || report.collectives.iter().map(|section| &section.row);
        let counted: u64 = sections().map(|row| row.calls).sum();
        assert_eq!(distinct.len() as u64, counted, "{name}");
        let members: u64 = sections().map(|row| row.calls * u64::from(row.ranks)).sum();
        assert_eq!(calls.len() as u64, members, "{name}");
        let sum = |column| numbers(&calls, column).into_iter().flatten().sum::<i64>();
        assert_eq!(sum("duration_ns"), sections().map(|row| row.time_ns).sum::<i64>(), "{name}");
        let expected: i64 = sections().filter_map(|row| row.wait_ns).sum();
        assert_eq!((sum("wait_ns"), waits), (expected, expected), "{name}");
        let expected: i64 = sections().filter_map(|row| row.transfer_ns).sum();
        assert_eq!(sum("transfer_ns"), expected, "{name}");
        let mut by_kind: BTreeMap<(String, String), i64> = BTreeMap::new();
        let keys = words(&calls, "kind").into_iter().zip(words(&calls, "phase"));
        for ((kind, phase), ns) in keys.zip(known(numbers(&calls, "duration_ns"))) {
            *by_kind.entry((kind.unwrap().into(), phase.unwrap().into())).or_default() += ns;
        }
        let mut expected = BTreeMap::new();
        for section in &report.collectives {
            let key = (section.row.kind.clone(), section.phase.to_owned());
            *expected.entry(key).or_default() += section.row.time_ns;
        }
        assert_eq!(by_kind, expected, "{name}: collectives by kind and phase");

        let ops = all.ops();
        assert_eq!(ops.len(), report.ops.as_ref().map_or(0, Vec::len), "{name}");
        for (row, op) in report.ops.iter().flatten().enumerate() {
            assert_eq!(numbers(&ops, "time_ns")[row], Some(op.time_ns), "{name}");
            assert_eq!(numbers(&ops, "floor_ns")[row], op.floor_ns, "{name}");
        }
        let mut expected: BTreeMap<String, i64> = BTreeMap::new();
        for op in report.ops.iter().flatten().filter(|op| op.op != "unmapped") {
            *expected.entry(op.op.to_owned()).or_default() += op.time_ns;
        }
        assert_eq!(op_time, expected, "{name}: kernels by operation");
    }
}

#[test]
fn collectives_and_kernels_name_each_other() {
    let run = Run::open([fixtures::path("c1_tp2")], &OpenOptions::new()).unwrap();
    let all = Annotated::new(&run, &Classifier::builtin(), &ReportOptions::new()).unwrap();
    let mut kernels = BTreeMap::new();
    for part in all.kernels() {
        let (calls, ranks) = (numbers(&part, "collective"), numbers(&part, "rank"));
        let spans = numbers(&part, "start_ns").into_iter().zip(numbers(&part, "end_ns"));
        for ((call, rank), span) in calls.into_iter().zip(ranks).zip(spans) {
            if call.is_some() {
                assert_eq!(kernels.insert((call, rank), span), None);
            }
        }
    }
    let table = all.collectives();
    let spans = numbers(&table, "start_ns").into_iter().zip(numbers(&table, "end_ns"));
    let keys = numbers(&table, "call").into_iter().zip(numbers(&table, "rank"));
    let expected: BTreeMap<_, _> = keys.zip(spans).collect();
    assert!(!kernels.is_empty());
    assert_eq!(kernels, expected);
}

/// A null means what the description says; where it says nothing there is none.
#[test]
fn only_columns_that_say_so_hold_nulls() {
    for (name, captures, options) in runs() {
        let run = Run::open(&captures, &OpenOptions::new()).unwrap();
        let all = Annotated::new(&run, &Classifier::builtin(), &options).unwrap();
        for kind in TableKind::ALL {
            for part in all.parts(kind) {
                for (info, values) in part.iter() {
                    let null = match values {
                        Values::U32(values) => values.iter().any(Option::is_none),
                        Values::U64(values) => values.iter().any(Option::is_none),
                        Values::I64(values) => values.iter().any(Option::is_none),
                        Values::F64(values) => values.iter().any(Option::is_none),
                        Values::Bool(values) => values.iter().any(Option::is_none),
                        Values::Text(texts) => texts.iter().any(|text| text.is_none()),
                    };
                    assert_eq!(values.len(), part.len());
                    assert!(!null || !info.null.is_empty(), "{name}: {}", info.name);
                }
            }
        }
    }
}

/// Set `NSYSCOPE_BLESS` to write the tables of the document anew.
#[test]
fn the_document_describes_every_column() {
    let path = common::fixtures().join("../docs/tables.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    for table in TableKind::ALL {
        let mut lines =
            "| column | type | unit | what | null |\n| --- | --- | --- | --- | --- |\n".to_owned();
        for column in table.columns() {
            let (kind, null) =
                (column.kind.as_str(), if column.null.is_empty() { "never" } else { column.null });
            let (name, unit, meaning) = (column.name, column.unit, column.meaning);
            lines.push_str(&format!("| `{name}` | {kind} | {unit} | {meaning} | {null} |\n"));
        }
        let begin = format!("<!-- {} -->\n", table.as_str());
        let from =
            document.find(&begin).expect("the document has a place for each table") + begin.len();
        let until = from + document[from..].find("<!-- end -->").unwrap();
        if std::env::var_os("NSYSCOPE_BLESS").is_some() {
            document.replace_range(from..until, &lines);
            continue;
        }
        assert_eq!(&document[from..until], lines, "run this test with NSYSCOPE_BLESS=1");
    }
    if std::env::var_os("NSYSCOPE_BLESS").is_some() {
        std::fs::write(&path, document).unwrap();
    }
}
