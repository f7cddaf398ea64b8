//! Dense indices for values that repeat over millions of rows.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Gives each distinct key the next index, in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Interner<K> {
    map: FxHashMap<K, u32>,
    keys: Vec<K>,
    /// Neighbouring rows often repeat a key.
    last: Option<(K, u32)>,
}

impl<K> Default for Interner<K> {
    fn default() -> Self {
        Self { map: FxHashMap::default(), keys: Vec::new(), last: None }
    }
}

impl<K: Copy + Eq + Hash> Interner<K> {
    pub(crate) fn intern(&mut self, key: K) -> u32 {
        if let Some((last, index)) = self.last
            && last == key
        {
            return index;
        }
        let next = self.keys.len() as u32;
        let index = *self.map.entry(key).or_insert(next);
        if index == next {
            self.keys.push(key);
        }
        self.last = Some((key, index));
        index
    }

    pub(crate) fn keys(&self) -> &[K] {
        &self.keys
    }

    pub(crate) fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// Takes the keys of another, which is left empty; returns its indices translated to this one's.
    pub(crate) fn absorb(&mut self, other: &mut Interner<K>) -> Vec<u32> {
        let map = other.keys.iter().map(|&key| self.intern(key)).collect();
        other.clear();
        map
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.map.clear();
        self.keys.clear();
        self.last = None;
    }
}
