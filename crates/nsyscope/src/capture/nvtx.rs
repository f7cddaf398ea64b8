//! NVTX: the ranges and marks that the program itself wrote.

use rustc_hash::FxHashMap;

use super::NONE;
use super::activity::{Faults, IdMap, append, append_translated, gather, possible};
use super::intern::{Interner, Key};
use super::open::Capture;
use super::schema::Table;
use super::sink::{Cell, Row, RowSink, Whole, scan};
use crate::Result;
use crate::health::Health;

/// What an NVTX row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NvtxKind {
    /// A push/pop range, nested on its thread.
    PushPop,
    /// A start/end range, which may end on another thread.
    StartEnd,
    /// An instant.
    Mark,
}

/// Every NVTX range and mark, in order of start.
#[derive(Clone, Debug, Default)]
pub struct NvtxTable {
    pub(crate) start: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) kind: Vec<NvtxKind>,
    pub(crate) thread: Vec<u32>,
    pub(crate) domain: Vec<i64>,
    pub(crate) text: Vec<u32>,
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) domains: Vec<(i64, Box<str>)>,
}

impl NvtxTable {
    /// How many ranges and marks there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// When each began, in ns on the capture's clock.
    pub fn start(&self) -> &[i64] {
        &self.start
    }

    /// When each ended, in ns on the capture's clock; `i64::MAX` for a range that the capture saw no end of.
    pub fn end(&self) -> &[i64] {
        &self.end
    }

    /// What each row is.
    pub fn kind(&self) -> &[NvtxKind] {
        &self.kind
    }

    /// The thread, an index into [`super::Trace::threads`].
    pub fn thread(&self) -> &[u32] {
        &self.thread
    }

    /// The text of a row; empty where there is none.
    pub fn text(&self, row: usize) -> &str {
        self.texts.get(self.text[row] as usize).map_or("", |text| text)
    }

    /// The index of each row's text in [`NvtxTable::texts`]; [`NONE`] where there is none.
    pub fn text_index(&self) -> &[u32] {
        &self.text
    }

    /// The distinct texts.
    pub fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// The name of a row's domain; `None` for the default domain.
    pub fn domain(&self, row: usize) -> Option<&str> {
        let id = self.domain[row];
        let at = self.domains.binary_search_by_key(&id, |(domain, _)| *domain).ok()?;
        Some(&*self.domains[at].1)
    }
}

/// Where a row's text is: registered (an id of `StringIds`) or its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TextKey {
    Registered(i64),
    Own(u32),
}

impl Key for TextKey {
    #[inline]
    fn mixed(&self) -> u64 {
        match self {
            Self::Registered(id) => id.cast_unsigned(),
            Self::Own(index) => !u64::from(*index),
        }
    }
}

#[derive(Default)]
struct NvtxSink {
    table: NvtxTable,
    threads: Interner<i64>,
    texts: Interner<TextKey>,
    own: FxHashMap<Box<[u8]>, u32>,
    own_texts: Vec<Box<[u8]>>,
    /// (domain, text) of domain-creation rows.
    domains: Vec<(i64, u32)>,
    faults: Faults,
}

impl NvtxSink {
    /// The index of a text that a row carries itself.
    fn own_text(&mut self, text: &[u8]) -> u32 {
        if let Some(&index) = self.own.get(text) {
            return index;
        }
        let index = self.own_texts.len() as u32;
        self.own.insert(text.into(), index);
        self.own_texts.push(text.into());
        index
    }
}

impl RowSink for NvtxSink {
    fn row(&mut self, row: &impl Row) {
        let kind = match self.faults.int_or(row.cell(2), 0) {
            59 => Some(NvtxKind::PushPop),
            60 => Some(NvtxKind::StartEnd),
            34 => Some(NvtxKind::Mark),
            // The row that creates a domain carries the domain's name.
            75 => None,
            _ => return,
        };
        let text = if let Some(own) = row.text(4) {
            let index = self.own_text(own);
            self.texts.intern(TextKey::Own(index))
        } else {
            match row.cell(5) {
                Cell::Int(id) | Cell::Converted(id) => self.texts.intern(TextKey::Registered(id)),
                _ => NONE,
            }
        };
        let domain = self.faults.int_or(row.cell(6), 0);
        let Some(kind) = kind else {
            self.domains.push((domain, text));
            return;
        };
        let Some(start) = self.faults.int(row.cell(0)) else {
            self.faults.unreadable += 1;
            return;
        };
        let end = self.faults.int(row.cell(1));
        if !possible(start) || end.is_some_and(|end| !possible(end)) {
            self.faults.unreadable += 1;
            return;
        }
        let end = match (kind, end) {
            (NvtxKind::Mark, None) => start,
            (_, None) => i64::MAX,
            (_, Some(end)) if end < start => {
                self.faults.reversed += 1;
                return;
            }
            (_, Some(end)) => end,
        };
        self.table.start.push(start);
        self.table.end.push(end);
        self.table.kind.push(kind);
        let thread = self.faults.int_or(row.cell(3), 0);
        self.table.thread.push(self.threads.intern(thread));
        self.table.domain.push(domain);
        self.table.text.push(text);
    }
}

/// The NVTX table before its registered strings are known.
pub(crate) struct RawNvtx {
    table: NvtxTable,
    keys: Vec<TextKey>,
    own_texts: Vec<Box<[u8]>>,
    domains: Vec<(i64, u32)>,
}

pub(crate) fn read(
    capture: &Capture,
    table: &Table,
    threads: &mut Interner<i64>,
    health: &mut Health,
) -> Result<RawNvtx> {
    let columns = ["start", "end", "eventType", "globalTid", "text", "textId", "domainId"];
    let read = scan(capture, table, &columns, || Rows {
        sink: NvtxSink { threads: threads.clone(), ..NvtxSink::default() },
    })?
    .sink;
    *threads = read.threads;
    read.faults.note(&table.name, health);
    let mut out = read.table;
    if !out.start.is_sorted() {
        let mut order: Vec<u32> = (0..out.len() as u32).collect();
        // Outer ranges first where two begin together.
        order.sort_unstable_by_key(|&i| {
            (out.start[i as usize], std::cmp::Reverse(out.end[i as usize]), i)
        });
        gather(&mut out.start, &order);
        gather(&mut out.end, &order);
        gather(&mut out.kind, &order);
        gather(&mut out.thread, &order);
        gather(&mut out.domain, &order);
        gather(&mut out.text, &order);
    }
    Ok(RawNvtx {
        table: out,
        keys: read.texts.into_keys(),
        own_texts: read.own_texts,
        domains: read.domains,
    })
}

/// The rows of the table, put together.
struct Rows {
    sink: NvtxSink,
}

impl Whole<NvtxSink> for Rows {
    fn take(&mut self, chunk: &mut NvtxSink, later: usize) {
        let whole = &mut self.sink;
        let own: Vec<u32> = chunk.own_texts.drain(..).map(|text| whole.own_text(&text)).collect();
        chunk.own.clear();
        let texts: Vec<u32> = chunk
            .texts
            .keys()
            .iter()
            .map(|&key| {
                whole.texts.intern(match key {
                    TextKey::Registered(id) => TextKey::Registered(id),
                    TextKey::Own(index) => TextKey::Own(own[index as usize]),
                })
            })
            .collect();
        chunk.texts.clear();
        let threads = whole.threads.absorb(&mut chunk.threads);
        let named = |text: u32| if text == NONE { NONE } else { texts[text as usize] };
        whole.domains.extend(chunk.domains.drain(..).map(|(domain, text)| (domain, named(text))));
        append(&mut whole.table.start, &mut chunk.table.start, later);
        append(&mut whole.table.end, &mut chunk.table.end, later);
        append(&mut whole.table.kind, &mut chunk.table.kind, later);
        append_translated(&mut whole.table.thread, &mut chunk.table.thread, &threads, later);
        append(&mut whole.table.domain, &mut chunk.table.domain, later);
        append_translated(&mut whole.table.text, &mut chunk.table.text, &texts, later);
        whole.faults.add(std::mem::take(&mut chunk.faults));
    }
}

impl RawNvtx {
    /// The ids of registered strings that are needed.
    pub(crate) fn string_ids(&self) -> impl Iterator<Item = i64> {
        self.keys.iter().filter_map(|key| match key {
            TextKey::Registered(id) => Some(*id),
            TextKey::Own(_) => None,
        })
    }

    pub(crate) fn resolve(self, strings: &IdMap<Box<str>>) -> NvtxTable {
        let texts: Vec<Box<str>> = self
            .keys
            .iter()
            .map(|key| match key {
                TextKey::Registered(id) => strings.get(id).cloned().unwrap_or_default(),
                TextKey::Own(index) => {
                    String::from_utf8_lossy(&self.own_texts[*index as usize]).into()
                }
            })
            .collect();
        let mut domains: Vec<(i64, Box<str>)> = self
            .domains
            .iter()
            .filter(|(_, text)| *text != NONE)
            .map(|&(domain, text)| (domain, texts[text as usize].clone()))
            .collect();
        domains.sort_unstable();
        domains.dedup_by_key(|(domain, _)| *domain);
        NvtxTable { texts, domains, ..self.table }
    }
}
