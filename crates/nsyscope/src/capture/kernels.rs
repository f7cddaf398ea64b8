//! The kernel table: by far the largest of a capture.

use super::NONE;
use super::activity::{
    ActivityColumns, ActivityTable, Extra, FIRST_EXTRA, Faults, append_translated, gather,
};
use super::intern::{Interner, Key};
use super::sink::Row;

/// Every kernel that ran, in order of start.
#[derive(Clone, Debug, Default)]
pub struct KernelTable {
    pub(crate) columns: ActivityColumns,
    pub(crate) name: Vec<u32>,
    pub(crate) geometry: Vec<u32>,
    /// As long as the last row that is of a node needs: without CUDA graphs it takes no memory.
    pub(crate) node: Vec<u32>,
}

impl std::ops::Deref for KernelTable {
    type Target = ActivityColumns;
    fn deref(&self) -> &ActivityColumns {
        &self.columns
    }
}

impl KernelTable {
    /// The index of each kernel's name in [`super::Trace::kernel_names`].
    pub fn name(&self) -> &[u32] {
        &self.name
    }

    /// The index of each kernel's launch geometry in [`super::Trace::geometries`].
    pub fn geometry(&self) -> &[u32] {
        &self.geometry
    }

    /// The CUDA graph node that the kernel of a row is an execution of (an index into
    /// [`super::Trace::graph_nodes`]); [`NONE`] for kernels launched on their own.
    #[inline]
    pub fn node(&self, row: usize) -> u32 {
        self.node.get(row).copied().unwrap_or(NONE)
    }
}

impl ActivityTable for KernelTable {
    fn columns(&self) -> &ActivityColumns {
        &self.columns
    }
    fn columns_mut(&mut self) -> &mut ActivityColumns {
        &mut self.columns
    }
    fn gather_own(&mut self, rows: &[u32]) {
        if !self.node.is_empty() {
            self.node.resize(self.name.len(), NONE);
        }
        gather(&mut self.name, rows);
        gather(&mut self.geometry, rows);
        gather(&mut self.node, rows);
    }
}

/// How a kernel was launched; interned, since a capture holds few distinct ones.
///
/// Block sizes, registers and shared memory are in the export too; each column of the largest
/// table costs a twentieth of the whole read, and no analysis asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Geometry {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
}

impl Geometry {
    /// Blocks in the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
    }
}

impl Key for Geometry {
    #[inline]
    fn mixed(&self) -> u64 {
        let [x, y, z] = self.grid.map(u64::from);
        x ^ y.rotate_left(24) ^ z.rotate_left(48)
    }
}

/// The ids of a kernel's demangled, short and mangled names in `StringIds`; -1 where absent.
pub(crate) type NameKey = [i64; 3];

/// The kernel table's own columns while it is read.
#[derive(Default)]
pub(crate) struct KernelExtra {
    pub(crate) name: Vec<u32>,
    pub(crate) geometry: Vec<u32>,
    /// As that of [`KernelTable`].
    pub(crate) node: Vec<u32>,
    pub(crate) names: Interner<NameKey>,
    pub(crate) geometries: Interner<Geometry>,
    pub(crate) nodes: Interner<i64>,
}

impl Extra for KernelExtra {
    const COLUMNS: &'static [&'static str] =
        &["demangledName", "shortName", "mangledName", "graphNodeId", "gridX", "gridY", "gridZ"];

    fn push(&mut self, row: &impl Row, faults: &mut Faults) -> bool {
        let mut id = |i: usize| faults.int_or(row.cell(FIRST_EXTRA + i), -1);
        let key = [id(0), id(1), id(2)];
        let node = id(3);
        // A size that is negative or larger than 32 bits is no size; 0 says unknown.
        let mut size = |i: usize| u32::try_from(id(i)).unwrap_or(0);
        let geometry = Geometry { grid: [size(4), size(5), size(6)] };
        // Neither NULL nor 0 names a node.
        if node > 0 {
            self.node.resize(self.name.len(), NONE);
            self.node.push(self.nodes.intern(node));
        }
        self.name.push(self.names.intern(key));
        self.geometry.push(self.geometries.intern(geometry));
        true
    }

    fn take(&mut self, chunk: &mut Self, later: usize) {
        let names = self.names.absorb(&mut chunk.names);
        let geometries = self.geometries.absorb(&mut chunk.geometries);
        let nodes = self.nodes.absorb(&mut chunk.nodes);
        if !chunk.node.is_empty() {
            self.node.resize(self.name.len(), NONE);
            append_translated(&mut self.node, &mut chunk.node, &nodes, later);
        }
        append_translated(&mut self.name, &mut chunk.name, &names, later);
        append_translated(&mut self.geometry, &mut chunk.geometry, &geometries, later);
    }
}

/// A kernel's names as the capture has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelName {
    /// With template arguments; what rules match on. Falls back to the short name.
    pub demangled: Box<str>,
    /// The base name alone; several kernels may share it.
    pub short: Box<str>,
    /// As the compiler wrote it; not every version of nsys exports it.
    pub mangled: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::sink::Cell;

    /// A kernel of this node, 0 for none.
    struct OfNode(i64);

    impl Row for OfNode {
        fn cell(&self, index: usize) -> Cell {
            Cell::Int(if index == FIRST_EXTRA + 3 { self.0 } else { 1 })
        }

        fn text(&self, _: usize) -> Option<&[u8]> {
            None
        }
    }

    #[test]
    fn kernels_keep_their_nodes_wherever_the_first_of_them_is() {
        let chunks: [&[i64]; 5] = [&[0, 0, 0], &[0, 7, 0], &[0], &[9, 7], &[0, 0]];
        let mut whole = KernelExtra::default();
        for nodes in chunks {
            let mut chunk = KernelExtra::default();
            for &node in nodes {
                assert!(chunk.push(&OfNode(node), &mut Faults::default()));
            }
            whole.take(&mut chunk, 0);
        }
        let KernelExtra { name, geometry, node, nodes, .. } = whole;
        let mut table = KernelTable { columns: ActivityColumns::default(), name, geometry, node };
        let raw = |table: &KernelTable, row: usize| {
            nodes.keys().get(table.node(row) as usize).copied().unwrap_or(0)
        };
        let all = chunks.concat();
        assert_eq!((0..all.len()).map(|row| raw(&table, row)).collect::<Vec<_>>(), all);
        // The last rows, which have none, are no longer the last.
        table.gather_own(&[10, 7, 4, 9, 8]);
        assert_eq!((0..5).map(|row| raw(&table, row)).collect::<Vec<_>>(), [0, 9, 7, 0, 7]);
        assert_eq!(table.name.len(), 5);
    }

    #[test]
    fn without_graphs_nodes_take_no_memory() {
        let (mut whole, mut chunk) = (KernelExtra::default(), KernelExtra::default());
        assert!(chunk.push(&OfNode(0), &mut Faults::default()));
        whole.take(&mut chunk, 0);
        assert_eq!((whole.name.len(), whole.node.capacity()), (1, 0));
    }
}
