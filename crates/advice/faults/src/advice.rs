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
            Remedy::Huge => "madvise(memory, bytes, MADV_HUGEPAGE) behind the allocation",
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

/// What is known of the machine besides costs.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether `MADV_HUGEPAGE` has an effect.
    pub huge: bool,
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

/// Remedies for a site of large blocks; `heap` if it allocates by `malloc`.
#[must_use]
pub fn predict(site: &Site, heap: bool, costs: &Costs, machine: Machine) -> Vec<Predicted> {
    let mut all = Vec::new();
    let (stores, reads) = (site.stores() as f64, site.kinds.read as f64);
    let now = stores * costs.write.mean + reads * costs.read.mean;
    // Pages that the allocator had kept are there, and populating finds them so.
    let pages = site.fresh() as f64;
    let density = site.density();
    let sparse = (density < SPARSE && site.kinds.huge == 0).then(|| {
        format!(
            "only {:.1} % of the new pages are used: populating would fill the others for nothing",
            100.0 * density
        )
    });
    if let Some(populate) = costs.populate {
        let gain = now - pages * populate - (stores + reads) * costs.cache;
        all.push(Predicted {
            remedy: Remedy::Populate,
            gain,
            against: sparse.clone().or_else(|| loses(gain)),
        });
        let forestalled = site.forestalled as f64;
        let gain = forestalled * (costs.write.mean - costs.cache);
        let against = if machine.processors < 2 {
            Some("there is one processor".to_owned())
        } else {
            sparse.clone().or_else(|| loses(gain))
        };
        all.push(Predicted { remedy: Remedy::Prefault, gain, against });
    }
    if let Some(huge) = &costs.huge
        && site.chunks > 0
    {
        let gain = site.chunk_faults as f64 * costs.write.mean - site.chunks_touched as f64 * huge.mean;
        let against = if machine.huge {
            let fresh = site.fresh() as f64 / site.pages.max(1) as f64;
            let filled =
                site.chunk_faults as f64 / (512.0 * site.chunks_touched.max(1) as f64 * fresh.max(0.01));
            let sparse = (filled < SPARSE / 4.0)
                .then(|| format!("only {:.1} % of each 2 MiB is used", 100.0 * filled));
            sparse.or_else(|| loses(gain))
        } else {
            Some("the system gives no huge pages (transparent_hugepage/enabled)".to_owned())
        };
        all.push(Predicted { remedy: Remedy::Huge, gain, against });
    }
    let faults = stores + reads;
    // What lives at a time is used once more, at most; the allocator may have kept some by itself.
    let again = faults - faults.min(site.peak_pages as f64);
    if heap && again > 0.0 {
        let gain = again / faults * (now + faults * costs.unmap);
        all.push(Predicted { remedy: Remedy::Keep, gain, against: loses(gain) });
    }
    all
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

    const MACHINE: Machine = Machine { huge: true, processors: 2 };

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
        assert!((keep.gain - 0.9 * 10_240.0 * 1100.0).abs() < 1.0);
        let once = site(10_240, 10_240);
        assert!(predict(&once, true, &costs(), MACHINE).iter().all(|one| one.remedy != Remedy::Keep));
        assert!(predict(&again, false, &costs(), MACHINE).iter().all(|one| one.remedy != Remedy::Keep));
    }

    #[test]
    fn huge_pages_need_a_system_that_gives_them() {
        let none = Machine { huge: false, processors: 1 };
        let all = predict(&site(10_240, 10_240), true, &costs(), none);
        let against =
            |remedy| all.iter().find(|one| one.remedy == remedy).and_then(|one| one.against.clone());
        assert!(against(Remedy::Huge).is_some_and(|why| why.contains("transparent_hugepage")));
        assert!(against(Remedy::Prefault).is_some_and(|why| why.contains("one processor")));
    }
}
