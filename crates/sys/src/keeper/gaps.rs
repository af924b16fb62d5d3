//! The gaps of an output file: what is missing, from where to where, and why.

use core::ffi::CStr;

use crate::form::record::{Gap, Record};

/// Which file's gaps are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// `output`.
    Output,
    /// `stdout` or `stderr` (0 or 1) of a split task.
    Stream(usize),
}

impl Of {
    /// The name of the file.
    pub(super) fn name(self) -> &'static CStr {
        match self {
            Self::Output => c"output",
            Self::Stream(0) => c"stdout",
            Self::Stream(_) => c"stderr",
        }
    }
}

/// Adds a gap, or makes the last one longer if it ends where this one starts, or if there is no room for more.
pub(super) fn add(record: &mut Record, of: Of, gap: Gap) {
    if gap.from >= gap.to {
        return;
    }
    let (gaps, count) = slots(record, of);
    let last = count.checked_sub(1);
    if let Some(last) = last.and_then(|at| gaps.get_mut(at))
        && last.to == gap.from
        && last.why == gap.why
    {
        last.to = gap.to;
    } else if let Some(place) = gaps.get_mut(count) {
        *place = gap;
        if of == Of::Output {
            record.gaps_count += 1;
        }
    } else if let Some(last) = gaps.last_mut() {
        // Merging names bytes as missing that are there; the other way round would be a lie.
        last.to = gap.to;
    }
}

/// Makes this range one gap and forgets the gaps inside it; `false` if there is no room for it.
pub(super) fn free_middle(record: &mut Record, of: Of, freed: Gap) -> bool {
    let Gap { from, to, .. } = freed;
    let (gaps, count) = slots(record, of);
    // Nothing of it is there already.
    if gaps.iter().take(count).any(|gap| gap.from <= from && gap.to >= to) {
        return true;
    }
    let mut kept = 0;
    for at in 0..count {
        let mut gap = gaps[at];
        if gap.from >= from && gap.to <= to {
            continue;
        }
        // A gap that reaches over an end of the new one stops there, so that ranges never overlap.
        if gap.from < to && gap.to > to {
            gap.from = to;
        } else if gap.from < from && gap.to > from {
            gap.to = from;
        }
        gaps[kept] = gap;
        kept += 1;
    }
    let room = kept < gaps.len();
    if room {
        gaps[kept] = freed;
        let mut at = kept;
        while at > 0 && gaps[at - 1].from > from {
            gaps.swap(at - 1, at);
            at -= 1;
        }
        kept = join(gaps, kept + 1);
    }
    for gap in gaps.iter_mut().skip(kept) {
        *gap = Gap::default();
    }
    if of == Of::Output {
        record.gaps_count = u32::try_from(kept).unwrap_or(0);
    }
    room
}

/// Makes neighbours of the same reason one; gives how many of the first `count` are left.
fn join(gaps: &mut [Gap], count: usize) -> usize {
    let mut kept = 0;
    for at in 1..count {
        if gaps[kept].to == gaps[at].from && gaps[kept].why == gaps[at].why {
            gaps[kept].to = gaps[at].to;
        } else {
            kept += 1;
            gaps[kept] = gaps[at];
        }
    }
    count.min(kept + 1)
}

/// How many bytes of the file the gaps say are not there.
pub(super) fn total(record: &mut Record, of: Of) -> u64 {
    let (gaps, count) = slots(record, of);
    gaps.iter().take(count).map(|gap| gap.to - gap.from).sum()
}

/// Where the last gap ends; a file that ends in a gap is shorter than that.
pub(super) fn end(record: &mut Record, of: Of) -> u64 {
    let (gaps, count) = slots(record, of);
    gaps.iter().take(count).map(|gap| gap.to).max().unwrap_or(0)
}

fn slots(record: &mut Record, of: Of) -> (&mut [Gap], usize) {
    match of {
        Of::Output => {
            let count = usize::try_from(record.gaps_count).unwrap_or(0).min(record.gaps.len());
            (&mut record.gaps, count)
        }
        Of::Stream(at) => {
            let gaps = &mut record.stream_gaps[at & 1];
            let count = gaps.iter().take_while(|gap| gap.to > gap.from).count();
            (gaps, count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::record::GapWhy;

    fn gap(from: u64, to: u64, why: GapWhy) -> Gap {
        Gap { from, to, why }
    }

    #[test]
    fn neighbours_become_one_and_the_last_takes_what_has_no_room() {
        let mut record = Record::default();
        add(&mut record, Of::Output, gap(10, 20, GapWhy::NoSpace));
        add(&mut record, Of::Output, gap(20, 30, GapWhy::NoSpace));
        assert_eq!((record.gaps_count, record.gaps[0]), (1, gap(10, 30, GapWhy::NoSpace)));
        for n in 1..=9 {
            add(&mut record, Of::Output, gap(n * 100, n * 100 + 10, GapWhy::Io));
        }
        assert_eq!((record.gaps_count, record.gaps[7].from, record.gaps[7].to), (8, 700, 910));
    }

    #[test]
    fn the_freed_middle_swallows_what_lies_inside() {
        for of in [Of::Output, Of::Stream(1)] {
            let mut record = Record::default();
            add(&mut record, of, gap(30, 40, GapWhy::NoSpace));
            free_middle(&mut record, of, gap(10, 50, GapWhy::OutputLimit));
            free_middle(&mut record, of, gap(10, 80, GapWhy::OutputLimit));
            assert_eq!((total(&mut record, of), end(&mut record, of)), (70, 80));
            // A thinner head: what was freed before is inside, and what is left of it belongs to the new one.
            assert!(free_middle(&mut record, of, gap(5, 70, GapWhy::NoSpace)));
            assert_eq!((total(&mut record, of), end(&mut record, of)), (75, 80));
            assert!(free_middle(&mut record, of, gap(6, 60, GapWhy::NoSpace)), "it is free already");
            assert_eq!(total(&mut record, of), 75);
        }
    }

    #[test]
    fn a_middle_freed_bit_by_bit_is_one_gap() {
        let mut record = Record::default();
        for (from, to) in [(387_420, 391_055), (391_055, 391_439), (391_439, 391_535), (391_535, 27_905_187)] {
            assert!(free_middle(&mut record, Of::Output, gap(from, to, GapWhy::NoSpace)));
        }
        assert!(free_middle(&mut record, Of::Output, gap(10, 387_420, GapWhy::OutputLimit)));
        let gaps = (record.gaps_count, record.gaps[0], record.gaps[1]);
        let expected = (gap(10, 387_420, GapWhy::OutputLimit), gap(387_420, 27_905_187, GapWhy::NoSpace));
        assert_eq!(gaps, (2, expected.0, expected.1));
    }
}
