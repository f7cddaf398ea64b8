//! What a block of a kernel needs of a multiprocessor.
//!
//! These columns would cost a twentieth of the whole read each. One row of every distinct name and
//! grid is enough, so that these alone are looked up, by row id.

use std::collections::BTreeMap;

use super::kernels::KernelTable;
use super::open::Capture;
use super::schema::{Table, quote};
use super::trace::KERNEL;
use crate::parallel::Threads;

/// What one block takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Threads.
    pub threads: u32,
    /// 32-bit registers of each thread.
    pub registers: u32,
    /// Static and dynamic shared memory in bytes.
    pub shared_bytes: u32,
}

/// What a multiprocessor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// Blocks at a time.
    pub blocks: u32,
    /// Warps at a time.
    pub warps: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Shared memory in bytes.
    pub shared_bytes: u32,
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Registers are handed out to warps in pieces of so many.
const REGISTER_UNIT: u32 = 256;
/// Warps come and go in groups of so many where registers are shared out.
const WARP_UNIT: u32 = 4;
/// Shared memory is handed out in pieces of so many bytes.
const SHARED_UNIT: u32 = 128;
/// What the system takes of each block's shared memory, in bytes (compute capability 8 and later).
const SHARED_RESERVED: u32 = 1024;

impl BlockShape {
    /// How many blocks fit on a multiprocessor at once, at most; `None` where a block is empty or
    /// larger than a multiprocessor, so that a figure is wrong.
    ///
    /// As NVIDIA's occupancy calculator has it: the least of what warps, registers (256 a piece,
    /// warps by fours) and shared memory (128 bytes a piece, 1 KiB of each block the system's)
    /// allow.
    pub fn blocks_per_sm(&self, limits: &SmLimits) -> Option<u32> {
        let warps = self.threads.div_ceil(WARP);
        if warps == 0 {
            return None;
        }
        let mut blocks = limits.blocks.min(limits.warps / warps);
        if self.registers > 0 {
            let each = (self.registers.saturating_mul(WARP)).next_multiple_of(REGISTER_UNIT);
            let fit = limits.registers / each / WARP_UNIT * WARP_UNIT;
            blocks = blocks.min(fit / warps);
        }
        let shared = self.shared_bytes.saturating_add(SHARED_RESERVED);
        blocks = blocks.min(limits.shared_bytes / shared.next_multiple_of(SHARED_UNIT));
        (blocks > 0).then_some(blocks)
    }
}

/// Shapes by kernel name and geometry.
pub(crate) type BlockShapes = BTreeMap<(u32, u32), BlockShape>;

/// More distinct names and grids are not looked up.
const MOST: usize = 4096;

/// A table that lost more rows than this to unreadable times is not looked up by row.
const MOST_LOST: i64 = 1024;

/// Looks up one row of each distinct name and grid. `kernels` must be in the order of the file.
///
/// What cannot be found (a view, row ids with holes, columns that are missing) is left out: no
/// figure but occupancy depends on it.
pub(super) fn read(capture: &Capture, kernels: &KernelTable, geometries: usize) -> BlockShapes {
    let mut out = BlockShapes::new();
    let wanted = first_rows(kernels, geometries, capture.source().reading());
    let (Some(table), false) = (capture.schema().table(KERNEL), wanted.is_empty()) else {
        return out;
    };
    // An error leaves shapes unknown, as a missing column does.
    let _ = look_up(capture, table, kernels, &wanted, &mut out);
    out
}

/// The first row of each distinct name and geometry; nothing where there are too many.
fn first_rows(kernels: &KernelTable, geometries: usize, threads: Threads) -> Vec<usize> {
    let names = kernels.name.iter().max().map_or(0, |&most| most as usize + 1);
    let pairs = names.saturating_mul(geometries);
    // A map of bits; captures have some thousand pairs.
    if pairs == 0 || pairs > 1 << 26 {
        return Vec::new();
    }
    let pair =
        |row: usize| kernels.name[row] as usize * geometries + kernels.geometry[row] as usize;
    // The first of the parts that the threads look at, then the first of those.
    let first = |rows: &mut dyn Iterator<Item = usize>| {
        let mut seen = vec![0u64; pairs.div_ceil(64)];
        let mut out = Vec::new();
        for row in rows {
            let pair = pair(row);
            let bit = 1 << (pair % 64);
            if seen[pair / 64] & bit == 0 {
                seen[pair / 64] |= bit;
                out.push(row);
                if out.len() > MOST {
                    break;
                }
            }
        }
        out
    };
    let parts = threads.ranges(kernels.len(), |mut rows| first(&mut rows));
    let out = first(&mut parts.into_iter().flatten());
    if out.len() > MOST { Vec::new() } else { out }
}

fn look_up(
    capture: &Capture,
    table: &Table,
    kernels: &KernelTable,
    wanted: &[usize],
    out: &mut BlockShapes,
) -> rusqlite::Result<()> {
    let columns = ["blockX", "blockY", "blockZ", "registersPerThread", "dynamicSharedMemory"];
    if !table.has_rowid || columns.iter().any(|column| !table.has(column)) {
        return Ok(());
    }
    let name = quote(&table.name);
    let connection = capture.connection();
    let end = |which: &str| -> rusqlite::Result<Option<i64>> {
        connection.query_row(&format!("SELECT {which}(rowid) FROM {name}"), [], |row| row.get(0))
    };
    let (Some(first), Some(last)) = (end("min")?, end("max")?) else { return Ok(()) };
    let rows = kernels.columns.len() as i64;
    // Rows that were set apart while reading shift those behind them.
    let lost = last.saturating_sub(first) + 1 - rows;
    if !(0..=MOST_LOST).contains(&lost) {
        return Ok(());
    }
    let sql = format!(
        "SELECT blockX * blockY * blockZ, registersPerThread, {} + dynamicSharedMemory FROM {name} \
         WHERE rowid BETWEEN ?1 AND ?2 AND start = ?3 AND \"end\" = ?4 LIMIT 1",
        if table.has("staticSharedMemory") { "staticSharedMemory" } else { "0" },
    );
    let mut statement = connection.prepare(&sql)?;
    for &row in wanted {
        let at = first + row as i64;
        let (start, end) = (kernels.columns.start[row], kernels.columns.end[row]);
        let mut found = statement.query((at, at + lost, start, end))?;
        let Some(found) = found.next()? else { continue };
        let size = |i: usize| -> Option<u32> {
            found.get::<_, Option<i64>>(i).ok().flatten().and_then(|n| u32::try_from(n).ok())
        };
        if let (Some(threads), Some(registers), Some(shared_bytes)) = (size(0), size(1), size(2)) {
            let key = (kernels.name[row], kernels.geometry[row]);
            out.insert(key, BlockShape { threads, registers, shared_bytes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compute capability 9.0.
    const H100: SmLimits =
        SmLimits { blocks: 32, warps: 64, registers: 65_536, shared_bytes: 233_472 };

    #[test]
    fn occupancy_is_the_least_of_three_limits() {
        let of = |threads, registers, shared_bytes| {
            BlockShape { threads, registers, shared_bytes }.blocks_per_sm(&H100)
        };
        // By warps: 64 of 8 a block; small blocks by their number.
        assert_eq!(of(256, 32, 0), Some(8));
        assert_eq!(of(32, 16, 0), Some(32));
        // By registers: 128 x 32 a warp, 16 warps.
        assert_eq!(of(128, 128, 0), Some(4));
        // 168 x 32 is 5,376 a warp: 12 warps.
        assert_eq!(of(384, 168, 0), Some(1));
        // By shared memory: 100 KiB and 1 KiB of the system's, twice in 228 KiB.
        assert_eq!(of(128, 32, 102_400), Some(2));
        assert_eq!(of(0, 32, 0), None);
        assert_eq!(of(128, 32, 300_000), None);
    }
}
