//! One row as SQLite stores it: a header of serial types, then the values.
//!
//! Source: "Database File Format", section 2.1 (Record Format), <https://www.sqlite.org/fileformat2.html>.

use rusqlite::types::ValueRef;

use super::super::sink::{Cell, Row, convert};

/// Columns of a table that can be told apart; wider tables are left to SQLite.
pub(super) const MOST_COLUMNS: usize = 64;

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

/// Columns that are wanted of a table at most: two bits each.
pub(super) const MOST_SLOTS: usize = 32;

/// The size of a value that no record can hold: reserved serial types lead there.
const IMPOSSIBLE: u32 = 1 << 20;

/// The bytes of values by serial type, of the types that take one byte.
const SIZES: [u32; 128] = {
    let mut sizes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, IMPOSSIBLE, IMPOSSIBLE].as_slice();
    let mut out = [0; 128];
    let mut serial = 0;
    while serial < 128 {
        out[serial] = match sizes {
            [size, rest @ ..] => {
                sizes = rest;
                *size
            }
            [] => (serial as u32 - 12) / 2,
        };
        serial += 1;
    }
    out
};

/// What becomes of a value, by its serial type.
#[derive(Clone, Copy)]
struct Decoding {
    /// The eight bytes from the first one on, shifted by `shift` and masked by `keep`, are the
    /// integer; without a value's own bytes, `add` is.
    keep: i64,
    shift: u8,
    add: u8,
    flag: u8,
}

/// It is an integer.
const INTEGER: u8 = 0;
/// It is NULL, or absent.
const NULL: u8 = 1;
/// It is neither: text, a blob, a floating point number.
const ODD: u8 = 2;

/// By serial type; the last stands for all from 10 on.
const DECODINGS: [Decoding; 16] = {
    let mut out = [Decoding { keep: 0, shift: 0, add: 0, flag: ODD }; 16];
    let mut serial = 1;
    while serial <= 6 {
        let shift = (64 - 8 * SIZES[serial]) as u8;
        out[serial] = Decoding { keep: -1, shift, add: 0, flag: INTEGER };
        serial += 1;
    }
    out[0].flag = NULL;
    out[8].flag = INTEGER;
    out[9] = Decoding { keep: 0, shift: 0, add: 1, flag: INTEGER };
    out
};

/// What is wanted of a table's rows, laid out for reading many.
pub(super) struct Wanted {
    slots: Vec<Slot>,
    /// The slots that are stored, each with its column.
    stored: Vec<(u8, u8)>,
    /// The slots that are the row id.
    row_ids: Vec<u8>,
    /// The flags of the slots that are absent.
    absent: u64,
    /// How many columns of a record have to be looked at.
    columns: usize,
}

impl Wanted {
    /// `None` for more slots than there are bits, or columns than can be told apart.
    pub(super) fn new(slots: Vec<Slot>) -> Option<Self> {
        if slots.len() > MOST_SLOTS {
            return None;
        }
        let (mut stored, mut row_ids, mut absent) = (Vec::new(), Vec::new(), 0);
        for (index, slot) in slots.iter().enumerate() {
            match *slot {
                Slot::Stored(column) => stored.push((index as u8, column)),
                Slot::RowId => row_ids.push(index as u8),
                Slot::Absent => absent |= u64::from(NULL) << (2 * index),
            }
        }
        let columns = stored.iter().map(|(_, column)| usize::from(*column) + 1).max().unwrap_or(0);
        (columns <= MOST_COLUMNS).then_some(Self { slots, stored, row_ids, absent, columns })
    }
}

/// A row of a leaf page; made once for a page, filled for each.
pub(super) struct Record<'a> {
    wanted: &'a Wanted,
    page: &'a [u8],
    /// Serial type and place of each column.
    serial: [u32; MOST_COLUMNS],
    at: [u32; MOST_COLUMNS],
    /// The integers of the slots.
    values: [i64; MOST_SLOTS],
    /// What they are, two bits each.
    flags: u64,
}

impl<'a> Record<'a> {
    pub(super) fn new(wanted: &'a Wanted, page: &'a [u8]) -> Self {
        Self {
            wanted,
            page,
            serial: [0; MOST_COLUMNS],
            at: [0; MOST_COLUMNS],
            values: [0; MOST_SLOTS],
            flags: 0,
        }
    }

    /// Reads the record `page[from..to]`, as far as it is wanted.
    ///
    /// `None` where the record holds fewer columns (SQLite then supplies defaults) or is not what
    /// the format allows.
    pub(super) fn read(&mut self, row_id: i64, from: usize, to: usize) -> Option<()> {
        let record = self.page.get(from..to)?;
        let (header, first) = varint(record, 0)?;
        let header = usize::try_from(header).ok()?;
        let types = record.get(first..header)?;
        let mut at = u32::try_from(from + header).ok()?;
        // Nearly always every type takes one byte.
        let mut long = 0;
        for (column, &byte) in types.get(..self.wanted.columns).unwrap_or(types).iter().enumerate()
        {
            long |= byte;
            self.serial[column] = u32::from(byte);
            self.at[column] = at;
            at = at.wrapping_add(SIZES[usize::from(byte & 0x7f)]);
        }
        let mut whole = types.len() == self.wanted.columns;
        if long >= 0x80 {
            (at, whole) = self.long(types, u32::try_from(from + header).ok()?)?;
        } else if types.len() < self.wanted.columns {
            return None;
        }
        // A page holds at most 65,536 bytes. SQLite too calls a record damaged that has more bytes
        // than all of its types say.
        if at as usize > to || (whole && (at as usize) < to) {
            return None;
        }
        self.values(row_id);
        Some(())
    }

    /// As the loop of [`Record::read`], where a type takes several bytes; returns where the last
    /// value that is wanted ends, and whether it is the record's last.
    #[cold]
    fn long(&mut self, types: &[u8], mut at: u32) -> Option<(u32, bool)> {
        let mut next = 0;
        for column in 0..self.wanted.columns {
            let (serial, after) = varint(types, next)?;
            next = after;
            let serial = u32::try_from(serial).ok()?;
            self.serial[column] = serial;
            self.at[column] = at;
            let size = match SIZES.get(serial as usize) {
                Some(size) => *size,
                None => (serial - 12) / 2,
            };
            at = at.checked_add(size)?;
        }
        Some((at, next == types.len()))
    }

    fn values(&mut self, row_id: i64) {
        let mut flags = self.wanted.absent;
        for &(index, column) in &self.wanted.stored {
            let (index, column) = (index as usize % MOST_SLOTS, column as usize % MOST_COLUMNS);
            let decoding = DECODINGS[(self.serial[column] as usize).min(15)];
            flags |= u64::from(decoding.flag) << (2 * index);
            let raw = self.eight(self.at[column] as usize);
            self.values[index] =
                ((raw >> decoding.shift) & decoding.keep) + i64::from(decoding.add);
        }
        self.flags = flags;
        for &index in &self.wanted.row_ids {
            self.values[usize::from(index)] = row_id;
        }
    }

    /// The eight bytes at `at` as a big-endian integer; what lies behind the page is 0.
    #[inline]
    fn eight(&self, at: usize) -> i64 {
        if let Some(bytes) = self.page.get(at..at + 8) {
            return i64::from_be_bytes(bytes.try_into().unwrap_or_default());
        }
        // The last values of a page.
        let mut bytes = [0; 8];
        let rest = self.page.get(at..).unwrap_or_default();
        bytes[..rest.len()].copy_from_slice(rest);
        i64::from_be_bytes(bytes)
    }

    #[cold]
    fn odd(&self, index: usize) -> Cell {
        let Slot::Stored(column) = self.wanted.slots[index] else { return Cell::Unreadable };
        let at = self.at[usize::from(column)] as usize;
        if self.serial[usize::from(column)] == 7 {
            return convert(ValueRef::Real(f64::from_bits(self.eight(at).cast_unsigned())));
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
        match (self.flags >> (2 * index)) as u8 & 3 {
            INTEGER => Cell::Int(self.values[index]),
            NULL => Cell::Null,
            _ => self.odd(index),
        }
    }

    fn text(&self, index: usize) -> Option<&[u8]> {
        let Slot::Stored(column) = self.wanted.slots[index] else { return None };
        let column = usize::from(column);
        let (serial, at) = (self.serial[column], self.at[column] as usize);
        // Odd types from 13 on are text, even ones from 12 on are blobs.
        (serial >= 13 && serial % 2 == 1)
            .then(|| self.page.get(at..at + (serial as usize - 13) / 2))
            .flatten()
    }
}

/// A variable-length integer at `at`: its value, and where the next byte is.
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
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
        assert_eq!(varint(&[0x80, 0x80], 0), None);
        assert_eq!(varint(&[], 0), None);
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
        let mut row = Record::new(&wanted, &record);
        row.read(42, 0, record.len()).unwrap();
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
            Record::new(&wanted, record).read(1, 0, record.len())
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
        let mut row = Record::new(&wanted, &record);
        row.read(1, 0, record.len()).unwrap();
        assert_eq!(row.text(0), Some(&b"x"[..]));
        assert_eq!(row.text(1), Some(long.as_bytes()));
        assert_eq!((row.cell(0), row.cell(1)), (Cell::Unreadable, Cell::Unreadable));
        assert_eq!((row.cell(2), row.text(2)), (Cell::Int(0x0102), None));
    }
}
