//! What levelling costs, and what small writes cost a device.

use measure::{Bench, Figures, Kind, Model, Op, Outcome, Pattern as Order, Task};
use report::{Axis, Unit};

use crate::pattern::{self, LINE, Pattern, fence, load, store_nt};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Results K12, K13, and a vendor's on small writes.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Kevlar,
        id: "K12",
        claim: "Shuffling costs 0.04 % of the time on average, 0.1 % at most (section 1.1 says below 0.15 %)",
        expected: "0.0004; at most 0.0015",
        tolerance: "shape: at most 0.15 %; value a factor of 2",
        method: "time of copying a page line by line on the modelled remote memory, for each page of 8 GB (the source's Aerospike: 4 M records of 2 KB) \
                 twice per exchange of two, in each 4.28 h",
        calibration: "",
        note: "The page table's locks and the shootdown of other cores' entries are not modelled",
        means: Means::Model(shuffling),
        lacks: "",
    },
    Row {
        source: Source::Kevlar,
        id: "K13",
        claim: "All of it slows programs by 1.2 % (4 years) and 3.2 % (6 years); Redis gets up to 0.9 % faster",
        expected: "0.012; 0.032; -0.009",
        tolerance: "half a point",
        method: "a program with and without management, on two sockets",
        calibration: "",
        note: "",
        means: Means::Hardware("two sockets, and a processor whose performance unit samples stores (PEBS)"),
        lacks: "",
    },
    Row {
        source: Source::Kevlar,
        id: "wear-unit",
        claim: "Random writes of 64 B age a device with units of 256 B 3.2 times faster than those of 256 B (a vendor's data sheet, not the thesis)",
        expected: "3.2: 290 PB against 90 PB",
        tolerance: "shape: above 2; value 15 %",
        method: "random ntstores of one thread on xpoint-one-dimm in 64 MiB; bytes that the media write, levelling included, by those of the program; \
                 by region as well",
        calibration: "",
        note: "The region is far larger than the XPBuffer, as a whole device is",
        means: Means::Model(small_writes),
        lacks: "Each unit holds four lines and none finds another in a large region: 4.0. At 3.2 a fifth of the writes find their unit in the buffer, as \
                they do in a region of 32 KiB, twice the XPBuffer. The data sheet does not say what bounds its petabytes: cells, or the power of five \
                years of writing",
    },
];

/// Seconds of a shuffle of all pages: four years by 8192.
const OPERATION: f64 = 4.0 * 365.25 * 86_400.0 / 8192.0;
const FOOTPRINT: f64 = 8e9;

fn shuffling(lab: &Lab) -> Result<Evidence, StudyError> {
    let run = lab.pattern("page copy", &[], "xpoint-remote", || {
        let mut page = 0;
        let step = move |events: &mut Vec<event::Event>| {
            page = (page + 7919) % (1 << 16);
            let (from, to) =
                (pattern::PERSISTENT + page * 4096, pattern::PERSISTENT + (1 << 34) + page * 4096);
            for line in (0..4096).step_by(LINE as usize) {
                events.extend([load(from + line, LINE), store_nt(to + line, LINE)]);
            }
            events.push(fence(event::FenceKind::Store));
        };
        vec![Pattern::new(2000, step).warm(200)]
    })?;
    // Two pages and their temporary: three copies for two pages.
    let share = FOOTPRINT / 4096.0 * 1.5 * run.ns_per_iteration * 1e-9 / OPERATION;
    Ok(Evidence::of(vec![
        Check::at_most("share of the time", 0.0015, share),
        Check::within("share of the time", 0.0002, 0.0008, share),
    ]))
}

/// Bytes that the media write for a byte of random writes in a region.
fn amplification(lab: &Lab, bytes: u64, region: u64) -> Result<f64, StudyError> {
    let task = Task {
        kind: Kind::Bandwidth,
        op: Op::Ntstore,
        pattern: Order::Random,
        access_size: bytes,
        region,
        ..Task::default()
    };
    let machine = "xpoint-one-dimm";
    match Model::new(&lab.config(machine, None)?).with_events(1 << 17).measure(&task)? {
        Outcome::Done(figures) => {
            let Figures { ewr, .. } = *figures;
            Ok(1.0 / ewr.unwrap_or(f64::NAN))
        }
        Outcome::Skipped(reason) => Err(StudyError::Skipped { machine: machine.to_owned(), reason }),
    }
}

/// How much more random writes of 64 B wear the modelled device than those of 256 B, in a region.
pub(super) fn ageing(lab: &Lab, region: u64) -> Result<f64, StudyError> {
    Ok(amplification(lab, 64, region)? / amplification(lab, 256, region)?)
}

const REGIONS: [u32; 7] = [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20, 1 << 26];

fn small_writes(lab: &Lab) -> Result<Evidence, StudyError> {
    let by_region = Series::measure(&REGIONS, |region| ageing(lab, u64::from(region)))?;
    let whole = by_region.at(f64::from(REGIONS[6]));
    let checks = vec![
        Check::at_least("64 B over 256 B", 2.0, whole),
        Check::near("64 B over 256 B", 3.2, 0.15, whole),
    ];
    let chart = crate::chart(
        "Wear by random writes of 64 B over 256 B",
        Axis::log("region", Unit::Bytes),
        Axis::linear("times"),
        vec![crate::curve("xpoint-one-dimm", &by_region)],
    );
    Ok(Evidence { checks, charts: vec![chart] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_random_writes_age_the_device_by_its_units() {
        let lab = Lab::default();
        let (whole, buffered) = (ageing(&lab, 1 << 26).unwrap(), ageing(&lab, 1 << 14).unwrap());
        assert!((3.9..4.1).contains(&whole), "{whole}");
        assert!((2.0..3.2).contains(&buffered), "the buffer joins what is written to few units: {buffered}");
        let twice = ageing(&lab, 1 << 15).unwrap();
        assert!((3.1..3.3).contains(&twice), "the published ratio, in twice the buffer: {twice}");
    }
}
