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

/// Measures; under a second on most machines.
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
    let populate = median((0..ROUNDS).filter_map(|_| populated()).collect());
    let (zero, cache) = zeroing(timer);
    let unmap = median((0..ROUNDS).filter_map(|_| unmapped()).collect());
    let (huge, huge_cold) = huge(timer);
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
        zero,
        cache,
        unmap,
    }
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

fn populated() -> Option<f64> {
    let map = mapping(WARM, Advice::NoHugePage)?;
    let began = Instant::now();
    map.advise(Advice::PopulateWrite).ok()?;
    Some(since(began) / (WARM / PAGE) as f64)
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

/// First stores to pages of 2 MiB, warm and cold, if the kernel gives any.
fn huge(timer: f64) -> (Option<Times>, Option<Times>) {
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
        (system::huge_here() > before).then(|| times.into_iter().skip(skip).collect::<Vec<f64>>())
    };
    let cold = first(4, COLD);
    let warm: Vec<f64> = (0..ROUNDS * 2).filter_map(|_| first(0, WARM)).flatten().collect();
    ((!warm.is_empty()).then(|| Times::of(warm)), cold.map(Times::of))
}
