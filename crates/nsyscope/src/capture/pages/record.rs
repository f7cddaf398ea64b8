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

/// The bytes of values by serial type below 12; 10 and 11 are reserved and refused before.
const SIZES: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];

/// Serial type and place of each column of a record; made once, filled for each row.
pub(super) struct Fields {
    serial: [u32; MOST_COLUMNS],
    at: [u32; MOST_COLUMNS],
}

impl Fields {
    pub(super) fn new() -> Self {
        Self { serial: [0; MOST_COLUMNS], at: [0; MOST_COLUMNS] }
    }

    /// Reads the header of the record `page[from..to]`, as far as the first `columns` columns.
    ///
    /// `None` where the record holds fewer columns (SQLite then supplies defaults) or is not what
    /// the format allows.
    pub(super) fn read(
        &mut self,
        page: &[u8],
        from: usize,
        to: usize,
        columns: usize,
    ) -> Option<()> {
        let record = page.get(from..to)?;
        let (header, mut next) = varint(record, 0)?;
        let header = usize::try_from(header).ok()?;
        let types = record.get(..header)?;
        let mut at = from + header;
        for column in 0..columns {
            let (serial, after) = match *types.get(next)? {
                byte if byte < 0x80 => (u32::from(byte), next + 1),
                _ => {
                    let (serial, after) = varint(types, next)?;
                    (u32::try_from(serial).ok()?, after)
                }
            };
            next = after;
            let size = match serial {
                0..=9 => usize::from(SIZES[serial as usize]),
                10 | 11 => return None,
                _ => (serial as usize - 12) / 2,
            };
            *self.serial.get_mut(column)? = serial;
            // A page holds at most 65,536 bytes.
            *self.at.get_mut(column)? = at as u32;
            at += size;
        }
        (at <= to).then_some(())
    }
}

/// A row of a leaf page.
pub(super) struct Record<'a> {
    pub(super) page: &'a [u8],
    pub(super) row_id: i64,
    pub(super) slots: &'a [Slot],
    pub(super) fields: &'a Fields,
}

impl Record<'_> {
    /// The integer of `size` bytes at `at`, in big-endian two's complement.
    fn int(&self, at: usize, size: usize) -> i64 {
        if let Some(bytes) = self.page.get(at..at + 8) {
            let bytes = bytes.try_into().unwrap_or_default();
            return i64::from_be_bytes(bytes) >> (64 - 8 * size);
        }
        // The last values of a page.
        let value = self.page[at..at + size].iter().fold(0, |v, &b| (v << 8) | u64::from(b));
        (value << (64 - 8 * size)).cast_signed() >> (64 - 8 * size)
    }

    #[cold]
    fn odd(&self, serial: u32, at: usize) -> Cell {
        if serial == 7 {
            return convert(ValueRef::Real(f64::from_bits(self.int(at, 8).cast_unsigned())));
        }
        match self.text_at(serial, at) {
            Some(text) => convert(ValueRef::Text(text)),
            None => Cell::Unreadable,
        }
    }

    fn text_at(&self, serial: u32, at: usize) -> Option<&[u8]> {
        // Odd types from 13 on are text, even ones from 12 on are blobs.
        (serial >= 13 && serial % 2 == 1)
            .then(|| self.page.get(at..at + (serial as usize - 13) / 2))
            .flatten()
    }
}

impl Row for Record<'_> {
    fn cell(&self, index: usize) -> Cell {
        let column = match self.slots[index] {
            Slot::Stored(column) => usize::from(column),
            Slot::RowId => return Cell::Int(self.row_id),
            Slot::Absent => return Cell::Null,
        };
        let (serial, at) = (self.fields.serial[column], self.fields.at[column] as usize);
        match serial {
            0 => Cell::Null,
            1..=6 => Cell::Int(self.int(at, usize::from(SIZES[serial as usize]))),
            8 => Cell::Int(0),
            9 => Cell::Int(1),
            _ => self.odd(serial, at),
        }
    }

    fn text(&self, index: usize) -> Option<&[u8]> {
        let Slot::Stored(column) = self.slots[index] else { return None };
        let column = usize::from(column);
        self.text_at(self.fields.serial[column], self.fields.at[column] as usize)
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
        let mut fields = Fields::new();
        fields.read(&record, 0, record.len(), 9).unwrap();
        let slots: Vec<Slot> =
            (0..9).map(Slot::Stored).chain([Slot::RowId, Slot::Absent]).collect();
        let row = Record { page: &record, row_id: 42, slots: &slots, fields: &fields };
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
        let mut fields = Fields::new();
        // Two columns are there, three are wanted.
        assert_eq!(fields.read(&[3, 1, 1, 5, 6], 0, 5, 3), None);
        assert_eq!(fields.read(&[3, 1, 1, 5, 6], 0, 5, 2), Some(()));
        // The second value lies beyond the record.
        assert_eq!(fields.read(&[3, 1, 1, 5, 6], 0, 4, 2), None);
        assert_eq!(fields.read(&[2, 10], 0, 2, 1), None);
        assert_eq!(fields.read(&[200], 0, 1, 1), None);
    }
}
