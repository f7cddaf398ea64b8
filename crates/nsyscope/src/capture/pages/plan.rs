//! How to read the records of one header, worked out once for all that share it.
//!
//! The header of a record lists the types of its values, and with them where each lies. Millions of
//! rows of a table share a few dozen headers.
//!
//! Source: "Database File Format", section 2.1 (Record Format), <https://www.sqlite.org/fileformat2.html>.

use super::record::{Slot, varint};

/// Columns of a table that can be told apart; wider tables are left to SQLite.
pub(super) const MOST_COLUMNS: usize = 64;

/// Columns that are wanted of a table at most: two bits each.
pub(super) const MOST_SLOTS: usize = 32;

/// The size of a value that no record can hold: reserved serial types lead there.
const IMPOSSIBLE: u64 = 1 << 20;

/// What the value of a slot is.
pub(super) mod kind {
    /// An integer.
    pub(in super::super) const INTEGER: u8 = 0;
    /// NULL, or absent.
    pub(in super::super) const NULL: u8 = 1;
    /// Neither: text, a blob, a floating point number.
    pub(in super::super) const ODD: u8 = 2;
}

/// What is wanted of a table's rows.
pub(super) struct Wanted {
    slots: Vec<Slot>,
    /// The slots that are the row id.
    row_ids: Vec<u8>,
    /// How many columns of a record have to be looked at.
    columns: usize,
}

impl Wanted {
    /// `None` for more slots than there are bits, or columns than can be told apart.
    pub(super) fn new(slots: Vec<Slot>) -> Option<Self> {
        if slots.len() > MOST_SLOTS {
            return None;
        }
        let row_ids =
            (0u8..).zip(&slots).filter(|(_, slot)| **slot == Slot::RowId).map(|(i, _)| i).collect();
        let column = |slot: &Slot| match slot {
            Slot::Stored(column) => usize::from(*column) + 1,
            Slot::RowId | Slot::Absent => 0,
        };
        let columns = slots.iter().map(column).max().unwrap_or(0);
        (columns <= MOST_COLUMNS).then_some(Self { slots, row_ids, columns })
    }

    pub(super) fn row_ids(&self) -> &[u8] {
        &self.row_ids
    }
}

/// An integer of one to eight bytes: the eight bytes from `at` on, shifted.
#[derive(Clone, Copy, Default)]
pub(super) struct Stored {
    pub(super) slot: u8,
    pub(super) shift: u8,
    /// From the record's first byte.
    pub(super) at: u32,
}

/// How to read the records of one header. Places count from the record's first byte.
#[derive(Clone, Default)]
pub(super) struct Plan {
    /// The header's bytes that are known to lead here.
    header: Vec<u8>,
    pub(super) stored: Vec<Stored>,
    /// Integers that are part of the header: 0 and 1.
    pub(super) constant: Vec<(u8, u8)>,
    /// The [`kind`] of each slot, two bits each.
    pub(super) kinds: u64,
    /// Serial type and place of the value of each slot that is of kind [`kind::ODD`].
    odd: Vec<(u8, u32, u32)>,
    /// Where the last value that is looked at ends, and whether it is the record's last.
    pub(super) end: usize,
    pub(super) whole: bool,
}

impl Plan {
    /// Works out how to read records that begin with `record`'s header.
    ///
    /// `None` where the record holds fewer columns (SQLite then supplies defaults) or is not what
    /// the format allows.
    fn make(&mut self, wanted: &Wanted, record: &[u8]) -> Option<()> {
        let (length, first) = varint(record, 0)?;
        let length = usize::try_from(length).ok()?;
        let types = record.get(first..length)?;
        let mut columns = [(0, 0); MOST_COLUMNS];
        // A page holds at most 65,536 bytes, a record of a leaf no more; and a size is at most 2^31.
        let (mut at, mut next) = (length as u64, 0);
        for column in &mut columns[..wanted.columns] {
            let (serial, after) = varint(types, next)?;
            next = after;
            let serial = u32::try_from(serial).ok()?;
            *column = (serial, u32::try_from(at).ok()?);
            at += match serial {
                0 | 8 | 9 => 0,
                1..=4 => u64::from(serial),
                5 => 6,
                6 | 7 => 8,
                10 | 11 => IMPOSSIBLE,
                _ => u64::from(serial - 12) / 2,
            };
        }
        (self.end, self.whole) = (usize::try_from(at).ok()?, next == types.len());
        self.stored.clear();
        self.constant.clear();
        self.odd.clear();
        self.kinds = 0;
        for (index, slot) in (0u8..).zip(&wanted.slots) {
            let kind = match *slot {
                Slot::RowId => kind::INTEGER,
                Slot::Absent => kind::NULL,
                Slot::Stored(column) => {
                    let (serial, at) = columns[usize::from(column)];
                    match serial {
                        0 => kind::NULL,
                        1..=6 => {
                            let shift = [0, 56, 48, 40, 32, 16, 0][serial as usize];
                            self.stored.push(Stored { slot: index, shift, at });
                            kind::INTEGER
                        }
                        8 | 9 => {
                            self.constant.push((index, (serial - 8) as u8));
                            kind::INTEGER
                        }
                        _ => {
                            self.odd.push((index, serial, at));
                            kind::ODD
                        }
                    }
                }
            };
            self.kinds |= u64::from(kind) << (2 * index);
        }
        Some(())
    }

    /// Serial type and place of a slot's value that is no integer.
    pub(super) fn odd(&self, index: usize) -> Option<(u32, usize)> {
        let found = self.odd.iter().find(|(slot, ..)| usize::from(*slot) == index)?;
        Some((found.1, found.2 as usize))
    }
}

/// Places for plans that are kept, by the headers' bytes; a power of two.
const PLACES: usize = 1024;

/// The plans of a table's records, as far as they have been met.
pub(super) struct Plans<'w> {
    pub(super) wanted: &'w Wanted,
    /// By hash, which of the plans; 0 where no header has led to.
    places: [u16; PLACES],
    /// The first is of a header that is not kept.
    made: Vec<Plan>,
}

impl<'w> Plans<'w> {
    pub(super) fn new(wanted: &'w Wanted) -> Self {
        Self { wanted, places: [0; PLACES], made: vec![Plan::default()] }
    }

    /// A plan by its number.
    #[inline]
    pub(super) fn made(&self, number: usize) -> &Plan {
        &self.made[number]
    }

    /// The number of the plan for the record that lies at the beginning of `record`; `None` as
    /// [`Plan::make`].
    #[inline]
    pub(super) fn of(&mut self, record: &[u8]) -> Option<usize> {
        let length = usize::from(*record.first()?);
        // The header's length is nearly always one byte, the first of its own.
        let header = record.get(..length).filter(|_| (8..0x80).contains(&length));
        let Some(header) = header else {
            self.made[0].make(self.wanted, record)?;
            return Some(0);
        };
        let place = &mut self.places[place(header)];
        if !same(&self.made[usize::from(*place)].header, header) {
            Self::learn(place, &mut self.made, self.wanted, record, header)?;
        }
        Some(usize::from(*place))
    }

    /// Makes the plan of a header, in place of the one that was there.
    #[cold]
    fn learn(
        place: &mut u16,
        plans: &mut Vec<Plan>,
        wanted: &Wanted,
        record: &[u8],
        header: &[u8],
    ) -> Option<()> {
        if *place == 0 {
            *place = plans.len() as u16;
            plans.push(Plan::default());
        }
        let plan = &mut plans[usize::from(*place)];
        plan.header.clear();
        plan.make(wanted, record)?;
        plan.header.extend_from_slice(header);
        Some(())
    }
}

/// Whether two headers are equal; the second has eight bytes or more. A few words need no call.
#[inline]
fn same(known: &[u8], header: &[u8]) -> bool {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let last = header.len() - 8;
    known.len() == header.len()
        && known.chunks_exact(8).zip(header.chunks_exact(8)).all(|(a, b)| word(a) == word(b))
        && word(&known[last..]) == word(&header[last..])
}

/// Where the plan of a header is kept: by a sum of products, none of which waits for another.
#[inline]
fn place(header: &[u8]) -> usize {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let mut factor: u64 = 0x9e37_79b9_7f4a_7c15;
    // The last bytes, some of which the chunks hold too.
    let mut hash = word(&header[header.len() - 8..]).wrapping_mul(factor);
    for chunk in header.chunks_exact(8) {
        // Even, so that every factor is odd.
        factor = factor.wrapping_add(0x6a09_e667_f3bc_c908);
        hash = hash.wrapping_add(word(chunk).wrapping_mul(factor));
    }
    // The upper bits alone depend on every byte.
    (hash >> (64 - PLACES.trailing_zeros())) as usize
}
