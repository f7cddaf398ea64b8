//! A capture that something else changes while it is read: no figure is made of two states of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use nsyscope::ErrorKind;
use nsyscope::capture::{Capture, OpenOptions, Progress};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema};

/// Changes the file once the first rows have been read.
struct Meanwhile<F>(AtomicBool, F);

impl<F: Fn() + Send + Sync> Progress for Meanwhile<F> {
    fn rows(&self, _: &str, _: u64) {
        if !self.0.swap(true, Ordering::Relaxed) {
            self.1();
        }
    }
    fn step(&self, _: &str) {}
}

fn capture(path: &Path) {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    db.gpu(Gpu::h200(0));
    let process = db.process(1677, "python");
    let stream = db.stream(process, 0, 1, 7);
    for i in 0..2_000 {
        let at = 1_000_000 + i * 10_000;
        db.launch_kernel(stream, "void gemm<bf16>(int)", at - 8_000, at - 7_000, at, at + 6_000);
    }
    db.write_to(path).unwrap();
}

/// What reading says when `change` happens after the first rows.
fn read(path: &Path, change: impl Fn() + Send + Sync + 'static) -> Result<(), nsyscope::Error> {
    let progress = Arc::new(Meanwhile(AtomicBool::new(false), change));
    let options = OpenOptions::new().threads(1).progress(progress);
    Capture::open_with(path, &options)?.read().map(drop)
}

#[test]
fn what_changes_after_the_first_rows_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    let open = |path: &Path| std::fs::File::options().write(true).open(path).unwrap();
    capture(&path);
    let whole = std::fs::read(&path).unwrap();
    let restored = |path: &Path| std::fs::write(path, &whole).unwrap();

    read(&path, || ()).unwrap();
    for (expected, change) in [
        (
            "it was cut while it was read",
            Box::new(move |path: &Path| open(path).set_len(8_192).unwrap())
                as Box<dyn Fn(&Path) + Send + Sync>,
        ),
        (
            "it grew while it was read",
            Box::new(move |path: &Path| {
                let file = open(path);
                file.set_len(file.metadata().unwrap().len() + 4_096).unwrap();
            }),
        ),
        (
            "it was removed while it was read",
            Box::new(|path: &Path| std::fs::remove_file(path).unwrap()),
        ),
        (
            "it was written to while it was read",
            Box::new(move |path: &Path| open(path).set_modified(SystemTime::UNIX_EPOCH).unwrap()),
        ),
        (
            // As a transaction of SQLite does within the resolution of the clock.
            "it was written to while it was read",
            Box::new(|path: &Path| {
                let before = std::fs::metadata(path).unwrap().modified().unwrap();
                let mut bytes = std::fs::read(path).unwrap();
                bytes[27] ^= 1;
                bytes[95] ^= 1;
                std::fs::write(path, bytes).unwrap();
                std::fs::File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_modified(before)
                    .unwrap();
            }),
        ),
        (
            "it is no longer a regular file",
            Box::new(|path: &Path| {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            }),
        ),
    ] {
        let _ = std::fs::remove_dir(&path);
        restored(&path);
        let changed = path.clone();
        let error = read(&path, move || change(&changed)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        assert_eq!(error.path(), Some(path.as_path()), "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("finished")), "{:?}", error.hint());
    }
}

#[cfg(unix)]
#[test]
fn another_file_in_its_place_is_an_error_even_of_the_same_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    capture(&path);
    let changed = path.clone();
    let error = read(&path, move || {
        let other = changed.with_extension("copy");
        std::fs::copy(&changed, &other).unwrap();
        std::fs::rename(&other, &changed).unwrap();
    })
    .unwrap_err();
    assert!(error.to_string().contains("another file took its place"), "{error}");
}

/// Between opening and asking, too.
#[test]
fn what_changed_since_it_was_opened_is_not_described() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sqlite");
    capture(&path);
    let opened = Capture::open(&path).unwrap();
    opened.info().unwrap();
    opened.read().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(opened.info().unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(opened.read().unwrap_err().kind(), ErrorKind::Changed);
}

/// What was unpacked is a copy of one's own: the packed file may go.
#[test]
fn an_unpacked_capture_needs_its_file_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("run.sqlite"), folder.path().join("run.sqlite.zst"));
    capture(&plain);
    let bytes = zstd::encode_all(std::fs::File::open(&plain).unwrap(), 3).unwrap();
    std::fs::write(&packed, &bytes).unwrap();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let options = OpenOptions::new()
        .temporary(Arc::new(move |path: &Path| list.lock().unwrap().push(path.to_owned())));
    let opened = Capture::open_with(&packed, &options).unwrap();
    std::fs::remove_file(&packed).unwrap();
    assert_eq!(opened.read().unwrap().kernels().len(), 2_000);
    let told = told.lock().unwrap();
    let [temporary] = told.as_slice() else { panic!("one file is made: {told:?}") };
    assert!(temporary.exists());
    drop(opened);
    assert!(!temporary.exists());
}

/// A few bytes that unpack to more than a disk holds, and what only begins like a database.
#[test]
fn what_unpacks_to_more_than_it_says_is_refused_before_it_fills_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("run.sqlite"), folder.path().join("run.sqlite.zst"));
    capture(&plain);
    let mut bytes = std::fs::read(&plain).unwrap();
    let size = bytes.len();
    bytes.resize(size + (64 << 20), 0);
    for (content, what) in [
        (bytes.clone(), "unpacks to more than"),
        (vec![0; 64 << 20], "no SQLite database"),
        (bytes[..size / 2].to_vec(), "cut short"),
    ] {
        std::fs::write(&packed, zstd::encode_all(content.as_slice(), 1).unwrap()).unwrap();
        let error = Capture::open(&packed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotACapture, "{error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}
