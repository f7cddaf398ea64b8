//! Plain typed columns.

use rustc_hash::FxHashMap;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 64 bits.
    F64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
}

impl ColumnType {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Text => "text",
        }
    }
}

/// A column as `docs/tables.md` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnType,
    /// Its unit; empty where it has none.
    pub unit: &'static str,
    /// What it holds.
    pub meaning: &'static str,
    /// What a null means; empty where there is none.
    pub null: &'static str,
}

/// A column's values; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of [`ColumnType::U32`].
    U32(Vec<Option<u32>>),
    /// Of [`ColumnType::U64`].
    U64(Vec<Option<u64>>),
    /// Of [`ColumnType::I64`].
    I64(Vec<Option<i64>>),
    /// Of [`ColumnType::F64`].
    F64(Vec<Option<f64>>),
    /// Of [`ColumnType::Bool`].
    Bool(Vec<Option<bool>>),
    /// Of [`ColumnType::Text`].
    Text(Texts),
}

impl Values {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::U32 => Self::U32(Vec::new()),
            ColumnType::U64 => Self::U64(Vec::new()),
            ColumnType::I64 => Self::I64(Vec::new()),
            ColumnType::F64 => Self::F64(Vec::new()),
            ColumnType::Bool => Self::Bool(Vec::new()),
            ColumnType::Text => Self::Text(Texts::default()),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(texts) => texts.codes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Texts of which many are alike: each distinct one is held once.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    codes: Vec<Option<u32>>,
    words: Vec<Box<str>>,
    known: FxHashMap<Box<str>, u32>,
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Texts {
    fn push(&mut self, text: Option<&str>) {
        let code = text.map(|text| {
            self.known.get(text).copied().unwrap_or_else(|| {
                let code = self.words.len() as u32;
                self.words.push(text.into());
                self.known.insert(text.into(), code);
                code
            })
        });
        self.codes.push(code);
    }

    /// For each row the index of its text in [`Texts::words`].
    pub fn codes(&self) -> &[Option<u32>] {
        &self.codes
    }

    /// The distinct texts, in order of first use.
    pub fn words(&self) -> &[Box<str>] {
        &self.words
    }

    /// The text of a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        let code = (*self.codes.get(row)?)?;
        self.words.get(code as usize).map(|word| &**word)
    }

    /// The text of every row.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.codes.len()).map(|row| self.get(row))
    }
}

/// Rows of a table, or a part of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: &'static [ColumnInfo],
    values: Vec<Values>,
    rows: usize,
}

impl Table {
    /// The columns, in order.
    pub fn columns(&self) -> &'static [ColumnInfo] {
        self.columns
    }

    /// The columns with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static ColumnInfo, &Values)> {
        self.columns.iter().zip(&self.values)
    }

    /// The values of a column.
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.iter().find(|(info, _)| info.name == name).map(|(_, values)| values)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

/// A table that is filled row by row, each row column by column in the order of its description.
pub(super) struct Rows {
    table: Table,
    next: usize,
}

/// What goes into one cell.
pub(super) trait Cell {
    /// Whether it went into a column of its type.
    fn put(self, values: &mut Values) -> bool;
}

macro_rules! cells {
    ($($type:ty => $variant:ident),+) => {$(
        impl Cell for Option<$type> {
            fn put(self, values: &mut Values) -> bool {
                let Values::$variant(values) = values else { return false };
                values.push(self);
                true
            }
        }
        impl Cell for $type {
            fn put(self, values: &mut Values) -> bool {
                Some(self).put(values)
            }
        }
    )+};
}

cells!(u32 => U32, u64 => U64, i64 => I64, f64 => F64, bool => Bool, &str => Text);

impl Rows {
    pub(super) fn new(columns: &'static [ColumnInfo]) -> Self {
        let values = columns.iter().map(|column| Values::new(column.kind)).collect();
        Self { table: Table { columns, values, rows: 0 }, next: 0 }
    }

    /// The next cell of the row.
    pub(super) fn put(&mut self, cell: impl Cell) -> &mut Self {
        let fits = self.table.values.get_mut(self.next).is_some_and(|values| cell.put(values));
        debug_assert!(fits, "cell {} of a row is not of its column's type", self.next);
        self.next += 1;
        self
    }

    /// The end of the row.
    pub(super) fn end(&mut self) {
        debug_assert_eq!(self.next, self.table.columns.len(), "a row has a cell for each column");
        self.next = 0;
        self.table.rows += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(super) fn finish(self) -> Table {
        self.table
    }
}
