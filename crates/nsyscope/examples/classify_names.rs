//! Classifies kernel names, one a line on standard input; `--time` prints what
//! that took instead, for names that are all different.

use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use nsyscope::kernel::Classifier;

fn main() -> io::Result<()> {
    let names: Vec<String> = io::stdin().lock().lines().collect::<io::Result<_>>()?;
    let start = Instant::now();
    let classifier = Classifier::builtin();
    let made = start.elapsed();
    let mut out = io::stdout().lock();
    if std::env::args().any(|argument| argument == "--time") {
        let first = names.first().map(|name| classifier.classify(name, None));
        let ready = start.elapsed();
        let known =
            names.iter().filter(|name| classifier.classify(name, None).rule.is_some()).count();
        let done = start.elapsed();
        let again = Instant::now();
        let same =
            names.iter().filter(|name| classifier.classify(name, None).rule.is_some()).count();
        writeln!(
            out,
            "{} names, {known} known, first {:?}",
            names.len(),
            first.map(|found| found.category)
        )?;
        writeln!(
            out,
            "made {made:?}, first name {ready:?}, all names {done:?}, again {:?}",
            again.elapsed()
        )?;
        assert_eq!(known, same);
        return Ok(());
    }
    for name in &names {
        let found = classifier.classify(name, None);
        let rule = found.rule.as_ref().map_or("-", |rule| rule.as_str());
        writeln!(out, "{}\t{rule}\t{name}", found.category)?;
    }
    Ok(())
}
