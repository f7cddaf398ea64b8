//! One row as SQLite stores it: a header of serial types, then the values.
//!
//! Source: "Database File Format", section 2.1 (Record Format), <https://www.sqlite.org/fileformat2.html>.

use rusqlite::types::ValueRef;

use super::super::sink::{Cell, Row, convert};
use super::plan::{MOST_SLOTS, Plan, Plans, Wanted, kind};

/// Where a wanted column is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// In the record, at this index.
    Stored(u8),
    /// It is the row id itself (`INTEGER PRIMARY KEY`), which the record does not repeat.
    RowId,
    /// The export lacks it.
    Absent,
}

/// A row of a leaf page.
pub(super) struct Record<'a> {
    plan: &'a Plan,
    page: &'a [u8],
    /// Where the record begins.
    from: usize,
    /// The integers of the slots.
    values: &'a [i64; MOST_SLOTS],
}

/// What is kept from record to record.
pub(super) struct Reading<'w> {
    plans: Plans<'w>,
    values: [i64; MOST_SLOTS],
}

impl<'w> Reading<'w> {
    pub(super) fn new(wanted: &'w Wanted) -> Self {
        Self { plans: Plans::new(wanted), values: [0; MOST_SLOTS] }
    }

    /// Reads the record `page[from..to]`, as far as it is wanted.
    ///
    /// `None` where the record holds fewer columns (SQLite then supplies defaults) or is not what
    /// the format allows.
    #[inline]
    pub(super) fn read<'a>(
        &'a mut self,
        page: &'a [u8],
        row_id: i64,
        from: usize,
        to: usize,
    ) -> Option<Record<'a>> {
        let plan = self.decode(page, row_id, from, to)?;
        Some(Record { plan: self.plans.made(plan), page, from, values: &self.values })
    }

    /// Puts the record's integers into their slots; the number of its plan.
    ///
    /// Apart, so that it is this number that is handed back: a whole [`Record`] goes through memory,
    /// where the caller would wait for it at every row.
    #[inline(never)]
    fn decode(&mut self, page: &[u8], row_id: i64, from: usize, to: usize) -> Option<usize> {
        let record = page.get(from..to)?;
        for &index in self.plans.wanted.row_ids() {
            self.values[usize::from(index) % MOST_SLOTS] = row_id;
        }
        let number = self.plans.of(record)?;
        let plan = self.plans.made(number);
        // SQLite too calls a record damaged that has more bytes than all of its types say.
        if plan.end > record.len() || (plan.whole && plan.end < record.len()) {
            return None;
        }
        let rest = &page[from..];
        for stored in &plan.stored {
            self.values[usize::from(stored.slot) % MOST_SLOTS] =
                eight(rest, stored.at as usize) >> (stored.shift % 64);
        }
        for &(index, value) in &plan.constant {
            self.values[usize::from(index) % MOST_SLOTS] = i64::from(value);
        }
        Some(number)
    }
}

/// The eight bytes at `at` as a big-endian integer; what lies behind the page is 0.
#[inline]
fn eight(bytes: &[u8], at: usize) -> i64 {
    if let Some(bytes) = bytes.get(at..at + 8) {
        return i64::from_be_bytes(bytes.try_into().unwrap_or_default());
    }
    // The last values of a page.
    let mut last = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    last[..rest.len()].copy_from_slice(rest);
    i64::from_be_bytes(last)
}

impl Record<'_> {
    #[cold]
    fn odd(&self, index: usize) -> Cell {
        if let Some((7, at)) = self.plan.odd(index) {
            let bits = eight(&self.page[self.from..], at);
            return convert(ValueRef::Real(f64::from_bits(bits.cast_unsigned())));
        }
        match self.text(index) {
            Some(text) => convert(ValueRef::Text(text)),
            None => Cell::Unreadable,
        }
    }
}

impl Row for Record<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell {
        match (self.plan.kinds >> (2 * index)) as u8 & 3 {
            kind::INTEGER => Cell::Int(self.values[index]),
            kind::NULL => Cell::Null,
            _ => self.odd(index),
        }
    }

    fn text(&self, index: usize) -> Option<&[u8]> {
        let (serial, at) = self.plan.odd(index)?;
        // Odd types from 13 on are text, even ones from 12 on are blobs.
        (serial >= 13 && serial % 2 == 1)
            .then(|| self.page.get(self.from + at..self.from + at + (serial as usize - 13) / 2))
            .flatten()
    }
}

/// A variable-length integer at `at`: its value, and where the next byte is.
#[inline]
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    if let Some(eight) = bytes.get(at..at + 8) {
        // The last byte is the first without the upper bit.
        let eight = u64::from_be_bytes(eight.try_into().unwrap_or_default());
        let ends = !eight & 0x8080_8080_8080_8080;
        if ends != 0 {
            let length = ends.leading_zeros() / 8 + 1;
            // Seven bits of each byte are pushed together, two, four and eight bytes at a time.
            let bits = (eight >> (64 - 8 * length)) & 0x7f7f_7f7f_7f7f_7f7f;
            let bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
            let bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x3fff_0000_3fff_0000) >> 2);
            let bits = (bits & 0x0fff_ffff) | ((bits & 0x0fff_ffff_0000_0000) >> 4);
            return Some((bits, at + length as usize));
        }
    }
    long_varint(bytes, at)
}

/// A [`varint`] of nine bytes, or one near the end.
#[cold]
fn long_varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for i in 0..9 {
        let byte = *bytes.get(at + i)?;
        if i == 8 {
            return Some(((value << 8) | u64::from(byte), at + 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, at + i + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_sqlite_writes_them() {
        assert_eq!(varint(&[0x7f], 0), Some((127, 1)));
        assert_eq!(varint(&[0, 0x81, 0x00], 1), Some((128, 3)));
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        // With and without other bytes behind them.
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let bytes = written(value);
                let followed = [&bytes[..], &[0xff; 8]].concat();
                assert_eq!(varint(&bytes, 0), Some((value, bytes.len())), "{value}");
                assert_eq!(varint(&followed, 0), Some((value, bytes.len())), "{value}");
            }
        }
        assert_eq!(varint(&[0x80, 0x80], 0), None);
        assert_eq!(varint(&[], 0), None);
    }

    fn written(value: u64) -> Vec<u8> {
        if value >= 1 << 56 {
            let upper = (0..8).rev().map(|i| 0x80 | (value >> (8 + 7 * i)) as u8);
            return upper.chain([value as u8]).collect();
        }
        let length = (64 - value.leading_zeros()).div_ceil(7).max(1);
        let byte = |i: u32| (value >> (7 * i)) as u8 & 0x7f | if i > 0 { 0x80 } else { 0 };
        (0..length).rev().map(byte).collect()
    }

    #[test]
    fn integers_of_every_size_keep_their_sign() {
        // Header of 9 bytes: NULL, one to eight bytes, zero; then the values.
        let mut record = vec![10, 0, 1, 2, 3, 4, 5, 6, 8, 9];
        for (size, value) in
            [(1, -2i64), (2, -3), (3, 70_000), (4, -5), (6, 1 << 40), (8, i64::MIN)]
        {
            record.extend_from_slice(&value.to_be_bytes()[8 - size..]);
        }
        let slots: Vec<Slot> =
            (0..9).map(Slot::Stored).chain([Slot::RowId, Slot::Absent]).collect();
        let wanted = Wanted::new(slots).unwrap();
        let mut reading = Reading::new(&wanted);
        let row = reading.read(&record, 42, 0, record.len()).unwrap();
        let cells: Vec<Cell> = (0..11).map(|i| row.cell(i)).collect();
        let int = Cell::Int;
        assert_eq!(
            cells,
            [
                Cell::Null,
                int(-2),
                int(-3),
                int(70_000),
                int(-5),
                int(1 << 40),
                int(i64::MIN),
                int(0),
                int(1),
                int(42),
                Cell::Null
            ]
        );
    }

    #[test]
    fn records_that_are_short_or_reserved_are_refused() {
        let read = |record: &[u8], columns: u8| {
            let slots: Vec<Slot> = (0..columns).map(Slot::Stored).collect();
            let wanted = Wanted::new(slots).unwrap();
            Reading::new(&wanted).read(record, 1, 0, record.len()).map(drop)
        };
        // Two columns are there, three are wanted.
        assert_eq!(read(&[3, 1, 1, 5, 6], 3), None);
        assert_eq!(read(&[3, 1, 1, 5, 6], 2), Some(()));
        // The second value lies beyond the record.
        assert_eq!(read(&[3, 1, 1, 5], 2), None);
        // The record is longer than its two values; of its first alone that cannot be said.
        assert_eq!(read(&[3, 1, 1, 5, 6, 7], 2), None);
        assert_eq!(read(&[3, 1, 1, 5, 6, 7], 1), Some(()));
        assert_eq!(read(&[4, 0x80, 1, 1, 5, 6, 7], 2), None);
        assert_eq!(read(&[2, 10], 1), None);
        assert_eq!(read(&[2, 11], 1), None);
        assert_eq!(read(&[200], 1), None);
    }

    #[test]
    fn texts_and_what_lies_behind_them_are_found() {
        let long = "n".repeat(100);
        // Three columns: a text of 100 bytes, whose type takes two bytes, an integer, a short text.
        let mut record = vec![5, 0x81, 0x55, 2, 15];
        record.extend_from_slice(long.as_bytes());
        record.extend_from_slice(&[0x01, 0x02, b'x']);
        let wanted = Wanted::new([2, 0, 1].map(Slot::Stored).to_vec()).unwrap();
        let mut reading = Reading::new(&wanted);
        let row = reading.read(&record, 1, 0, record.len()).unwrap();
        assert_eq!(row.text(0), Some(&b"x"[..]));
        assert_eq!(row.text(1), Some(long.as_bytes()));
        assert_eq!((row.cell(0), row.cell(1)), (Cell::Unreadable, Cell::Unreadable));
        assert_eq!((row.cell(2), row.text(2)), (Cell::Int(0x0102), None));
    }
}
