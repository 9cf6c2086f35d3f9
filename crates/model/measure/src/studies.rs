//! The studies of LATTester and of the papers that used it, as data.
//!
//! M1 to M13 are the measurements of "An Empirical Guide to the Behavior and Use of Scalable Persistent
//! Memory"; where its text or its released scripts give parameters, these are the defaults here.

use machine::Time;

use crate::setting::Setting;
use crate::study::{Show, Study, doubling};
use crate::task::{Kind, Locality, Mix, Op, Pattern, Raw, Task};

use Setting::{AccessSize, Delay, Dimms, FenceEvery, FlushEvery, Region, Stride, Threads};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Threads on the axis of studies by threads.
const THREADS: [u32; 12] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 18, 20, 24];

impl Study {
    /// All studies.
    #[must_use]
    pub fn all() -> Vec<Study> {
        vec![
            idle_latency(),
            tail_latency(),
            by_threads(),
            by_access_size(),
            by_stride(),
            loaded_latency(),
            instructions(),
            fence_interval(),
            flush_interval(),
            buffer_probe(),
            controller_probe(),
            dimm_binding(),
            readers(),
            numa(),
            read_after_write(),
            overwrite(),
            straight_write(),
        ]
    }

    /// The study of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<Study> {
        Study::all().into_iter().find(|study| study.name == name)
    }

    /// What to measure if nobody says: how long an access takes and how much all together move.
    pub const OVERVIEW: [&'static str; 2] = ["idle-latency", "threads"];
}

fn op(op: Op) -> Setting {
    Setting::Op(op)
}

fn one_each(ops: &[Op]) -> Vec<Vec<Setting>> {
    ops.iter().map(|one| vec![op(*one)]).collect()
}

const READ_NT_CLWB: [Op; 3] = [Op::Load, Op::Ntstore, Op::StoreClwb];

/// M1.
fn idle_latency() -> Study {
    let curve = |what, pattern| vec![op(what), Setting::Pattern(pattern)];
    Study {
        name: "idle-latency",
        summary: "how long a single access takes when nothing else is under way",
        base: Task { kind: Kind::IdleLatency, region: GIB, ..Task::default() },
        series: vec![
            curve(Op::Load, Pattern::Sequential),
            curve(Op::Load, Pattern::Random),
            curve(Op::Ntstore, Pattern::Random),
            curve(Op::StoreClwb, Pattern::Random),
        ],
        axis: vec![Threads(1)],
        shows: Show::Latency,
    }
}

/// M2.
fn tail_latency() -> Study {
    Study {
        name: "tail-latency",
        summary: "the longest writes into a hot region, by its size",
        base: Task {
            kind: Kind::Timed,
            op: Op::Ntstore,
            access_size: 256,
            fence_every: 1,
            ..Task::default()
        },
        series: one_each(&[Op::Ntstore]),
        axis: doubling(256, 64 * MIB, Region),
        shows: Show::Tail,
    }
}

/// M3, and M11 on one DIMM.
fn by_threads() -> Study {
    Study {
        name: "threads",
        summary: "bandwidth by threads, each on its own region",
        base: Task { access_size: 256, ..Task::default() },
        series: one_each(&READ_NT_CLWB),
        axis: THREADS.map(Threads).to_vec(),
        shows: Show::Bandwidth,
    }
}

/// M4: 64 B to 2 MiB, and the steps of 4 KiB between 8 and 60 KiB in which an interleaved set has its peaks.
fn by_access_size() -> Study {
    let curve = |what, threads| vec![op(what), Threads(threads)];
    let mut sizes: Vec<u64> = (6..=21).map(|power| 1 << power).chain((2..16).map(|n| n * 4 * KIB)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    Study {
        name: "access-size",
        summary: "bandwidth of random accesses by their size",
        base: Task { pattern: Pattern::Random, ..Task::default() },
        series: vec![curve(Op::Load, 16), curve(Op::Ntstore, 4), curve(Op::StoreClwb, 12)],
        axis: sizes.into_iter().map(AccessSize).collect(),
        shows: Show::Bandwidth,
    }
}

fn by_stride() -> Study {
    let mut strides = vec![Stride(0), Stride(64), Stride(128), Stride(192)];
    strides.extend(doubling(256, 2 * MIB, Stride));
    Study {
        name: "stride",
        summary: "bandwidth of 64 B accesses by the distance between them",
        base: Task::default(),
        series: one_each(&READ_NT_CLWB),
        axis: strides,
        shows: Show::Bandwidth,
    }
}

/// M5 and the left of M6.
fn loaded_latency() -> Study {
    let curve = |what, threads, pattern| vec![op(what), Threads(threads), Setting::Pattern(pattern)];
    let delays = [0, 20, 40, 80, 120, 200, 300, 500, 800, 1200, 2000, 5000, 20_000, 80_000];
    Study {
        name: "loaded-latency",
        summary: "latency by bandwidth, as delays between accesses set it",
        base: Task { kind: Kind::LoadedLatency, region: GIB, ..Task::default() },
        series: vec![
            curve(Op::Load, 16, Pattern::Sequential),
            curve(Op::Load, 16, Pattern::Random),
            curve(Op::Ntstore, 4, Pattern::Sequential),
            curve(Op::Ntstore, 4, Pattern::Random),
        ],
        axis: delays.map(|ns| Delay(Time::from_ns(ns))).to_vec(),
        shows: Show::LatencyByBandwidth,
    }
}

/// M9.
fn instructions() -> Study {
    Study {
        name: "instructions",
        summary: "ways to write, by size: bandwidth of six threads",
        base: Task { threads: 6, fence_every: 1, ..Task::default() },
        series: one_each(&[Op::Ntstore, Op::StoreClwb, Op::Store]),
        axis: doubling(64, 4 * KIB, AccessSize),
        shows: Show::Bandwidth,
    }
}

/// M10. The size of a write is its interval between fences.
fn fence_interval() -> Study {
    Study {
        name: "fence-interval",
        summary: "bandwidth of one thread by bytes written before each fence, flushed at once or at the end",
        base: Task { fence_every: 1, ..Task::default() },
        series: vec![
            vec![op(Op::StoreClwb), FlushEvery(64)],
            // More than any write of the axis: all lines at its end.
            vec![op(Op::StoreClwb), FlushEvery(64 * MIB)],
            vec![op(Op::Ntstore)],
        ],
        axis: doubling(64, 64 * MIB, AccessSize),
        shows: Show::Bandwidth,
    }
}

fn flush_interval() -> Study {
    Study {
        name: "flush-interval",
        summary: "bandwidth of one thread's 64 KiB writes by bytes stored before their lines are flushed",
        base: Task { access_size: 64 * KIB, fence_every: 1, ..Task::default() },
        series: one_each(&[Op::StoreClwb]),
        axis: doubling(64, 64 * KIB, FlushEvery),
        shows: Show::Bandwidth,
    }
}

/// M8.
fn buffer_probe() -> Study {
    let mut regions: Vec<u64> =
        (8..=21).map(|power| 1 << power).chain((8..=32).map(|n| n * 2 * KIB)).collect();
    regions.sort_unstable();
    regions.dedup();
    Study {
        name: "buffer-probe",
        summary: "capacity of all DIMMs' write buffers together: halves of units written in two passes, by region",
        base: Task { kind: Kind::BufferProbe, op: Op::StoreClwb, access_size: 256, ..Task::default() },
        series: one_each(&[Op::StoreClwb]),
        axis: regions.into_iter().map(Region).collect(),
        shows: Show::Amplification,
    }
}

/// The second note of LATTester's on the controller's queue: a loop over 64 B times k.
fn controller_probe() -> Study {
    Study {
        name: "controller-probe",
        summary: "what the controller's queue takes at once: time of a burst of non-temporal stores, by its size",
        base: Task {
            kind: Kind::Timed,
            stride: Some(0),
            region: 64 * KIB,
            samples: 1 << 16,
            fence_every: 1,
            ..Task::default()
        },
        series: one_each(&[Op::Ntstore]),
        axis: (1..=16).chain([20, 24, 32, 48, 64]).map(|lines| AccessSize(64 * lines)).collect(),
        shows: Show::MeanLatency,
    }
}

/// M12.
fn dimm_binding() -> Study {
    let curve = |what, threads, bytes| vec![op(what), Threads(threads), AccessSize(bytes)];
    Study {
        name: "dimm-binding",
        summary: "bandwidth by the DIMMs that each thread uses",
        base: Task { pattern: Pattern::Random, ..Task::default() },
        series: vec![
            curve(Op::Load, 24, 64),
            curve(Op::Load, 24, 256),
            curve(Op::Load, 24, 4 * KIB),
            curve(Op::Ntstore, 6, 64),
            curve(Op::Ntstore, 6, 256),
            curve(Op::Ntstore, 6, KIB),
            curve(Op::Ntstore, 6, 4 * KIB),
        ],
        axis: [1, 2, 3, 6].map(Dimms).to_vec(),
        shows: Show::Bandwidth,
    }
}

/// The right of M6.
fn readers() -> Study {
    Study {
        name: "readers",
        summary: "bandwidth of 16 threads by how many of them read",
        base: Task { threads: 16, access_size: 256, ..Task::default() },
        series: one_each(&[Op::Ntstore, Op::StoreClwb]),
        axis: (0..=8).map(|pair| Setting::Mix(Mix::Readers(2 * pair))).collect(),
        shows: Show::Bandwidth,
    }
}

/// M13.
fn numa() -> Study {
    let mix = |reads, writes| Setting::Mix(Mix::Turns { reads, writes });
    let curve = |place, threads| vec![Setting::Locality(place), Threads(threads)];
    Study {
        name: "numa",
        summary: "bandwidth by reads to writes, from the memory's own socket and from another",
        base: Task { op: Op::Ntstore, access_size: 256, ..Task::default() },
        series: vec![
            curve(Locality::Near, 1),
            curve(Locality::Near, 4),
            curve(Locality::Far, 1),
            curve(Locality::Far, 4),
        ],
        axis: vec![mix(1, 0), mix(4, 1), mix(3, 1), mix(2, 1), mix(1, 1), mix(0, 1)],
        shows: Show::Bandwidth,
    }
}

fn read_after_write() -> Study {
    Study {
        name: "read-after-write",
        summary: "time of a read (combined: of write and read) after its line was written, by region",
        base: Task {
            kind: Kind::ReadAfterWrite,
            op: Op::Ntstore,
            pattern: Pattern::Random,
            ..Task::default()
        },
        series: Raw::ALL.iter().map(|way| vec![Setting::Raw(*way)]).collect(),
        axis: doubling(KIB, 128 * MIB, Region),
        shows: Show::MeanLatency,
    }
}

fn overwrite() -> Study {
    Study {
        name: "overwrite",
        summary: "one 256 B unit written again and again: period and length of the stalls that level wear",
        base: Task { kind: Kind::Timed, access_size: 256, region: 256, fence_every: 1, ..Task::default() },
        series: one_each(&[Op::Ntstore]),
        axis: vec![Region(256)],
        shows: Show::Progress,
    }
}

fn straight_write() -> Study {
    Study {
        name: "straight-write",
        summary: "latency of consecutive writes as they go on, from empty buffers to full ones",
        base: Task { kind: Kind::Timed, region: GIB, fence_every: 0, ..Task::default() },
        series: one_each(&[Op::Ntstore, Op::StoreClwb]),
        axis: vec![AccessSize(256)],
        shows: Show::Progress,
    }
}

/// The parameters of the systematic sweep: random and sequential, every operation, sizes, strides and
/// threads.
#[must_use]
pub fn sweep() -> Vec<Study> {
    let ops = [Op::Load, Op::Ntstore, Op::Store, Op::StoreClwb];
    let threads = [1, 2, 4, 8, 12, 16, 24];
    let curves = |pattern: Pattern| -> Vec<Vec<Setting>> {
        let each =
            |what: &Op| threads.map(|count| vec![op(*what), Setting::Pattern(pattern), Threads(count)]);
        ops.iter().flat_map(each).collect()
    };
    let mut sizes = doubling(64, 2 * MIB, AccessSize);
    sizes.insert(2, AccessSize(192));
    let study = |name, summary, base, series, axis| Study {
        name,
        summary,
        base,
        series,
        axis,
        shows: Show::Bandwidth,
    };
    vec![
        study(
            "sweep-random",
            "bandwidth of random accesses",
            Task::default(),
            curves(Pattern::Random),
            sizes.clone(),
        ),
        study(
            "sweep-sequential",
            "bandwidth of sequential accesses",
            Task::default(),
            curves(Pattern::Sequential),
            sizes,
        ),
        study(
            "sweep-stride",
            "bandwidth of 64 B accesses by stride",
            Task::default(),
            curves(Pattern::Sequential),
            by_stride().axis,
        ),
        study(
            "sweep-flush-fence",
            "bandwidth of one thread by bytes between flushes and accesses between fences",
            Task { access_size: 4 * KIB, ..Task::default() },
            doubling(64, 4 * KIB, FlushEvery)
                .into_iter()
                .map(|every| vec![op(Op::StoreClwb), every])
                .collect(),
            [0, 1, 2, 4, 8, 16, 64, 256].map(FenceEvery).to_vec(),
        ),
        study(
            "sweep-dimms",
            "bandwidth by the DIMMs that each thread uses",
            Task { pattern: Pattern::Random, ..Task::default() },
            [Op::Load, Op::Ntstore]
                .into_iter()
                .flat_map(|what| {
                    [64, 256, KIB, 4 * KIB].into_iter().flat_map(move |bytes| {
                        [6, 12, 24].map(|count| vec![op(what), AccessSize(bytes), Threads(count)])
                    })
                })
                .collect(),
            [1, 2, 3, 4, 5, 6].map(Dimms).to_vec(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_every_study_can_be_done_and_names_are_unique() {
        let mut names = Vec::new();
        for study in Study::all().into_iter().chain(sweep()) {
            names.push(study.name);
            let points = study.points();
            assert!(!points.is_empty(), "{}", study.name);
            for point in &points {
                assert_eq!(point.task.fault(), None, "{} {}", study.name, point.series);
            }
            let mut places: Vec<_> =
                points.iter().map(|point| (&point.series, point.x.to_string())).collect();
            places.sort();
            places.dedup();
            assert_eq!(places.len(), points.len(), "{}: two points are the same", study.name);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(Study::OVERVIEW.iter().all(|name| Study::find(name).is_some()));
    }
}
