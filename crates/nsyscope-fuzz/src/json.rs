//! Spoils JSON that was sound: values of other types and sizes, keys missing or twice.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value};

const NUMBERS: [&str; 18] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "0.5",
    "1e-300",
    "1e300",
    "-1e19",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "4294967295",
    "4294967296",
    "1000000000000000000",
    "2000000",
    "1000000",
];

const TEXTS: [&str; 10] = [
    "",
    "x",
    "1",
    "decode",
    "all",
    "\u{1b}[31mred\u{7}\u{0}",
    "9223372036854775807 -9223372036854775808 1",
    "\u{202e}a\u{2028}b",
    "NaN",
    "fp8",
];

/// Changes up to so many places of a value, as the bytes say.
pub(crate) fn spoil(value: &mut Value, u: &mut Unstructured<'_>, most: usize) -> Result<()> {
    for _ in 0..u.int_in_range(1..=most)? {
        if u.is_empty() {
            break;
        }
        change(place(value, u)?, u)?;
    }
    Ok(())
}

/// A place in the value: half of the way down each time, so that large parts are not all there is.
fn place<'v>(value: &'v mut Value, u: &mut Unstructured<'_>) -> Result<&'v mut Value> {
    let mut at = value;
    loop {
        let inner = match at {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if inner == 0 || u.ratio(1, 8)? {
            return Ok(at);
        }
        let chosen = u.choose_index(inner)?;
        at = match at {
            Value::Array(items) => &mut items[chosen],
            Value::Object(map) => match map.values_mut().nth(chosen) {
                Some(value) => value,
                None => return Err(arbitrary::Error::IncorrectFormat),
            },
            other => return Ok(other),
        };
    }
}

fn number(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(serde_json::from_str(u.choose(&NUMBERS)?).unwrap_or(Value::Null))
}

fn change(value: &mut Value, u: &mut Unstructured<'_>) -> Result<()> {
    match value {
        Value::Array(items) if u.ratio(3, 4)? => match u.int_in_range(0..=3)? {
            0 => items.clear(),
            1 => items.truncate(1),
            2 => {
                if let Some(first) = items.first().cloned() {
                    let times = *u.choose(&[1usize, 2, 40])?;
                    items.extend(std::iter::repeat_n(first, times));
                }
            }
            _ => items.reverse(),
        },
        Value::Object(map) if u.ratio(3, 4)? => {
            if let Some(key) = map.keys().nth(u.choose_index(map.len().max(1))?).cloned() {
                let gone = map.remove(&key).unwrap_or(Value::Null);
                if u.arbitrary()? {
                    map.insert((*u.choose(&TEXTS)?).to_owned(), gone);
                }
            }
        }
        _ => {
            *value = match u.int_in_range(0..=9)? {
                0 => Value::Null,
                1 => Value::Bool(u.arbitrary()?),
                2..=5 => number(u)?,
                6 => Value::from(u.arbitrary::<i16>()?),
                7 => Value::from(*u.choose(&TEXTS)?),
                8 => Value::Array(vec![number(u)?; u.int_in_range(0..=3)?]),
                _ => Value::Object(Map::new()),
            }
        }
    }
    Ok(())
}
