//! Interning of names into `StringIds`.

use std::collections::HashMap;

use crate::ids::Name;

/// The strings of a capture, numbered from 0 in order of first use.
#[derive(Clone, Default)]
pub(super) struct Strings {
    ids: HashMap<String, i64>,
    in_order: Vec<String>,
}

impl Strings {
    /// The id of `text`, new or known.
    pub(super) fn intern(&mut self, text: &str) -> i64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.in_order.len() as i64;
        self.ids.insert(text.to_owned(), id);
        self.in_order.push(text.to_owned());
        id
    }

    /// What to store for `name`; `None` is NULL.
    pub(super) fn resolve(&mut self, name: &Name) -> Option<i64> {
        match name {
            Name::Text(text) => Some(self.intern(text)),
            Name::Id(id) => Some(*id),
            Name::Null => None,
        }
    }

    /// The strings, with their position as id.
    pub(super) fn in_order(self) -> Vec<String> {
        self.in_order
    }
}
