//! Remedies for the faults of a site, and what each would gain by the costs of the machine.

use serde::Serialize;

use crate::attribute::{Kinds, Site};
use crate::cost::Costs;

/// What may save faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// `MADV_POPULATE_WRITE` behind the allocation.
    Populate,
    /// `MADV_HUGEPAGE` behind the allocation.
    Huge,
    /// A thread that populates the allocation's pages ahead of the program.
    Prefault,
    /// The allocator keeps freed memory: no `mmap` for large blocks, nothing given back.
    Keep,
}

impl Remedy {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Remedy::Populate => "populate",
            Remedy::Huge => "huge",
            Remedy::Prefault => "prefault",
            Remedy::Keep => "keep",
        }
    }

    /// What to write in the program.
    #[must_use]
    pub fn how(self) -> &'static str {
        match self {
            Remedy::Populate => "madvise(memory, bytes, MADV_POPULATE_WRITE) behind the allocation",
            Remedy::Huge => {
                "madvise(memory, bytes, MADV_HUGEPAGE) behind the allocation; what realloc enlarges, from the start of its \
                 first page to its last page's end (malloc_usable_size), or realloc copies it instead of moving it"
            }
            Remedy::Prefault => "a thread that calls madvise(memory, 256 KiB, MADV_POPULATE_WRITE) ahead",
            Remedy::Keep => {
                "mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, INT_MAX), or reuse the memory instead of freeing it"
            }
        }
    }
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The remedy.
    pub remedy: Remedy,
    /// Nanoseconds that it gains; negative if it costs.
    pub gain: f64,
    /// Why it is advised against, if it is.
    pub against: Option<String>,
}

/// When the system gives pages of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Unasked.
    Always,
    /// Where a program asks (`MADV_HUGEPAGE`).
    Asked,
    /// Never: so it is set, or the kernel has none.
    Never,
    /// Not to this process, though the system's setting permits it.
    Refused,
}

/// What is known of the machine besides costs.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Pages of 2 MiB.
    pub huge: HugePages,
    /// Processors.
    pub processors: usize,
}

/// Nanoseconds that faults take.
#[must_use]
pub fn cost(kinds: &Kinds, costs: &Costs) -> f64 {
    let huge = costs.huge.as_ref().map_or(costs.zero * 512.0, |times| times.mean);
    kinds.read as f64 * costs.read.mean
        + (kinds.write + kinds.unknown) as f64 * costs.write.mean
        + (kinds.copy + kinds.upgrade) as f64 * costs.copy.mean
        + kinds.file as f64 * costs.file.mean
        + kinds.huge as f64 * huge
}

/// Share of a block's pages below which populating all of them is not advised, whatever it costs: memory would be filled
/// that nobody uses.
const SPARSE: f64 = 0.5;

/// Share of a site's faults that are stores behind loads above which what a thread gains is not foretold.
const LOADED_FIRST: f64 = 0.25;

/// At most so many nanoseconds of `modelled` ones can be a program's faults that was in kernel mode for
/// `kernel`, of its `whole` processor time, if the kernel looks every `tick` in which mode it is: what it
/// says may be two standard deviations too little.
#[must_use]
pub fn bounded(modelled: f64, kernel: f64, whole: f64, tick: f64) -> f64 {
    let kernel = kernel.max(0.0);
    modelled.min((kernel + 2.0 * (kernel * tick).sqrt() + 2.0 * tick).min(whole.max(0.0)))
}

/// Remedies for a site of large blocks; `heap` if it allocates by `malloc`. None gains more than the site's
/// faults take.
#[must_use]
pub fn predict(site: &Site, heap: bool, costs: &Costs, machine: Machine) -> Vec<Predicted> {
    let mut all = each(site, heap, costs, machine);
    let most = cost(&Kinds { copy: 0, file: 0, ..site.kinds }, costs);
    all.iter_mut().for_each(|one| one.gain = one.gain.min(most));
    all
}

fn each(site: &Site, heap: bool, costs: &Costs, machine: Machine) -> Vec<Predicted> {
    let mut all = Vec::new();
    // Copies of what is shared with a child or a file are none of a first use, and stay.
    let first = Kinds { copy: 0, file: 0, ..site.kinds };
    let now = cost(&first, costs);
    let faults = first.total();
    let used = (site.stores() + first.read + first.huge * 512) as f64;
    let density = site.density();
    let sparse = (density < SPARSE).then(|| {
        format!(
            "only {:.1} % of the new pages are used: populating would fill the others for nothing",
            100.0 * density
        )
    });
    if costs.populate.is_some() {
        let gain = now - populating(site, costs, machine) - used * costs.cache_after(block_bytes(site));
        let against = sparse.clone().or_else(|| loses(gain));
        all.push(Predicted { remedy: Remedy::Populate, gain, against });
        let gain = site.ahead.gain;
        let against = if machine.processors < 2 {
            Some("there is one processor".to_owned())
        } else if first.upgrade as f64 > LOADED_FIRST * faults as f64 {
            Some(
                "not foretold: pages are loaded from before they are stored to, and the kernel then interrupts the processor of \
                 the thread at each such store"
                    .to_owned(),
            )
        } else {
            sparse.clone().or_else(|| loses(gain))
        };
        all.push(Predicted { remedy: Remedy::Prefault, gain, against });
    }
    all.extend(huge(site, now / faults.max(1) as f64, costs, machine));
    // What lives at a time is used once more, at most; the allocator may have kept some by itself.
    // Blocks begin and end within pages, which are none of their whole ones.
    let at_once = site.peak_pages as f64 * site.blocks as f64 / site.pages.max(1) as f64;
    let again = used - used.min(site.peak_pages as f64 + 2.0 * at_once);
    if heap && again > 0.0 {
        let gain = again / used * (now + used * costs.unmap);
        all.push(Predicted { remedy: Remedy::Keep, gain, against: loses(gain) });
    }
    all
}

/// Bytes of a block that are new, on average.
fn block_bytes(site: &Site) -> u64 {
    4096 * site.fresh() / site.blocks.max(1)
}

/// Populating all blocks: pages that are there are looked at, and pages that nobody uses have to be given
/// back.
fn populating(site: &Site, costs: &Costs, machine: Machine) -> f64 {
    let small = costs.populate.unwrap_or(costs.write.mean);
    let pages = site.fresh() as f64;
    let whole = match (&costs.huge, machine.huge) {
        (Some(_), HugePages::Always) => (512.0 * site.chunks as f64).min(pages),
        _ => 0.0,
    };
    let huge = costs.huge.as_ref().map_or(0.0, |times| times.mean / 512.0);
    let unused = pages * (1.0 - site.density()).max(0.0);
    (pages - whole) * small
        + whole * huge
        + site.resident as f64 * costs.populate_again
        + unused * costs.unmap
}

/// Pages of 2 MiB in place of faults that take `each`.
fn huge(site: &Site, each: f64, costs: &Costs, machine: Machine) -> Option<Predicted> {
    if site.chunks == 0 {
        return None;
    }
    let said =
        |gain: f64, against: String| Some(Predicted { remedy: Remedy::Huge, gain, against: Some(against) });
    if machine.huge == HugePages::Refused {
        let why = "not possible here: the setting permits huge pages, but the kernel gives this process none (prctl \
                   PR_SET_THP_DISABLE, or no free 2 MiB)";
        return said(0.0, why.to_owned());
    }
    let (Some(huge), true) = (&costs.huge, machine.huge != HugePages::Never) else {
        let remedy = "not possible here: the system gives no huge pages (as root: echo madvise > \
                      /sys/kernel/mm/transparent_hugepage/enabled)";
        return said(0.0, remedy.to_owned());
    };
    if machine.huge == HugePages::Always && 2 * site.kinds.huge >= site.chunks_touched {
        return said(0.0, "pages are huge already: the system gives them unasked".to_owned());
    }
    let (faults, touched) = (site.chunk_faults as f64, site.chunks_touched as f64);
    // What lies in a cache after the zeroing of 2 MiB differs little from what lies there after that of 4
    // KiB. The page of zeros is not given back.
    let stored = (site.stores() + site.kinds.upgrade) as f64 / site.kinds.total().max(1) as f64;
    let gain = faults * (each + stored * costs.unmap) - touched * (huge.mean + costs.unmap_huge);
    let fresh = site.fresh() as f64 / site.pages.max(1) as f64;
    // A page that is loaded from before it is stored to has two faults.
    let pages = faults * (1.0 - site.kinds.upgrade as f64 / site.kinds.total().max(1) as f64);
    let filled = pages / (512.0 * touched.max(1.0) * fresh.max(0.01));
    let sparse =
        (filled < SPARSE / 4.0).then(|| format!("only {:.1} % of each 2 MiB is used", 100.0 * filled));
    Some(Predicted { remedy: Remedy::Huge, gain, against: sparse.or_else(|| loses(gain)) })
}

fn loses(gain: f64) -> Option<String> {
    (gain <= 0.0).then(|| "it costs more than it saves".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Times;

    fn costs() -> Costs {
        let times = |mean| Times { mean, ..Times::default() };
        Costs {
            write: times(1000.0),
            read: times(500.0),
            huge: Some(times(100_000.0)),
            populate: Some(400.0),
            unmap: 100.0,
            ..Costs::default()
        }
    }

    const MACHINE: Machine = Machine { huge: HugePages::Asked, processors: 2 };

    fn site(write: u64, pages: u64) -> Site {
        let kinds = Kinds { write, ..Kinds::default() };
        let chunks = pages / 512;
        Site {
            kinds,
            pages,
            peak_pages: pages,
            blocks: 1,
            chunks,
            chunks_touched: chunks.min(write),
            chunk_faults: write,
            ..Site::default()
        }
    }

    fn of(site: &Site, remedy: Remedy) -> Predicted {
        let all = predict(site, true, &costs(), MACHINE);
        all.into_iter().find(|one| one.remedy == remedy).expect("a prediction")
    }

    #[test]
    fn dense_arrays_are_populated() {
        let populate = of(&site(10_240, 10_240), Remedy::Populate);
        assert_eq!((populate.gain, populate.against), (10_240.0 * 600.0, None));
        assert!(of(&site(10_240, 10_240), Remedy::Huge).gain > 8e6);
    }

    #[test]
    fn sparse_arrays_are_not() {
        let sparse = site(100, 51_200);
        let populate = of(&sparse, Remedy::Populate);
        assert!(populate.gain < 0.0 && populate.against.is_some_and(|why| why.contains("only 0.2 %")));
        let huge = of(&sparse, Remedy::Huge);
        assert!(huge.gain < 0.0 && huge.against.is_some());
        assert!(of(&sparse, Remedy::Prefault).against.is_some());
    }

    #[test]
    fn memory_that_is_used_again_is_populated_once() {
        let again = Site { blocks: 10, pages: 10_240, resident: 9216, ..site(1024, 1024) };
        let populate = of(&again, Remedy::Populate);
        assert_eq!((populate.gain, populate.against), (1024.0 * 600.0, None));
    }

    #[test]
    fn memory_is_kept_where_it_is_allocated_again() {
        let again = Site { blocks: 10, peak_pages: 1024, ..site(10_240, 10_240) };
        let keep = of(&again, Remedy::Keep);
        assert!((keep.gain - 0.9 * 10_240.0 * 1100.0).abs() < 3000.0);
        // Giving back is saved, too, but not more in all than the faults take.
        let often = Site { blocks: 100, peak_pages: 100, ..site(10_240, 10_240) };
        assert_eq!(of(&often, Remedy::Keep).gain, 10_240.0 * 1000.0);
        // A page that is loaded from first has two faults, and is used once.
        let kinds = Kinds { read: 1024, upgrade: 1024, ..Kinds::default() };
        let twice = Site { kinds, ..site(0, 1024) };
        assert!(predict(&twice, true, &costs(), MACHINE).iter().all(|one| one.remedy != Remedy::Keep));
        let once = site(10_240, 10_240);
        assert!(predict(&once, true, &costs(), MACHINE).iter().all(|one| one.remedy != Remedy::Keep));
        assert!(predict(&again, false, &costs(), MACHINE).iter().all(|one| one.remedy != Remedy::Keep));
    }

    /// Whatever a site is, and whatever the machine's costs are.
    #[test]
    fn no_gain_exceeds_what_faults_take() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        for _ in 0..2000 {
            let mut time = |most| next(most) as f64;
            let times = |mean| Times { mean, ..Times::default() };
            let costs = Costs {
                write: times(time(3000)),
                read: times(time(900)),
                copy: times(time(3000)),
                huge: Some(times(time(200_000))),
                populate: Some(time(900)),
                unmap: time(3000),
                unmap_huge: time(3000),
                ..Costs::default()
            };
            let kinds = Kinds {
                read: next(5000),
                write: next(5000),
                upgrade: next(5000),
                huge: next(9),
                ..Kinds::default()
            };
            let pages = 1 + next(9000);
            let site = Site {
                kinds,
                peak_pages: 1 + next(pages),
                chunks: 1 + next(20),
                chunks_touched: next(20),
                chunk_faults: next(9000),
                ahead: crate::ahead::Ahead { gain: next(50_000_000) as f64, forestalled: 0 },
                ..site(0, pages)
            };
            for machine in [MACHINE, Machine { huge: HugePages::Always, processors: 2 }] {
                for one in predict(&site, true, &costs, machine) {
                    assert!(one.gain <= cost(&kinds, &costs), "{one:?} {site:?}");
                }
            }
        }
    }

    #[test]
    fn faults_take_no_more_than_the_kernel_does() {
        assert_eq!(bounded(5e6, 1e9, 2e9, 4e6), 5e6);
        assert!((1e9..1.2e9).contains(&bounded(5e9, 1e9, 2e9, 4e6)));
        assert_eq!(bounded(5e9, 1.99e9, 2e9, 4e6), 2e9);
        assert_eq!(bounded(5e9, 0.0, 2e9, 4e6), 8e6, "what the kernel did not see may be two ticks");
        let costs = costs().scaled(0.5);
        assert_eq!(
            (costs.write.mean, costs.populate, costs.huge.map(|times| times.mean)),
            (500.0, Some(200.0), Some(50_000.0))
        );
    }

    /// A thread beside a program that loads first makes it wait for interrupts: nobody is advised to start one.
    #[test]
    fn a_thread_is_not_advised_where_loads_come_first() {
        let kinds = Kinds { read: 10_240, upgrade: 10_240, ..Kinds::default() };
        let ahead = crate::ahead::Ahead { gain: 5e6, forestalled: 9000 };
        let loads = Site { kinds, ahead, ..site(0, 10_240) };
        let why = of(&loads, Remedy::Prefault).against.expect("it is said");
        assert!(why.contains("not foretold"), "{why}");
        assert_eq!(of(&Site { ahead, ..site(10_240, 10_240) }, Remedy::Prefault).against, None);
    }

    #[test]
    fn huge_pages_need_a_system_that_gives_them() {
        for costs in [costs(), Costs { huge: None, ..costs() }] {
            let none = Machine { huge: HugePages::Never, processors: 1 };
            let all = predict(&site(10_240, 10_240), true, &costs, none);
            let against =
                |remedy| all.iter().find(|one| one.remedy == remedy).and_then(|one| one.against.clone());
            let why = against(Remedy::Huge).expect("it is said");
            assert!(why.contains("echo madvise") && why.contains("transparent_hugepage"), "{why}");
            assert!(against(Remedy::Prefault).is_some_and(|why| why.contains("one processor")));
        }
    }

    #[test]
    fn pages_that_are_huge_already_are_left() {
        let kinds = Kinds { huge: 20, write: 30, ..Kinds::default() };
        let always = Machine { huge: HugePages::Always, processors: 2 };
        let already = Site { kinds, chunk_faults: 20, chunks_touched: 20, ..site(0, 10_240) };
        let all = predict(&already, true, &costs(), always);
        let huge = all.iter().find(|one| one.remedy == Remedy::Huge).expect("a prediction");
        assert!(huge.gain == 0.0 && huge.against.as_ref().is_some_and(|why| why.contains("already")));
        // Populating takes as long as the faults, and the array is not sparse.
        let populate = all.iter().find(|one| one.remedy == Remedy::Populate).expect("a prediction");
        assert!(populate.gain.abs() < 40_000.0, "{populate:?}");
        assert_eq!(already.density(), (20.0 * 512.0 + 30.0) / 10_240.0);
        // Where the system would give them and there are none, asking for them may help.
        let small = predict(&site(10_240, 10_240), true, &costs(), always);
        let huge = small.iter().find(|one| one.remedy == Remedy::Huge).expect("a prediction");
        assert_eq!(huge.against, None);
    }

    #[test]
    fn pages_that_are_loaded_before_they_are_stored_to_count_once() {
        let kinds = Kinds { read: 19_400, upgrade: 19_400, ..Kinds::default() };
        let loaded =
            Site { kinds, chunk_faults: 38_800, chunks: 512, chunks_touched: 512, ..site(0, 262_144) };
        let all = predict(&loaded, false, &Costs { huge: Some(Times::default()), ..costs() }, MACHINE);
        let huge = all.iter().find(|one| one.remedy == Remedy::Huge).expect("a prediction");
        assert!(
            huge.gain > 0.0 && huge.against.as_ref().is_some_and(|why| why.contains("only 7.4 %")),
            "{huge:?}"
        );
    }

    #[test]
    fn populating_what_is_there_takes_time() {
        let costs = Costs { populate_again: 300.0, ..costs() };
        let again = Site { blocks: 40, pages: 40 * 2048, resident: 39 * 2048, ..site(2048, 2048) };
        let all = predict(&again, true, &costs, MACHINE);
        let populate = all.iter().find(|one| one.remedy == Remedy::Populate).expect("a prediction");
        assert_eq!(populate.gain, 2048.0 * 600.0 - 39.0 * 2048.0 * 300.0);
        assert!(populate.against.is_some());
    }
}
