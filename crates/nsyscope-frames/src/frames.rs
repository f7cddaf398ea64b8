//! From tables to data frames.

use nsyscope::tables::{Annotated, ColumnType, Table, TableKind, Texts, Values};
use polars::prelude::*;

/// A whole table of a run.
///
/// # Errors
/// Those of polars: none is known.
pub fn data_frame(all: &Annotated<'_>, table: TableKind) -> PolarsResult<DataFrame> {
    let mut frame = DataFrame::empty_with_schema(&schema(table));
    for part in all.parts(table) {
        frame.vstack_mut(&data_frame_of(&part)?)?;
    }
    Ok(frame)
}

/// A table, or a part of one, that is already made.
///
/// # Errors
/// Those of polars: none is known.
pub fn data_frame_of(table: &Table) -> PolarsResult<DataFrame> {
    let columns = table
        .iter()
        .map(|(info, values)| {
            let name = info.name.into();
            Ok(match values {
                Values::U32(values) => Series::new(name, values),
                Values::U64(values) => Series::new(name, values),
                Values::I64(values) => Series::new(name, values),
                Values::F64(values) => Series::new(name, values),
                Values::Bool(values) => Series::new(name, values),
                Values::Text(texts) => strings(name, texts)?,
            }
            .into())
        })
        .collect::<PolarsResult<Vec<Column>>>()?;
    DataFrame::new(table.len(), columns)
}

/// The names and types of a table's columns.
pub fn schema(table: TableKind) -> Schema {
    let field =
        |info: &nsyscope::tables::ColumnInfo| Field::new(info.name.into(), dtype(info.kind));
    table.columns().iter().map(field).collect()
}

fn dtype(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::U32 => DataType::UInt32,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::I64 => DataType::Int64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Text => DataType::String,
    }
}

/// Gathered from the distinct texts, so that rows share their bytes: a kernel's name can have a
/// thousand of them.
fn strings(name: PlSmallStr, texts: &Texts) -> PolarsResult<Series> {
    if texts.words().is_empty() {
        return Ok(StringChunked::full_null(name, texts.codes().len()).into_series());
    }
    let words = StringChunked::from_iter_values(name, texts.words().iter().map(|word| &**word));
    let codes: IdxCa = texts.codes().iter().copied().collect();
    Ok(words.take(&codes)?.into_series())
}
