//! Selecting categories by family, kind or both, as a command line names them.

use std::collections::BTreeSet;

use super::category::Category;
use crate::{Error, ErrorKind, Result};

/// A set of categories that a user named: a family (`comm`), a kind
/// (`all_reduce`) or both (`comm/all_reduce`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryFilter {
    text: String,
    categories: BTreeSet<Category>,
}

impl CategoryFilter {
    /// Resolves `text` against the categories that exist.
    ///
    /// A word without a slash names the family of that name; where there is
    /// none, the kind of that name in every family that has it.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] when nothing has that name; the hint lists the
    /// nearest names.
    pub fn parse(text: &str, known: &BTreeSet<Category>) -> Result<Self> {
        let wanted = text.trim();
        let select = |test: &dyn Fn(&Category) -> bool| -> BTreeSet<Category> {
            known.iter().filter(|category| test(category)).cloned().collect()
        };
        let mut categories = select(&|c| c.as_str() == wanted);
        if categories.is_empty() {
            categories = select(&|c| c.family() == wanted);
        }
        if categories.is_empty() {
            categories = select(&|c| c.kind() == wanted);
        }
        if categories.is_empty() {
            return Err(Error::new(ErrorKind::Argument, format!("no category `{wanted}`"))
                .with_hint(suggestion(wanted, known)));
        }
        Ok(Self { text: wanted.to_owned(), categories })
    }

    /// Whether the category was named.
    pub fn matches(&self, category: &Category) -> bool {
        self.categories.contains(category)
    }

    /// The categories that were named, in order.
    pub fn categories(&self) -> impl Iterator<Item = &Category> {
        self.categories.iter()
    }

    /// The text that was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Up to five names near the one given, else all the families.
fn suggestion(wanted: &str, known: &BTreeSet<Category>) -> String {
    let names: BTreeSet<&str> =
        known.iter().flat_map(|c| [c.as_str(), c.family(), c.kind()]).collect();
    let limit = (wanted.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|name| {
            let inside = wanted.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
            let distance = if inside { 1 } else { distance(wanted, name) };
            (distance <= limit).then_some((distance, *name))
        })
        .collect();
    near.sort_unstable();
    if near.is_empty() {
        let families: BTreeSet<&str> = known.iter().map(Category::family).collect();
        return format!("families: {}", families.into_iter().collect::<Vec<_>>().join(", "));
    }
    let near: Vec<String> = near.iter().take(5).map(|(_, name)| format!("`{name}`")).collect();
    format!("did you mean {}?", near.join(", "))
}

/// Levenshtein distance of two short words.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeSet<Category> {
        ["comm/all_reduce", "comm/all_gather", "moe/quant", "quant/dequant", "attention/combine"]
            .iter()
            .chain(&["moe/combine"])
            .filter_map(|text| Category::new(text))
            .chain(Category::FIXED)
            .collect()
    }

    fn selected(text: &str) -> Vec<String> {
        let filter = CategoryFilter::parse(text, &known()).expect(text);
        filter.categories().map(ToString::to_string).collect()
    }

    #[test]
    fn family_kind_or_both() {
        assert_eq!(selected("comm"), ["comm/all_gather", "comm/all_reduce"]);
        assert_eq!(selected("all_reduce"), ["comm/all_reduce"]);
        assert_eq!(selected("comm/all_reduce"), ["comm/all_reduce"]);
        assert_eq!(selected("combine"), ["attention/combine", "moe/combine"]);
        assert_eq!(selected("unclassified"), ["unclassified"]);
        // The family wins over kinds of the same name.
        assert_eq!(selected("quant"), ["quant/dequant"]);
    }

    #[test]
    fn unknown_names_list_near_ones() {
        let error = CategoryFilter::parse("allreduce", &known()).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.hint().is_some_and(|hint| hint.contains("`all_reduce`")), "{error:?}");
        let error = CategoryFilter::parse("zzzzzz", &known()).expect_err("unknown");
        assert!(error.hint().is_some_and(|hint| hint.contains("families: attention, comm")));
        assert!(CategoryFilter::parse("", &known()).is_err());
    }
}
