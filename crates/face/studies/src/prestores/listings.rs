//! Pre-stores: what cleaning, demoting or skipping the cache does to listings 2, 3 and 4 of the thesis.

use event::{Event, FenceKind, FlushKind};
use report::{Axis, Unit};

use super::{After, MACHINE_A};
use crate::pattern::{self, Draw, LINE, Pattern, demote, flush, load, store, store_nt};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Results B-R1 to B-R5.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Prestores,
        id: "B-R1",
        claim: "Cleaning elements after writing them (listing 2) makes no difference with 1 thread, 2.2 times with 2, 3 times with 5",
        expected: "1x, 2.2x, up to 3x",
        tolerance: "30 %: the curves by element size are lost and the largest is quoted; 1 thread within 20 % of 1",
        method: "listing 2 on cascade-lake with four DIMMs and prefetcher, elements of 256 B to 4 KiB, time without over time with clwb, the largest",
        calibration: "",
        note: "That evicted lines need no credit, how flushes of one core follow each other, the machine's four DIMMs and its prefetcher were changed after this row was looked at, which had matched before (docs/calibration.md)",
        means: Means::Model(cleaning),
        lacks: "The model amplifies writes as much with one thread as with many (B-R2), so that one thread already is held up by the four DIMMs, and cleaning gains where it should make no difference; all the more since the prefetcher lets it ask for more at a time (2.45 times before)",
    },
    Row {
        source: Source::Prestores,
        id: "B-R2",
        claim: "Without pre-stores the media write 1.8 times what caches evict with 1 thread, 3.3 times with 2 or more; with clean, no more",
        expected: "1.8, 3.3, 1.0",
        tolerance: "20 %: the order of evictions depends on an unpublished policy; with clean at most 1.1",
        method: "listing 2 on cascade-lake with four DIMMs and prefetcher, elements of 1 KiB, bytes on media over bytes from the controller, 1, 2 and 5 threads",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(amplification),
        lacks: "The last-level cache of the model replaces lines at random, so that hardly two lines of a unit leave it together already with one thread; the published 1.8 wants a policy that lets one thread's lines out more nearly in order. With the slices that were measured of this processor and the least recently used line (`--set llc.slices=20 --set llc.replacement=\"lru\"`) one thread has 1.98 and five have 2.43, but then xpoint-15 is missed (docs/calibration.md)",
    },
    Row {
        source: Source::Prestores,
        id: "B-R3",
        claim: "Skipping the cache is 2 times slower than cleaning for small elements that are read again, and the right choice \
                where they are not",
        expected: "2x; not slower",
        tolerance: "30 %; without reading again at most 5 % slower",
        method: "listing 2 on cascade-lake with four DIMMs and prefetcher, elements of 256 B, 1 thread, ntstore against clwb, with and without the last line",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(skipping),
        lacks: "What was skipped is read again from the DIMM's own buffer, which takes less time than the source saw, and the last element's line overlaps with the next element's stores",
    },
    Row {
        source: Source::Prestores,
        id: "B-R4",
        claim: "Demoting before a fence (listing 3) is up to 65 % faster: nothing without reads in between, nothing with very many, \
                a hump in between that lies further right on the slower memory",
        expected: "0; up to 0.65; towards 0; peak on enzian-fast before the peak on enzian-slow",
        tolerance: "ends below 0.1 and half of the peak; height 0.45 to 0.85: clocks and core are only sketched in the source",
        method: "listing 3 on enzian-fast and enzian-slow, 0 to 16384 loads from L1 before the fence; time without over with demote, less 1",
        calibration: "",
        note: "whose cycles the machine's latencies are in, its core, the range of reads, which longer latencies needed, and that a turn takes 72 instructions besides the reads, where it took none, were changed after this row was looked at (docs/calibration.md)",
        means: Means::Model(demoting),
        lacks: "The gain is higher than published: in the model all of the demotion overlaps with the loads. The real core's write buffer also empties itself after a time, of which only the register's name is published; what it sends on by itself need not be demoted",
    },
    Row {
        source: Source::Prestores,
        id: "B-R5",
        claim: "Cleaning one line that is written over and over (listing 4) is 75 times slower",
        expected: "75x",
        tolerance: "within a factor of 2: it is the ratio of memory's to cache's write time, of which the source says no more; \
                    shape: at least 10x",
        method: "listing 4 on cascade-lake with four DIMMs and prefetcher, time with over time without clwb",
        calibration: "",
        note: "",
        means: Means::Model(misuse),
        lacks: "",
    },
];

/// Bytes of the array: a hundred times the caches.
const ARRAY: u64 = 4 << 30;
/// Bytes that all threads write before and while time is taken: each is more than the caches hold.
const WRITTEN: u64 = 48 << 20;

/// Listing 2.
fn listing_2(
    lab: &Lab,
    element: u64,
    threads: u32,
    after: After,
    again: bool,
) -> Result<pattern::Run, StudyError> {
    let key = [element, u64::from(threads), after as u64, u64::from(again)];
    lab.pattern("listing 2", &key, MACHINE_A, || {
        let share = WRITTEN / element / u64::from(threads);
        let thread = |thread: u32| {
            let mut draw = Draw::new(u64::from(thread));
            let source = pattern::VOLATILE + u64::from(thread) * (1 << 20);
            let step = move |events: &mut Vec<Event>| {
                let at = pattern::PERSISTENT + draw.below(ARRAY / element) * element;
                write_element(events, source, at, element, after);
                if again {
                    events.push(load(at, 8));
                }
            };
            Pattern::new(share, step).warm(share)
        };
        (0..threads).map(thread).collect()
    })
}

fn write_element(events: &mut Vec<Event>, source: u64, at: u64, element: u64, after: After) {
    for line in (0..element / LINE).map(|line| line * LINE) {
        events.push(load(source + line, LINE));
        events.push(if after == After::Skip { store_nt(at + line, LINE) } else { store(at + line, LINE) });
    }
    if after == After::Clean {
        events.extend((0..element / LINE).map(|line| flush(at + line * LINE, FlushKind::Clwb)));
    }
}

fn cleaning(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut curves = Vec::new();
    let mut largest = Vec::new();
    for threads in [1, 2, 5] {
        let gain = Series::measure(&[64u32, 256, 1024, 4096], |element| -> Result<f64, StudyError> {
            let plain = listing_2(lab, element.into(), threads, After::Nothing, true)?;
            let clean = listing_2(lab, element.into(), threads, After::Clean, true)?;
            Ok(plain.ns_per_iteration / clean.ns_per_iteration)
        })?;
        curves.push(crate::curve(&report::human::plural(threads as usize, "thread"), &gain));
        largest.push(gain.part(256.0, 4096.0).max());
    }
    let checks = vec![
        Check::at_most("gain with 1 thread", 1.35, largest[0]),
        Check::at_least("2 threads over 1", 1.2, largest[1] / largest[0]),
        Check::at_least("5 threads over 2", 1.1, largest[2] / largest[1]),
        Check::near("gain with 1 thread", 1.0, 0.20, largest[0]),
        Check::near("gain with 2 threads", 2.2, 0.30, largest[1]),
        Check::near("gain with 5 threads", 3.0, 0.30, largest[2]),
    ];
    let (x, y) = (Axis::log("element", Unit::Bytes), Axis::linear("time without over with clean"));
    Ok(Evidence { checks, charts: vec![crate::chart("Listing 2: what cleaning gains", x, y, curves)] })
}

fn amplification(lab: &Lab) -> Result<Evidence, StudyError> {
    let amplification = |threads, after| -> Result<f64, StudyError> {
        let run = listing_2(lab, 1024, threads, after, true)?;
        Ok(run.traffic.ewr().map_or(f64::NAN, |ewr| 1.0 / ewr))
    };
    let (one, two, five) = (
        amplification(1, After::Nothing)?,
        amplification(2, After::Nothing)?,
        amplification(5, After::Nothing)?,
    );
    let clean = [1, 2, 5].into_iter().map(|threads| amplification(threads, After::Clean));
    let clean = clean.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(0.0, f64::max);
    Ok(Evidence::of(vec![
        Check::at_least("2 threads over 1, without", 1.2, two / one),
        Check::at_most("highest with clean", 1.1, clean),
        Check::near("1 thread, without", 1.8, 0.20, one),
        Check::near("2 threads, without", 3.3, 0.20, two),
        Check::near("5 threads, without", 3.3, 0.20, five),
    ]))
}

fn skipping(lab: &Lab) -> Result<Evidence, StudyError> {
    let ratio = |again| -> Result<f64, StudyError> {
        let skip = listing_2(lab, 256, 1, After::Skip, again)?;
        let clean = listing_2(lab, 256, 1, After::Clean, again)?;
        Ok(skip.ns_per_iteration / clean.ns_per_iteration)
    };
    let (again, never) = (ratio(true)?, ratio(false)?);
    Ok(Evidence::of(vec![
        Check::at_least("skip over clean, read again", 1.3, again),
        Check::at_most("skip over clean, not read again", 1.05, never),
        Check::near("skip over clean, read again", 2.0, 0.30, again),
    ]))
}

/// Reads between write and fence.
const READS: [u32; 13] = [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
/// Instructions of a turn without the reads, the stores among them: `rand`, the division and `memset` (gcc
/// -O2, callgrind).
const TURN: u32 = 72;
/// Instructions of a store, and stores of a line of 128 B.
const PER_STORE: u32 = 2;
const STORES: u32 = 8;

/// Listing 3: what demoting gains, by number of reads.
fn gain_of_demoting(lab: &Lab, machine: &'static str) -> Result<Series, StudyError> {
    let time = |reads: u32, early: bool| -> Result<f64, StudyError> {
        let run = lab.pattern("listing 3", &[reads.into(), early.into()], machine, || {
            let mut draw = Draw::new(3);
            let step = move |events: &mut Vec<Event>| {
                let at = pattern::PERSISTENT + draw.below(ARRAY / 128) * 128;
                events.push(pattern::after(TURN - STORES * PER_STORE, store(at, 16)));
                events.extend((1..u64::from(STORES)).map(|part| store(at + part * 16, 16)));
                if early {
                    events.extend([demote(at), demote(at + LINE)]);
                }
                events.extend((0..u64::from(reads)).map(|read| load(pattern::VOLATILE + read % 512 * 8, 8)));
                events.push(pattern::fence(FenceKind::Full));
            };
            vec![Pattern::new(1000, step).warm(100)]
        })?;
        Ok(run.ns_per_iteration)
    };
    Series::measure(&READS, |reads| Ok(time(reads, false)? / time(reads, true)? - 1.0))
}

fn demoting(lab: &Lab) -> Result<Evidence, StudyError> {
    let (fast, slow) = (gain_of_demoting(lab, "enzian-fast")?, gain_of_demoting(lab, "enzian-slow")?);
    let mut checks = Vec::new();
    for (series, name) in [(&fast, "enzian-fast"), (&slow, "enzian-slow")] {
        checks.extend([
            Check::at_most(&format!("{name}: gain without reads"), 0.1, series.at(0.0)),
            Check::at_least(&format!("{name}: largest gain"), 0.15, series.max()),
            Check::at_most(
                &format!("{name}: gain with 16384 reads over the largest"),
                0.5,
                series.at(16384.0) / series.max(),
            ),
        ]);
    }
    checks.push(Check::at_least("reads at the peak, slow over fast", 1.5, slow.peak() / fast.peak()));
    checks.push(Check::within("largest gain of both", 0.45, 0.85, fast.max().max(slow.max())));
    let curves = vec![crate::curve("enzian-fast", &fast), crate::curve("enzian-slow", &slow)];
    let (x, y) = (Axis::log("loads from L1 before the fence", Unit::Number), Axis::linear("gain"));
    Ok(Evidence { checks, charts: vec![crate::chart("Listing 3: what demoting gains", x, y, curves)] })
}

fn misuse(lab: &Lab) -> Result<Evidence, StudyError> {
    let time = |clean: bool| -> Result<f64, StudyError> {
        let run = lab.pattern("listing 4", &[clean.into()], MACHINE_A, || {
            let step = move |events: &mut Vec<Event>| {
                events.push(store(pattern::PERSISTENT, LINE));
                if clean {
                    events.push(flush(pattern::PERSISTENT, FlushKind::Clwb));
                }
            };
            vec![Pattern::new(50_000, step).warm(5_000)]
        })?;
        Ok(run.ns_per_iteration)
    };
    let slowdown = time(true)? / time(false)?;
    Ok(Evidence::of(vec![
        Check::at_least("slowdown", 10.0, slowdown),
        Check::within("slowdown", 37.5, 150.0, slowdown),
    ]))
}
