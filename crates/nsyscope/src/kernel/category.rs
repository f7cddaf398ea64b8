//! The class of a GPU activity, written `family/kind`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The class of a GPU activity, written `family/kind`: `comm/all_reduce`.
///
/// Cheap to clone. Ordered and hashed as its text. The one category without a
/// kind is [`Category::UNCLASSIFIED`].
#[derive(Clone)]
pub struct Category(Text);

#[derive(Clone)]
enum Text {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl Category {
    /// What no rule knows.
    pub const UNCLASSIFIED: Self = Self::fixed("unclassified");
    /// A copy from host to device.
    pub const MEMCPY_HTOD: Self = Self::fixed("memory/memcpy_htod");
    /// A copy from device to host.
    pub const MEMCPY_DTOH: Self = Self::fixed("memory/memcpy_dtoh");
    /// A copy within a device.
    pub const MEMCPY_DTOD: Self = Self::fixed("memory/memcpy_dtod");
    /// A copy between two devices.
    pub const MEMCPY_PTOP: Self = Self::fixed("memory/memcpy_ptop");
    /// A copy within the host.
    pub const MEMCPY_HTOH: Self = Self::fixed("memory/memcpy_htoh");
    /// A copy whose direction the capture does not say.
    pub const MEMCPY_UNKNOWN: Self = Self::fixed("memory/memcpy_unknown");
    /// A memory fill by the driver.
    pub const MEMSET: Self = Self::fixed("memory/memset");
    /// A CUDA graph recorded as one interval, without its nodes.
    pub const WHOLE_GRAPH: Self = Self::fixed("graph/whole");

    /// The categories that no rule gives: copies, fills, whole graphs and what
    /// is not classified.
    pub const FIXED: [Self; 9] = [
        Self::WHOLE_GRAPH,
        Self::MEMCPY_DTOD,
        Self::MEMCPY_DTOH,
        Self::MEMCPY_HTOD,
        Self::MEMCPY_HTOH,
        Self::MEMCPY_PTOP,
        Self::MEMCPY_UNKNOWN,
        Self::MEMSET,
        Self::UNCLASSIFIED,
    ];

    const fn fixed(text: &'static str) -> Self {
        Self(Text::Fixed(text))
    }

    /// Takes `family/kind`; both parts are lower case letters, digits and
    /// underscores. `None` for anything else.
    pub fn new(text: &str) -> Option<Self> {
        if let Some(known) = Self::FIXED.iter().find(|known| known.as_str() == text) {
            return Some(known.clone());
        }
        let (family, kind) = text.split_once('/')?;
        let plain = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        (plain(family) && plain(kind)).then(|| Self(Text::Shared(text.into())))
    }

    /// The whole text, `family/kind`.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Fixed(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// The part before the slash; the whole text where there is none.
    pub fn family(&self) -> &str {
        self.as_str().split_once('/').map_or(self.as_str(), |(family, _)| family)
    }

    /// The part after the slash; the whole text where there is none.
    pub fn kind(&self) -> &str {
        self.as_str().split_once('/').map_or(self.as_str(), |(_, kind)| kind)
    }

    /// Whether no rule knew the kernel.
    pub fn is_unclassified(&self) -> bool {
        self.as_str() == Self::UNCLASSIFIED.as_str()
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Category({})", self.as_str())
    }
}

impl PartialEq for Category {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Category {}

impl PartialEq<str> for Category {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Category {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Category {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Category {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Category {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Category {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for Category {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let category = Category::new("comm/all_reduce").expect("well formed");
        assert_eq!((category.family(), category.kind()), ("comm", "all_reduce"));
        assert_eq!(Category::UNCLASSIFIED.family(), "unclassified");
        assert_eq!(Category::UNCLASSIFIED.kind(), "unclassified");
    }

    #[test]
    fn malformed_is_refused() {
        for text in ["", "comm", "comm/", "/x", "a/b/c", "Comm/x", "comm/all-reduce", "a b/c"] {
            assert!(Category::new(text).is_none(), "{text:?} passed");
        }
        assert!(Category::new("unclassified").is_some_and(|c| c.is_unclassified()));
    }
}
