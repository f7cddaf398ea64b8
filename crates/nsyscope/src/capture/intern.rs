//! Dense indices for values that repeat over millions of rows.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::NONE;

/// Gives each distinct key the next index, in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Interner<K> {
    map: FxHashMap<K, u32>,
    keys: Vec<K>,
    /// Indices of keys that were asked for last, by hash: rows repeat a few keys.
    recent: [u32; RECENT],
}

const RECENT: usize = 1024;

/// A key that says in a few instructions where it was met last; [`Hash`] of an array or a struct
/// takes longer than all else that is done for a row.
pub(crate) trait Key: Copy + Eq + Hash {
    /// A number that differs for most pairs of keys.
    fn mixed(&self) -> u64;
    /// Whether it is this key.
    #[inline]
    fn same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Key for i64 {
    #[inline]
    fn mixed(&self) -> u64 {
        self.cast_unsigned()
    }
}

impl Key for [i64; 3] {
    #[inline]
    fn mixed(&self) -> u64 {
        let [a, b, c] = self.map(i64::cast_unsigned);
        a ^ b.rotate_left(20) ^ c.rotate_left(40)
    }

    /// Number by number: an array is compared in larger pieces than its numbers have just been
    /// written in, which has to wait for memory.
    #[inline]
    fn same(&self, other: &Self) -> bool {
        (self[0] ^ other[0]) | (self[1] ^ other[1]) | (self[2] ^ other[2]) == 0
    }
}

impl<K> Default for Interner<K> {
    fn default() -> Self {
        Self { map: FxHashMap::default(), keys: Vec::new(), recent: [NONE; RECENT] }
    }
}

impl<K: Key> Interner<K> {
    #[inline]
    pub(crate) fn intern(&mut self, key: K) -> u32 {
        // The upper bits of a product depend on all of its factor.
        let place = (key.mixed().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % RECENT;
        let recent = self.recent[place];
        if self.keys.get(recent as usize).is_some_and(|known| known.same(&key)) {
            return recent;
        }
        let index = self.look_up(key);
        self.recent[place] = index;
        index
    }

    fn look_up(&mut self, key: K) -> u32 {
        let next = self.keys.len() as u32;
        let index = *self.map.entry(key).or_insert(next);
        if index == next {
            self.keys.push(key);
        }
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
        self.recent = [NONE; RECENT];
    }
}
