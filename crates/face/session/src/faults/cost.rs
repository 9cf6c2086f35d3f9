//! What faults cost here, measured: pages are mapped, touched once and given back.

use std::hint::black_box;
use std::time::Instant;

use ::faults::cost::{Costs, Times};
use memmap2::{Advice, MmapMut};

use super::system;

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
/// Bytes that are mapped again and again, so that the kernel gives the same pages out.
const WARM: usize = 8 << 20;
/// Bytes of which the kernel has to go deep into its free memory.
const COLD: usize = 96 << 20;
const ROUNDS: usize = 4;

/// Measures; about a second on most machines.
pub(super) fn measure() -> Costs {
    let timer = median((0..2000).map(|_| since(Instant::now())).collect());
    let small = |bytes| mapping(bytes, Advice::NoHugePage);
    let repeated = |each: &dyn Fn() -> Vec<f64>| {
        let all: Vec<f64> = (0..ROUNDS).flat_map(|_| each()).map(|time| (time - timer).max(0.0)).collect();
        Times::of(all)
    };
    // The first round takes whatever pages there are.
    drop(small(WARM).map(|mut map| touch(&mut map, PAGE)));
    let write = repeated(&|| small(WARM).map(|mut map| touch(&mut map, PAGE)).unwrap_or_default());
    let read = repeated(&|| small(WARM).map(|map| load(&map, PAGE)).unwrap_or_default());
    let copy = repeated(&|| {
        small(WARM).map_or_else(Vec::new, |mut map| {
            load(&map, PAGE);
            touch(&mut map, PAGE)
        })
    });
    let cold = small(COLD).map(|mut map| touch(&mut map, PAGE)).unwrap_or_default();
    let cold = cold.into_iter().skip(2 * WARM / PAGE).map(|time| (time - timer).max(0.0));
    let (populate, again): (Vec<_>, Vec<_>) = (0..ROUNDS).filter_map(|_| populated()).unzip();
    let (populate, again) = (median(populate.concat()), median(again.concat()));
    let (zero, cache) = zeroing(timer);
    let unmap = median((0..ROUNDS).filter_map(|_| unmapped()).collect());
    let (huge, huge_cold, unmap_huge) = huge(timer);
    let several = system::processors() > 1;
    let beside = Beside::measure(several, timer);
    Costs {
        trap: (write.mean - zero).max(0.0),
        write,
        write_cold: Times::of(cold.collect()),
        read,
        copy,
        file: repeated(&|| file().unwrap_or_default()),
        huge,
        huge_cold,
        populate: (populate > 0.0).then_some(populate),
        populate_again: again,
        zero,
        cache,
        cache_after: cache_after(),
        other: beside.other,
        upgrade_beside: beside.upgrade,
        chase: beside.chase,
        wake: beside.wake,
        unmap,
        unmap_huge,
        // Where faults can't be reported, reports take no time.
        reports: capture::time_reports(WARM / PAGE / 2, 2 * ROUNDS + 1).unwrap_or_default(),
    }
}

/// What a thread of the same process costs, and can do.
#[derive(Default)]
struct Beside {
    other: f64,
    upgrade: Option<f64>,
    chase: Option<(f64, f64)>,
    wake: (f64, f64),
}

impl Beside {
    fn measure(several: bool, timer: f64) -> Beside {
        if !several {
            return Beside::default();
        }
        let pages = WARM / PAGE;
        let uses = |elsewhere| {
            median(
                (0..ROUNDS).filter_map(|_| capture::time_populated_use(pages / 4, elsewhere).ok()).collect(),
            )
        };
        let upgrade = Times::of(capture::time_upgrades_beside(pages / 2).unwrap_or_default());
        let chases: Vec<_> = (0..=2 * ROUNDS).filter_map(|_| capture::time_chase(pages).ok()).collect();
        let of = |value: fn(&capture::Chase) -> f64| median(chases.iter().map(value).collect());
        let (caller, runs) = capture::time_wakes(20).into_iter().unzip();
        Beside {
            other: (uses(true) - uses(false)).max(0.0),
            upgrade: (upgrade.count > 0).then_some((upgrade.mean - timer).max(0.0)),
            chase: (!chases.is_empty()).then(|| (of(|chase| chase.program), of(|chase| chase.thread))),
            wake: (median(caller), median(runs)),
        }
    }
}

/// By how much the first use of a page's lines takes longer than behind its own zeroing, by the bytes
/// populated at once.
fn cache_after() -> Vec<(u64, f64)> {
    const SIZES: [usize; 4] = [256 << 10, 1 << 20, 4 << 20, 32 << 20];
    let each = |bytes: usize| {
        let rounds = if bytes < WARM { 2 * ROUNDS } else { 1 };
        let times = (0..rounds).filter_map(|_| capture::time_populated_use(bytes / PAGE, false).ok());
        median(times.collect())
    };
    let own = each(64 << 10);
    SIZES.iter().map(|&bytes| (bytes as u64, (each(bytes) - own).max(0.0))).collect()
}

fn since(began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64
}

fn median(times: Vec<f64>) -> f64 {
    Times::of(times).median
}

fn mapping(bytes: usize, advice: Advice) -> Option<MmapMut> {
    let map = MmapMut::map_anon(bytes).ok()?;
    // Kernels without huge pages refuse the advice.
    map.advise(advice).ok();
    Some(map)
}

/// Nanoseconds of a store every `step` bytes.
fn touch(map: &mut MmapMut, step: usize) -> Vec<f64> {
    let len = map.len();
    let each = |at: usize| {
        let began = Instant::now();
        black_box(&mut map[..])[at] = 1;
        since(began)
    };
    (0..len).step_by(step).map(each).collect()
}

/// Nanoseconds of a load every `step` bytes.
fn load(map: &MmapMut, step: usize) -> Vec<f64> {
    let each = |at: usize| {
        let began = Instant::now();
        black_box(black_box(&map[..])[at]);
        since(began)
    };
    (0..map.len()).step_by(step).map(each).collect()
}

/// Bytes that are populated at a time: the median of such pieces leaves out when other processes ran.
const PIECE: usize = 256 << 10;

/// Per page of each piece: populating, and doing it again.
fn populated() -> Option<(Vec<f64>, Vec<f64>)> {
    let map = mapping(WARM, Advice::NoHugePage)?;
    let piece = |at: usize| {
        let began = Instant::now();
        map.advise_range(Advice::PopulateWrite, at, PIECE).ok()?;
        Some(since(began) / (PIECE / PAGE) as f64)
    };
    let all = || (0..WARM).step_by(PIECE).map(piece).collect::<Option<Vec<f64>>>();
    Some((all()?, all()?))
}

fn unmapped() -> Option<f64> {
    let mut map = mapping(WARM, Advice::NoHugePage)?;
    touch(&mut map, PAGE);
    let began = Instant::now();
    drop(map);
    Some(since(began) / (WARM / PAGE) as f64)
}

/// Zeroing of a page that is in no cache, and what the first use of all lines of a page costs more if it is not there
/// since a moment ago.
fn zeroing(timer: f64) -> (f64, f64) {
    let (Some(mut map), Some(mut fresh)) =
        (mapping(COLD / 2, Advice::NoHugePage), mapping(WARM, Advice::NoHugePage))
    else {
        return (0.0, 0.0);
    };
    touch(&mut map, PAGE);
    let lines = |page: &mut [u8]| {
        let began = Instant::now();
        page.iter_mut().step_by(64).for_each(|byte| *byte = 1);
        black_box(page);
        since(began) - timer
    };
    let old: Vec<f64> = map[..COLD / 8].chunks_mut(PAGE).map(lines).collect();
    let fresh: Vec<f64> = fresh
        .chunks_mut(PAGE)
        .map(|page| {
            black_box(&mut *page)[0] = 1;
            lines(page)
        })
        .collect();
    let zero = map[COLD / 8..].chunks_mut(PAGE).map(|page| {
        let began = Instant::now();
        black_box(page).fill(0);
        since(began) - timer
    });
    let zero = median(zero.collect());
    (zero.max(0.0), (median(old) - median(fresh)).max(0.0))
}

fn file() -> Option<Vec<f64>> {
    let file = tempfile::tempfile().ok()?;
    std::io::Write::write_all(&mut &file, &vec![1; WARM / 2]).ok()?;
    capture::time_mapped(&file, 64 << 10).ok()
}

/// First stores to pages of 2 MiB, warm and cold, if the kernel gives any; and giving one back.
fn huge(timer: f64) -> (Option<Times>, Option<Times>, f64) {
    let before = system::huge_here();
    let first = |skip: usize, bytes: usize| {
        let mut map = mapping(bytes + HUGE, Advice::HugePage)?;
        let to = map.as_ptr().align_offset(HUGE);
        let times: Vec<f64> = (to..to + bytes)
            .step_by(HUGE)
            .map(|at| {
                let began = Instant::now();
                black_box(&mut map[..])[at] = 1;
                since(began) - timer
            })
            .collect();
        let given = system::huge_here() > before;
        let began = Instant::now();
        drop(map);
        let unmap = since(began) * HUGE as f64 / bytes as f64;
        given.then(|| (times.into_iter().skip(skip).collect::<Vec<f64>>(), unmap))
    };
    let cold = first(4, COLD);
    let (warm, unmap): (Vec<_>, Vec<_>) = (0..ROUNDS * 2).filter_map(|_| first(0, WARM)).unzip();
    let warm = warm.concat();
    ((!warm.is_empty()).then(|| Times::of(warm)), cold.map(|(times, _)| Times::of(times)), median(unmap))
}
