//! A table's columns, when each came, and what a row puts there.

use super::Schema;
use crate::ids::Name;

/// What a row puts into one column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    /// A point in time; the capture's clock offset is added when it is written.
    Time(i64),
    /// A reference into `StringIds`; interned when it is written.
    Name(&'a Name),
}

impl Cell<'_> {
    /// NULL for `None`.
    pub(crate) fn opt(value: Option<impl Into<i64>>) -> Self {
        value.map_or(Self::Null, |v| Self::Int(v.into()))
    }

    /// NULL for `None`.
    pub(crate) fn opt_time(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Time)
    }
}

/// Declared type and constraint of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Int,
    IntNotNull,
    Text,
    TextNotNull,
    Real,
    Key,
}

impl Ty {
    /// The type alone.
    const fn name(self) -> &'static str {
        match self {
            Self::Int | Self::IntNotNull | Self::Key => "INTEGER",
            Self::Text | Self::TextNotNull => "TEXT",
            Self::Real => "REAL",
        }
    }

    /// What follows the type.
    const fn constraint(self) -> &'static str {
        match self {
            Self::IntNotNull | Self::TextNotNull => " NOT NULL",
            Self::Key => " NOT NULL PRIMARY KEY",
            Self::Int | Self::Text | Self::Real => "",
        }
    }
}

/// One column of a table of `R` rows.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    ty: Ty,
    since: Schema,
    pub(crate) value: for<'a> fn(&'a R) -> Cell<'a>,
}

/// A column that every version has, unless [`Column::since`] says otherwise.
pub(crate) const fn col<R>(
    name: &'static str,
    ty: Ty,
    value: for<'a> fn(&'a R) -> Cell<'a>,
) -> Column<R> {
    Column { name, ty, since: Schema::V2020_3, value }
}

impl<R> Column<R> {
    /// The first version that has the column.
    pub(crate) const fn since(self, since: Schema) -> Self {
        Self { since, ..self }
    }

    /// Whether `schema` has the column.
    pub(crate) fn in_schema(&self, schema: Schema) -> bool {
        schema >= self.since
    }

    /// The column's definition, with `declared` in place of its own type.
    pub(crate) fn definition(&self, declared: Option<&str>, constrained: bool) -> String {
        let ty = declared.unwrap_or(self.ty.name());
        let constraint = if constrained { self.ty.constraint() } else { "" };
        format!("\"{}\" {ty}{constraint}", self.name)
    }
}

/// A table of `R` rows.
pub(crate) struct Table<R: 'static> {
    pub(crate) name: &'static str,
    pub(crate) since: Schema,
    pub(crate) until: Schema,
    pub(crate) columns: &'static [Column<R>],
}

impl<R> Table<R> {
    /// Whether `schema` has the table.
    pub(crate) fn in_schema(&self, schema: Schema) -> bool {
        (self.since..=self.until).contains(&schema)
    }
}
