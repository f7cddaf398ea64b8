//! How much of the kernel time of real captures the builtin rules know.

use std::fs::File;
use std::path::{Path, PathBuf};

use nsyscope::kernel::Classifier;
use rusqlite::{Connection, OpenFlags};

/// Larger captures repeat the names of the others.
const LARGEST: u64 = 16 << 20;

/// One distinct kernel of a capture.
struct Kernel {
    name: String,
    mangled: Option<String>,
    nanoseconds: i64,
}

fn captures() -> Vec<PathBuf> {
    let root = std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let list = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = ["captures", "synthetic"]
        .iter()
        .flat_map(|folder| list(root.join(folder)))
        // Damaged imports hold next to no kernels.
        .filter(|folder| !folder.file_name().to_string_lossy().starts_with('X'))
        .flat_map(|folder| list(folder.path()))
        .filter(|file| file.metadata().is_ok_and(|data| data.len() <= LARGEST))
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().ends_with(".sqlite.zst"))
        .collect();
    found.sort();
    found
}

fn kernels(path: &Path) -> Vec<Kernel> {
    let mut plain = tempfile::NamedTempFile::new().expect("a temporary file");
    zstd::stream::copy_decode(File::open(path).expect("readable"), &mut plain).expect("zstd");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(plain.path(), flags).expect("a database");
    let mut query = database
        .prepare(
            "SELECT d.value, m.value, sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
             JOIN StringIds d ON d.id = k.demangledName LEFT JOIN StringIds m ON m.id = k.mangledName \
             GROUP BY 1, 2 ORDER BY 1, 2",
        )
        .expect("the tables of a capture");
    query
        .query_map([], |row| {
            Ok(Kernel { name: row.get(0)?, mangled: row.get(1)?, nanoseconds: row.get(2)? })
        })
        .and_then(Iterator::collect)
        .expect("rows")
}

#[test]
fn nearly_all_kernel_time_is_classified() {
    let captures = captures();
    if captures.is_empty() {
        eprintln!("skipped: shared captures absent");
        return;
    }
    eprintln!("{} captures", captures.len());
    let classifier = Classifier::builtin();
    for path in captures {
        let kernels = kernels(&path);
        let mut unknown: Vec<&Kernel> = Vec::new();
        for kernel in &kernels {
            let found = classifier.classify(&kernel.name, kernel.mangled.as_deref());
            // The mangled name adds nothing where the other one is whole.
            assert_eq!(found.category, classifier.classify(&kernel.name, None).category);
            if found.category.is_unclassified() {
                unknown.push(kernel);
            }
        }
        let sum =
            |kernels: &[&Kernel]| kernels.iter().map(|kernel| kernel.nanoseconds).sum::<i64>();
        let (missed, all) = (sum(&unknown), sum(&kernels.iter().collect::<Vec<_>>()));
        let names: Vec<&str> = unknown.iter().map(|kernel| kernel.name.as_str()).collect();
        assert!(all > 0, "{}: no kernel time", path.display());
        assert!(missed * 100 <= all, "{}: {missed} of {all} ns: {names:#?}", path.display());
    }
}
