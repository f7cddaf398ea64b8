//! Where slices go that overlap: on one track slices can follow each other or lie within each
//! other, and whatever else a viewer drops or cuts.

/// The lanes of a track. Slices come in order of start.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    nested: bool,
}

#[derive(Debug)]
struct Lane {
    track: u64,
    /// The ends of what is open, outermost first.
    open: Vec<u64>,
}

/// What has to be written before a slice that goes onto a lane.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The lane; one more than there were where a new one is needed.
    pub(super) lane: usize,
    /// The ends of slices that are over by then, in order.
    pub(super) ended: Vec<u64>,
}

impl Lanes {
    /// Where no slice lies within another.
    pub(super) fn flat() -> Self {
        Self::default()
    }

    /// Where slices may lie within others.
    pub(super) fn nested() -> Self {
        Self { nested: true, ..Self::default() }
    }

    /// The track of a lane.
    pub(super) fn track(&self, lane: usize) -> Option<u64> {
        self.lanes.get(lane).map(|lane| lane.track)
    }

    /// Names the track of a lane that [`Self::place`] asked for.
    pub(super) fn add(&mut self, track: u64) {
        self.lanes.push(Lane { track, open: Vec::new() });
    }

    /// The first lane that a slice fits on.
    pub(super) fn place(&self, start: u64, end: u64) -> Place {
        let fits = |lane: &Lane| match lane.open.iter().rev().find(|open| **open > start) {
            None => true,
            Some(outer) => self.nested && *outer >= end,
        };
        let lane = self.lanes.iter().position(fits).unwrap_or(self.lanes.len());
        let open = self.lanes.get(lane).map_or(&[][..], |lane| &lane.open);
        Place { lane, ended: open.iter().rev().copied().take_while(|end| *end <= start).collect() }
    }

    /// Puts a slice where [`Self::place`] said; `None` for an instant, which has no end.
    pub(super) fn put(&mut self, place: &Place, end: Option<u64>) {
        if let Some(lane) = self.lanes.get_mut(place.lane) {
            lane.open.truncate(lane.open.len() - place.ended.len());
            lane.open.extend(end);
        }
    }

    /// The tracks and ends of what is still open, in an order in which they can be written.
    pub(super) fn finish(self) -> impl Iterator<Item = (u64, u64)> {
        self.lanes.into_iter().flat_map(|lane| {
            lane.open.into_iter().rev().map(move |end| (lane.track, end)).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slices that a viewer makes of what is written: (track, start, end), and how deep each is.
    fn viewed(mut lanes: Lanes, slices: &[(u64, u64)]) -> Vec<(u64, u64, u64, usize)> {
        let mut open: Vec<Vec<u64>> = Vec::new();
        let mut seen = Vec::new();
        let mut end = |open: &mut Vec<Vec<u64>>, track: u64, time: u64| {
            let depth = open[track as usize].len();
            let start = open[track as usize].pop().unwrap();
            seen.push((track, start, time, depth - 1));
        };
        for &(start, until) in slices {
            let place = lanes.place(start, until);
            if lanes.track(place.lane).is_none() {
                lanes.add(open.len() as u64);
                open.push(Vec::new());
            }
            let track = lanes.track(place.lane).unwrap();
            for &time in &place.ended {
                end(&mut open, track, time);
            }
            lanes.put(&place, Some(until));
            open[track as usize].push(start);
        }
        for (track, time) in lanes.finish() {
            end(&mut open, track, time);
        }
        assert!(open.iter().all(Vec::is_empty));
        seen
    }

    proptest! {
        #[test]
        fn no_slice_is_lost_or_cut(
            mut slices in prop::collection::vec((0u64..50, 0u64..20), 0..40),
            nested in any::<bool>(),
        ) {
            for slice in &mut slices {
                slice.1 += slice.0;
            }
            slices.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
            let lanes = if nested { Lanes::nested() } else { Lanes::flat() };
            let seen = viewed(lanes, &slices);
            let mut found: Vec<_> = seen.iter().map(|&(_, start, end, _)| (start, end)).collect();
            found.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
            prop_assert_eq!(found, slices);
            if !nested {
                prop_assert!(seen.iter().all(|slice| slice.3 == 0));
            }
        }
    }
}
