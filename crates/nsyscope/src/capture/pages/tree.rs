//! The pages of a database file, and which of them hold a table's rows.
//!
//! Source: "Database File Format", sections 1.3 and 1.6, <https://www.sqlite.org/fileformat2.html>.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::record::varint;

const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;

/// Bytes that are read at once where pages lie side by side.
const RUN_BYTES: usize = 256 << 10;

/// A database file, read page by page.
pub(super) struct Pages {
    file: File,
    page_size: usize,
    usable: usize,
    count: u32,
}

impl Pages {
    /// Opens a database whose pages can be read without SQLite: UTF-8 text, no write-ahead log.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        let mut header = [0; 100];
        file.read_exact(&mut header).ok()?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65536,
            size => usize::from(size),
        };
        let (write_version, read_version, reserved) = (header[18], header[19], header[20]);
        let encoding = u32::from_be_bytes([header[56], header[57], header[58], header[59]]);
        let plain = write_version == 1 && read_version == 1 && encoding == 1;
        if !plain || !page_size.is_power_of_two() || page_size < 512 {
            return None;
        }
        let usable =
            page_size.checked_sub(usize::from(reserved)).filter(|&usable| usable >= 480)?;
        let count = u32::try_from(size / page_size as u64).ok()?;
        Some(Self { file, page_size, usable, count })
    }

    /// Calls `take` for each of these pages, in order; reads neighbours together. `None` where the
    /// file does not hold one, or `take` refuses.
    pub(super) fn each(
        &mut self,
        pages: &[u32],
        buffer: &mut Vec<u8>,
        mut take: impl FnMut(&[u8], u32) -> Option<()>,
    ) -> Option<()> {
        let most = (RUN_BYTES / self.page_size).max(1) as u32;
        let mut rest = pages;
        while let Some(&first) = rest.first() {
            // Pages that ascend and lie no further apart than is read at once.
            let near = |pair: &[u32]| pair[0] < pair[1] && pair[1] - first < most;
            let run = rest.windows(2).take_while(|pair| near(pair)).count() + 1;
            let (run, later) = rest.split_at(run);
            let last = *run.last()?;
            if first == 0 || last > self.count {
                return None;
            }
            buffer.resize((last - first + 1) as usize * self.page_size, 0);
            let from = u64::from(first - 1) * self.page_size as u64;
            self.file.seek(SeekFrom::Start(from)).ok()?;
            self.file.read_exact(buffer).ok()?;
            for &page in run {
                let at = (page - first) as usize * self.page_size;
                take(&buffer[at..at + self.usable], page)?;
            }
            rest = later;
        }
        Some(())
    }

    /// The leaf pages of the table whose tree begins at `root`, in order of row id; `None` where
    /// the tree is not as it must be. Leaves are not read: a page among them that is none, or whose
    /// row ids are not those that its place is for, shows when its records are.
    pub(super) fn leaves(&mut self, root: u32) -> Option<Leaves> {
        let mut level = Leaves { pages: vec![root], most: vec![i64::MAX] };
        let mut buffer = Vec::new();
        // Each level of a tree is one kind of page; no tree that fits a file is deeper.
        for _ in 0..20 {
            let mut kind = 0;
            self.each(&level.pages[..1], &mut buffer, |page, _| {
                kind = *page.first()?;
                Some(())
            })?;
            match kind {
                LEAF => return distinct(&level.pages).then_some(level),
                INTERIOR => {}
                _ => return None,
            }
            let mut below = Leaves::default();
            let mut most = level.most.iter();
            self.each(&level.pages, &mut buffer, |page, _| match *page.first()? {
                INTERIOR => children(page, *most.next()?, &mut below),
                _ => None,
            })?;
            if below.pages.len() > self.count as usize {
                return None;
            }
            level = below;
        }
        None
    }
}

/// Pages of one level of a tree, in order of row id.
#[derive(Default)]
pub(super) struct Leaves {
    pub(super) pages: Vec<u32>,
    /// For each page the greatest row id that it, or what is below it, may hold; they ascend. A search
    /// by row id goes by these, so that it finds no row which contradicts them.
    pub(super) most: Vec<i64>,
}

impl Leaves {
    fn add(&mut self, page: u32, most: i64) -> Option<()> {
        if self.most.last().is_some_and(|last| most <= *last) {
            return None;
        }
        self.pages.push(page);
        self.most.push(most);
        Some(())
    }
}

fn distinct(pages: &[u32]) -> bool {
    let mut sorted = pages.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] < pair[1])
}

/// Adds the pages below one that holds row ids up to `most`.
fn children(page: &[u8], most: i64, below: &mut Leaves) -> Option<()> {
    // A page below which nothing is divided does not come into being.
    let cells = cells(page).filter(|&cells| cells > 0)?;
    for i in 0..cells {
        // Behind the page number is the greatest row id below it.
        let at = cell(page, 12, i).filter(|&at| at >= 12 + 2 * cells)?;
        let (key, _) = varint(page, at + 4)?;
        below.add(number(page, at)?, key.cast_signed())?;
    }
    // Keys ascend up to here, so that none is beyond it.
    below.add(number(page, 8)?, most)
}

fn cells(page: &[u8]) -> Option<usize> {
    Some(usize::from(short(page, 3)?))
}

/// Where the `index`-th cell of a page begins.
fn cell(page: &[u8], header: usize, index: usize) -> Option<usize> {
    short(page, header + 2 * index).map(usize::from)
}

fn short(page: &[u8], at: usize) -> Option<u16> {
    page.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn number(page: &[u8], at: usize) -> Option<u32> {
    page.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Calls `take` with the row id and the bounds of each record of a leaf page; `alone` says whether it
/// is the whole table, which alone may hold no row.
pub(super) fn records(
    page: &[u8],
    alone: bool,
    mut take: impl FnMut(i64, usize, usize) -> Option<()>,
) -> Option<()> {
    if *page.first()? != LEAF {
        return None;
    }
    // Free space lies behind the cells' index; SQLite calls anything else damaged.
    let (cells, free) = (cells(page)?, usize::from(short(page, 1)?));
    if free != 0 && !(8 + 2 * cells..page.len()).contains(&free) || (cells == 0 && !alone) {
        return None;
    }
    // A longer payload continues on overflow pages (section 1.6).
    let most = page.len() - 35;
    for i in 0..cells {
        // No cell lies in the index, nor has less than four bytes.
        let at = cell(page, 8, i).filter(|at| (8 + 2 * cells..=page.len() - 4).contains(at))?;
        let (size, at) = varint(page, at)?;
        let (row_id, at) = varint(page, at)?;
        let size = usize::try_from(size).ok().filter(|&size| size <= most)?;
        take(row_id.cast_signed(), at, at + size)?;
    }
    Some(())
}
