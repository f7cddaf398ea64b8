//! Grids that leave multiprocessors idle: fewer blocks than there are, or a last wave that fills
//! few of them.

use crate::analysis::SHORT_KERNEL_NS;
use crate::findings::facts::{Facts, PhaseFacts};
use crate::findings::finding::{Figure, Finding};
use crate::findings::work::GridFacts;
use crate::format;
use crate::text;

/// What could be gained has to be this part of a step.
const LEAST: f64 = 0.03;

/// A kernel that executes an operation which reaches this part of its floor does not need more
/// multiprocessors.
const NEAR: f64 = 0.7;

/// Kernels whose grid has fewer blocks than the GPU has multiprocessors.
pub(super) fn few_blocks(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let lost = |grid: &GridFacts| 1.0 - (grid.blocks as f64 / f64::from(grid.sms)).min(1.0);
    for (phase, found) in each(facts, lost) {
        let (grid, _) = found.most;
        out.push(
            Finding::of_phase(
                "kernels.few_blocks",
                phase,
                found.gain,
                format!(
                    "kernels fill few multiprocessors: {} runs {} blocks on {}",
                    text::truncate(&format::kernel(&grid.kernel), 40),
                    format::count(grid.blocks),
                    grid.sms,
                ),
            )
            .try_this(
                "Spread these kernels over more blocks (split-K, smaller tiles), or run them beside \
                 others (a second stream). The gain assumes that they speed up with the \
                 multiprocessors they use; what a full memory bus or a serial part sets stays.",
            )
            .because("kernel", Figure::Text(text::truncate(&format::kernel(&grid.kernel), 60)))
            .because("category", Figure::Text(grid.category.clone()))
            .because("blocks", Figure::Count(grid.blocks))
            .because("multiprocessors", Figure::Count(u64::from(grid.sms)))
            .because("grids", Figure::Count(found.grids))
            .because("kernels_ns", Figure::Ns(found.time))
            .because("kernels_share", Figure::Share(phase.part(found.time))),
        );
    }
}

/// Kernels whose blocks do not fill the last of few waves.
pub(super) fn last_wave(facts: &Facts<'_>, out: &mut Vec<Finding>) {
    let lost = |grid: &GridFacts| {
        let waves = waves(grid).filter(|waves| *waves > 1.0);
        waves.map_or(0.0, |waves| 1.0 - waves / waves.ceil())
    };
    for (phase, found) in each(facts, lost) {
        let (grid, _) = found.most;
        let waves = waves(grid).unwrap_or_default();
        out.push(
            Finding::of_phase(
                "kernels.last_wave",
                phase,
                found.gain,
                format!(
                    "last waves are not full: {} runs {} blocks in {waves:.2} waves",
                    text::truncate(&format::kernel(&grid.kernel), 40),
                    format::count(grid.blocks),
                ),
            )
            .try_this(
                "Choose tiles whose blocks fill the last wave, or a persistent or stream-K kernel. \
                 The gain assumes that all blocks take the same time and that as many run at once as \
                 registers, shared memory and warps allow.",
            )
            .because("kernel", Figure::Text(text::truncate(&format::kernel(&grid.kernel), 60)))
            .because("category", Figure::Text(grid.category.clone()))
            .because("blocks", Figure::Count(grid.blocks))
            .because("multiprocessors", Figure::Count(u64::from(grid.sms)))
            .and("blocks_per_sm", grid.blocks_per_sm.map(|n| Figure::Count(u64::from(n))))
            .because("waves", Figure::Number(waves))
            .because("grids", Figure::Count(found.grids))
            .because("kernels_ns", Figure::Ns(found.time))
            .because("kernels_share", Figure::Share(phase.part(found.time))),
        );
    }
}

/// How often the multiprocessors are filled, at least; `None` where what fits on one is unknown.
fn waves(grid: &GridFacts) -> Option<f64> {
    let at_once = u64::from(grid.sms) * u64::from(grid.blocks_per_sm?);
    (at_once > 0).then(|| grid.blocks as f64 / at_once as f64)
}

struct Found<'a> {
    /// The grid that loses most, and what it loses in ns.
    most: (&'a GridFacts, f64),
    gain: i64,
    /// The wall time of all of them in a typical step.
    time: i64,
    grids: u64,
}

/// The phases that lose enough, with what they lose.
fn each<'a, 'f>(
    facts: &'a Facts<'f>,
    lost: impl Fn(&GridFacts) -> f64 + 'a,
) -> impl Iterator<Item = (&'a PhaseFacts<'f>, Found<'a>)> {
    facts.phases.iter().filter(|phase| !phase.warms_up()).filter_map(move |phase| {
        let (mut gain, mut time, mut grids) = (0.0, 0.0, 0);
        let mut most: Option<(&GridFacts, f64)> = None;
        for grid in phase.grids.iter().filter(|grid| counts(phase, grid)) {
            let part = lost(grid);
            if part <= 0.0 {
                continue;
            }
            let exposed = phase.exposed_of(&grid.category, grid.busy_ns);
            // No grid makes an operation faster than its floor.
            let part = part.min(headroom(phase, grid).unwrap_or(1.0));
            gain += exposed * part;
            time += exposed;
            grids += 1;
            if most.is_none_or(|(_, ns)| exposed * part > ns) {
                most = Some((grid, exposed * part));
            }
        }
        let (gain, time) = (gain.round() as i64, time.round() as i64);
        let most = most.filter(|_| phase.part(gain) >= LEAST)?;
        Some((phase, Found { most, gain, time, grids }))
    })
}

/// Whether more blocks could help: not where kernels are too short for it, wait for other ranks, or
/// are near their floor.
fn counts(phase: &PhaseFacts<'_>, grid: &GridFacts) -> bool {
    let long = grid.busy_ns >= SHORT_KERNEL_NS * grid.calls as i64;
    let products = ["gemm/", "attention/", "linear_attention/", "moe/moe_gemm"];
    let product = products.iter().any(|start| grid.category.starts_with(start));
    let near = phase.ops.iter().any(|op| {
        op.kernel.as_ref() == Some(&grid.kernel) && op.efficiency.is_some_and(|e| e >= NEAR)
    });
    long && !near && product
}

/// The part of a kernel's time that is beyond the floors of the operations it executes; `None`
/// where none is known.
fn headroom(phase: &PhaseFacts<'_>, grid: &GridFacts) -> Option<f64> {
    let (mut time, mut beyond) = (0, 0);
    for op in phase.ops.iter().filter(|op| op.kernel.as_ref() == Some(&grid.kernel)) {
        time += op.per_step_ns;
        beyond += op.headroom_ns()?;
    }
    (time > 0).then(|| beyond as f64 / time as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;

    /// 2 of the 4 ms of GEMMs in a step of 10 ms are kernels of this grid.
    fn found(blocks: u64, blocks_per_sm: Option<u32>, calls: u64, near: bool) -> Vec<Finding> {
        with_floor(blocks, blocks_per_sm, calls, near.then_some(0.9))
    }

    /// The same, where the kernel's operation reaches a part of its floor.
    fn with_floor(
        blocks: u64,
        blocks_per_sm: Option<u32>,
        calls: u64,
        reached: Option<f64>,
    ) -> Vec<Finding> {
        let mut phase = samples::phase(10_000_000);
        phase.categories.push(samples::category("gemm/dense_gemm", 4_000_000));
        phase.grids.push(GridFacts {
            kernel: "gemm_kernel".into(),
            category: "gemm/dense_gemm".into(),
            blocks,
            sms: 132,
            blocks_per_sm,
            calls,
            busy_ns: 20 * 2_000_000,
        });
        if let Some(reached) = reached {
            let mut op = samples::product("attn.o_proj", 2_000_000, reached);
            op.kernel = Some("gemm_kernel".into());
            phase.ops.push(op);
        }
        let facts = samples::facts(vec![phase]);
        let mut out = Vec::new();
        few_blocks(&facts, &mut out);
        last_wave(&facts, &mut out);
        out
    }

    #[test]
    fn fewer_blocks_than_multiprocessors_lose_the_rest() {
        let out = found(33, None, 200, false);
        let [few] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((few.id, few.gain_ns_per_step), ("kernels.few_blocks", Some(1_500_000)));
        assert!(found(132, None, 200, false).is_empty());
        // Too short to be worth spreading, or near the floor already.
        assert!(found(33, None, 20_000, false).is_empty());
        assert!(found(33, None, 200, true).is_empty());
    }

    #[test]
    fn fuller_grids_gain_no_more_than_the_floor_leaves() {
        let gain = |reached| with_floor(33, None, 200, reached)[0].gain_ns_per_step;
        assert_eq!(gain(Some(0.6)), Some(800_000));
        assert_eq!(gain(Some(0.1)), Some(1_500_000));
        assert_eq!(gain(None), Some(1_500_000));
    }

    #[test]
    fn a_last_wave_needs_to_know_what_fits() {
        // 1.25 waves of 264 blocks take two.
        let out = found(330, Some(2), 200, false);
        let [wave] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((wave.id, wave.gain_ns_per_step), ("kernels.last_wave", Some(750_000)));
        assert!(found(330, None, 200, false).is_empty());
        assert!(found(264, Some(2), 200, false).is_empty());
        assert!(found(528, Some(2), 200, false).is_empty());
        assert!(found(200, Some(2), 200, false).is_empty());
    }
}
