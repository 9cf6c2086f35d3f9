//! Reports made by hand: a full one, and the ends of what can happen.
#![allow(dead_code)]

pub mod orders;

use std::time::Duration;

use advise::prestores::{Advice, Choice, PhaseAdvice, PlaceAdvice, SizeRow};
use advise::{Finding, Rule, SiteShare};
use crash::Place;
use crash::lint::{Kind, Lint};
use event::{Counts, Frame, Sampling, Site, SiteId, SiteTable, Source};
use machine::{CacheFigures, Figures, MemoryFigures, SiteFigures, SiteMemory, Slice, Traffic};
use report::{
    AllocationStack, Article, CaptureStats, Costs, CrashFinding, CrashFindings, CrashLints, Exit, FieldHeat,
    FunctionSample, PhaseMark, Prestores, Report, Run, Samples, SiteCost, Skipped, StackCost, Structure,
    Subject, ThreadHeat, Trial, Wait, Wear, Withheld, WriteSizes,
};
use wear::estimate::Tally;
use wear::{CopyCost, Endurance, Question};

const MIB: u64 = 1 << 20;

/// The source file that the full report's findings quote.
pub const BTREE_C: &str = include_str!("btree.c");

/// Gives `btree.c`, and nothing else.
pub fn sources(file: &str) -> Option<String> {
    file.ends_with("btree.c").then(|| BTREE_C.to_owned())
}

/// Nothing ran: every list empty, every number 0.
pub fn empty() -> Report {
    Report {
        run: Run {
            subject: Subject::Workload { name: "nothing".into() },
            reproduce: Vec::new(),
            version: "0.1.0".into(),
            seed: None,
            date: "2026-11-21 07:30 UTC".into(),
            host: String::new(),
            exit: Exit::None,
            duration: Duration::ZERO,
            warnings: Vec::new(),
            skipped: Vec::new(),
        },
        source: Source::synthetic("strandline workload 0.1.0"),
        counts: Counts::default(),
        figures: Figures { machine: "xpoint".into(), unit_bytes: 256, dimms: 1, ..Figures::default() },
        sites: SiteTable::default(),
        findings: Vec::new(),
        withheld: Vec::new(),
        write_sizes: None,
        structures: Vec::new(),
        trials: Vec::new(),
        costs: None,
        phases: Vec::new(),
        capture: None,
        prestores: None,
        samples: None,
        wear: None,
        crash_lints: None,
        crash_findings: None,
    }
}

/// A persistent B+-tree with three problems.
pub fn full() -> Report {
    let mut report = empty();
    report.run = run();
    report.counts = Counts {
        events: 20_400_000,
        loads: 14_200_000,
        load_bytes: 96 * MIB,
        stores: 3_100_000,
        store_bytes: 24 * MIB,
        nt_stores: 65_536,
        nt_bytes: 4 * MIB,
        flushes: 1_900_000,
        demotes: 12,
        fences: 1_000_000,
        syncs: 40_000,
        allocs: 52_000,
        frees: 1_200,
        instructions: 310_000_000,
        ..Counts::default()
    };
    let (sites, figures) = site_figures();
    report.sites = sites;
    report.figures = machine_figures(figures);
    report.findings = findings();
    report.withheld = vec![Withheld {
        rule: "remote-read-modify-write".into(),
        reason: "the machine xpoint has one socket".into(),
    }];
    report.write_sizes = Some(WriteSizes {
        temporal: vec![
            1_200, 900, 4_100, 2_410_000, 310_000, 96_000, 210_000, 41_000, 12_000, 3_100, 900, 0, 64,
        ],
        nt: vec![0, 0, 0, 0, 0, 0, 2_000, 3_000, 9_000, 0, 0, 0, 16_384],
        watched: 0.13,
    });
    report.capture = Some(CaptureStats { processes: 1, trace_bytes: Some(61 * MIB) });
    report.wear = Some(worn());
    report.structures = vec![structure()];
    report.costs = Some(Costs {
        accesses: 400_000,
        elapsed_ns: 3.2e7,
        waits: vec![Wait { cause: "loads".into(), ns: 1.1e7 }],
        sites: vec![SiteCost { site: 1, l1_misses: 90_000, stalled_ns: 9.0e6 }],
        stacks: vec![StackCost {
            site: 1,
            context: 2,
            l1_misses: 90_000,
            stalled_ns: 9.0e6,
            read_bytes: 5_760_000,
            ..StackCost::default()
        }],
    });
    report.phases = vec![PhaseMark { name: "load".into(), events: 1_000_000, time_ns: 40_000_000 }];
    report.trials =
        vec![Trial { rule: "false-sharing".into(), gain: 0.27, accesses: 400_000, withdrawn: false }];
    report
}

/// Nodes of which two words are used.
fn structure() -> Structure {
    Structure {
        site: 1,
        label: "add (tree.c:40)".into(),
        blocks: 50_000,
        bytes: 6_400_000,
        freed: 1_200,
        short_lived: 40,
        mean_life: Some(9_000),
        peak_bytes: 6_300_000,
        live_bytes: 6_246_400,
        fetches: 210_000,
        threads: 2,
        heat_loads: vec![180_000, 0, 0, 20_000],
        heat_stores: vec![10_000, 0, 0, 0],
        heat_by_thread: vec![ThreadHeat { thread: 1, fetches: vec![150_000, 0, 0, 20_000] }],
        footprint: vec![1_000_000, 4_000_000, 6_300_000],
        working_set: vec![900_000, 3_000_000, 2_000_000],
        miss_curve: vec![1.0, 0.8, 0.5, 0.1],
        at_peak_bytes: 6_300_000,
        idle_at_peak_bytes: 4_000_000,
        type_name: Some("node".into()),
        type_bytes: Some(128),
        fields: vec![
            field("key", 0, 90_000, 0, vec![0, 1, 2, 5]),
            field("next", 8, 20_000, 5_000, vec![1]),
            field("cold", 16, 0, 0, vec![]),
        ],
        stacks: vec![AllocationStack {
            context: 2,
            called_from: vec!["insert (tree.c:60)".into(), "main (tree.c:90)".into()],
            blocks: 50_000,
            bytes: 6_400_000,
            freed: 1_200,
            peak_bytes: 6_300_000,
            live_bytes: 6_246_400,
            fetches: 210_000,
        }],
    }
}

fn field(name: &str, offset: u64, loads: u64, stores: u64, threads: Vec<u32>) -> FieldHeat {
    FieldHeat { name: name.into(), offset, bytes: 8, loads, stores, threads }
}

/// Thirty pages, one of which takes half of the writes.
fn worn() -> Wear {
    let lines: Vec<(u64, u32)> =
        (0..3_000u64).map(|at| if at % 2 == 0 { (5, 0) } else { (64 * (at % 30), 1) }).collect();
    let units = lines.iter().map(|line| line.0 & !3).collect();
    let mut tally = Tally::default();
    tally.take(&mut machine::WriteLog { lines, units }, 0, |_, _| {});
    let question = Question {
        endurance: Endurance::new(1e7),
        goal: 4.0 * wear::YEAR,
        capacity: None,
        seconds: Some(4.56),
        unit: 256,
        copies: CopyCost::Lines,
    };
    let command = ["strandline", "wear", "--", "./bench"].map(str::to_owned).to_vec();
    Wear { assessment: wear::assess(&tally, Vec::new(), question), command }
}

fn run() -> Run {
    let command = ["./bench", "--load", "1000000", "--name", "b+ tree"].map(str::to_owned).to_vec();
    let mut reproduce = vec!["strandline".to_owned(), "profile".into(), "--".into()];
    reproduce.extend(command.clone());
    Run {
        subject: Subject::Program { command },
        reproduce,
        version: "0.1.0".into(),
        seed: Some(1),
        date: "2026-11-21 07:30 UTC".into(),
        host: "x86-64, 2 cores, Linux 6.1".into(),
        exit: Exit::Status { code: 0 },
        duration: Duration::from_millis(4_560),
        warnings: vec!["libc.so.6 was not built with strandline cc: its own accesses are not seen.".into()],
        skipped: vec![Skipped {
            what: "time".into(),
            reason: "the machine counts bytes only, so far".into(),
        }],
    }
}

/// Function, line, controller bytes, media bytes, partial share, evicted share.
const CODE: [(&str, u32, u64, u64, f64, f64); 7] = [
    ("leaf_insert", 21, 9 * MIB, 34 * MIB, 0.96, 0.12),
    ("leaf_split", 34, 6 * MIB, 7 * MIB, 0.21, 0.05),
    ("log_append", 44, 5 * MIB, 5 * MIB + 180_000, 0.04, 0.0),
    ("inner_insert", 55, MIB, 3 * MIB, 0.9, 0.7),
    ("leaf_insert", 24, MIB, 2 * MIB + 300_000, 0.8, 0.4),
    ("tree_root_set", 61, 40_000, 150_000, 1.0, 0.0),
    (
        "std::pair<std::string const, std::vector<Node*> >& index<Key, Value>::find_or_make(Key const&)",
        70,
        9_000,
        36_000,
        1.0,
        1.0,
    ),
];

fn site_figures() -> (SiteTable, Vec<SiteFigures>) {
    let mut table = SiteTable::default();
    let mut figures = vec![SiteFigures::default()];
    for (number, (function, line, sent, media, partial, evicted)) in (1u32..).zip(CODE) {
        let mut frames = vec![Frame { function: function.into(), file: "/build/src/btree.c".into(), line }];
        if number == 1 {
            frames.push(Frame { function: "tree_put".into(), file: "/build/src/btree.c".into(), line: 90 });
        }
        let site = Site { frames, module: "./bench".into(), address: 0x1000 + u64::from(number) * 16 };
        table.define_site(SiteId(number), site);
        figures.push(SiteFigures {
            loads: 1_000_000 / u64::from(number),
            stores: sent / 24,
            store_bytes: sent,
            nt_bytes: if function == "log_append" { sent } else { 0 },
            flushes: sent / 64,
            clean_flushes: if number == 2 { 31_000 } else { 0 },
            persistent: SiteMemory {
                read_bytes: sent / 2,
                controller_write_bytes: sent,
                evicted_bytes: (sent as f64 * evicted) as u64,
                media_write_bytes: media,
                partial_media_bytes: (media as f64 * partial) as u64,
            },
            volatile: SiteMemory::default(),
        });
    }
    (table, figures)
}

fn machine_figures(sites: Vec<SiteFigures>) -> Figures {
    let sum = |of: fn(&SiteMemory) -> u64| sites.iter().map(|site| of(&site.persistent)).sum::<u64>();
    let total = Traffic {
        controller_read_bytes: sum(|m| m.read_bytes),
        controller_write_bytes: sum(|m| m.controller_write_bytes),
        media_read_bytes: 48 * MIB,
        media_write_bytes: sum(|m| m.media_write_bytes),
        read_modify_writes: 161_000,
        buffer_hits: 220_000,
    };
    let part = |n: u64| Traffic {
        controller_read_bytes: total.controller_read_bytes / n,
        controller_write_bytes: total.controller_write_bytes / n,
        media_read_bytes: total.media_read_bytes / n,
        media_write_bytes: total.media_write_bytes / n,
        read_modify_writes: total.read_modify_writes / n,
        buffer_hits: total.buffer_hits / n,
    };
    let level = |level: &str, hits, misses| CacheFigures {
        level: level.into(),
        hits,
        misses,
        evictions: misses * 9 / 10,
        writebacks: misses / 3,
        invalidations: misses / 50,
        ..CacheFigures::default()
    };
    Figures {
        machine: "xpoint".into(),
        unit_bytes: 256,
        dimms: 6,
        threads: 4,
        caches: vec![
            level("L1", 16_100_000, 1_200_000),
            level("L2", 610_000, 590_000),
            level("LLC", 170_000, 420_000),
        ],
        persistent: MemoryFigures {
            total,
            per_dimm: [5, 6, 6, 6, 6, 7].map(part).to_vec(),
            writers_per_dimm: vec![4, 4, 4, 4, 4, 3],
            page_collisions: 12_345,
            media_write_fill: vec![121_000, 22_000, 9_500, 52_000],
            ..MemoryFigures::default()
        },
        volatile: MemoryFigures { total: part(9), per_dimm: vec![part(54); 6], ..MemoryFigures::default() },
        mapped_persistent: true,
        sites,
        timeline: timeline(512, 20_400_000, &total),
        ..Figures::default()
    }
}

/// A run that loads fast, splits leaves in waves, and ends quietly.
pub fn timeline(slices: u64, events: u64, total: &Traffic) -> Vec<Slice> {
    (1..=slices)
        .map(|slice| {
            let at = slice as f64 / slices as f64;
            let wave = 1.0 + 0.35 * (at * 40.0).sin() + if at > 0.85 { -0.6 } else { 0.2 };
            let part = |bytes: u64, tilt: f64| (bytes as f64 / slices as f64 * wave * tilt) as u64;
            let persistent = Traffic {
                controller_read_bytes: part(total.controller_read_bytes, 0.4 + at),
                controller_write_bytes: part(total.controller_write_bytes, 1.0),
                media_read_bytes: part(total.media_read_bytes, 1.0),
                media_write_bytes: part(total.media_write_bytes, 0.6 + 0.6 * at),
                read_modify_writes: part(total.read_modify_writes, 1.0),
                buffer_hits: part(total.buffer_hits, 1.0),
            };
            Slice {
                events: events * slice / slices,
                time_ns: 4_560_000_000 * slice / slices,
                persistent,
                volatile: Traffic::default(),
            }
        })
        .collect()
}

fn findings() -> Vec<Finding> {
    let sites = |shares: &[(u32, f64)]| {
        shares.iter().map(|&(site, share)| SiteShare { site: SiteId(site), share }).collect()
    };
    vec![
        Finding {
            rule: Rule::SmallRandomStores,
            title: "Stores of 24 B written back alone".into(),
            sites: sites(&[(1, 0.86), (4, 0.08), (5, 0.06)]),
            evidence: "391,000 writes of at most 64 B went to 256 B units in no order; each cost a whole unit on media. \
                       Mean distance between two writes to the same DIMM: 1.2 MiB."
                .into(),
            remedy: "Collect changes of a leaf and write them as one 256 B line, or append them to a log and apply \
                     them in batches."
                .into(),
            share: 0.71,
            share_of: "media bytes written".into(),
        },
        Finding {
            rule: Rule::LateFlush,
            title: "Written lines left to eviction".into(),
            sites: sites(&[(4, 0.7), (5, 0.3)]),
            evidence: "11 % of the bytes reached the device by eviction, at random times.".into(),
            remedy: "Flush each line with clwb right after its last store.".into(),
            share: 0.11,
            share_of: "media bytes written".into(),
        },
        Finding {
            rule: Rule::CleanFlush,
            title: "Flushes of lines without a change".into(),
            sites: sites(&[(2, 1.0)]),
            evidence: "31,000 of 1,900,000 flushes found no dirty line.".into(),
            remedy: "Flush what was stored, not the whole node.".into(),
            share: 0.016,
            share_of: "flushes".into(),
        },
    ]
}

/// As [`full`], with every optional thing there.
pub fn everything() -> Report {
    let mut report = full();
    report.source.sampling = Some(Sampling { recorded: 1_000, period: 10_000 });
    report.run.subject = Subject::Trace { path: "t.slt".into(), command: vec!["./bench".into()] };
    report.run.exit = Exit::Signal { number: 11, name: "SIGSEGV".into() };
    report.samples = Some(samples());
    report.prestores = Some(prestores());
    report.crash_lints = Some(crash_lints());
    let finding = CrashFinding {
        message: "slot <3> is torn".into(),
        story: vec!["the store at put (map.c:7) was not durable".into()],
        images: 4,
        token: "adr-p1-a0-b-c-h00000000".into(),
        article: Article {
            id: "crash-1".into(),
            number: 1,
            title: "slot <3> is torn".into(),
            ..Article::default()
        },
    };
    report.crash_findings = Some(CrashFindings {
        examined: "adr: 9 images".into(),
        folder: "strandline-report".into(),
        findings: vec![finding],
    });
    report
}

/// A flush without a fence, and a fence without need.
fn crash_lints() -> CrashLints {
    let unfenced = Lint {
        kind: Kind::NotFenced,
        site: SiteId(1),
        count: 12,
        bytes: 96,
        example: Some(Place::new(0, 0x40)),
        flush: Some(SiteId(2)),
        missed: Vec::new(),
    };
    let idle = Lint {
        kind: Kind::RedundantFence,
        count: 3,
        bytes: 0,
        example: None,
        flush: None,
        ..unfenced.clone()
    };
    CrashLints { lints: vec![unfenced, idle], files: vec!["/dev/shm/pool".into()] }
}

/// A matrix to clean, and a counter to leave alone.
fn prestores() -> Prestores {
    let clean = PlaceAdvice {
        function: "resid".into(),
        file: "src/mg.c".into(),
        line: 114,
        site: SiteId(1),
        function_share: 0.52,
        share: 0.5,
        sequential: 0.99,
        fenced: 0.0,
        fence_distance: Some(45),
        reread_share: 0.97,
        may_skip: true,
        sizes: vec![SizeRow {
            bytes: 2_100_000,
            share: 1.0,
            reread: Some(23_800),
            rewrite: None,
            allocated: Some(SiteId(2)),
        }],
        choice: Choice::Clean,
        reason: "read again, but not written again".into(),
    };
    let counter = PlaceAdvice {
        function: "count".into(),
        choice: Choice::Nothing,
        reason: "writes less than a line at a place".into(),
        ..clean.clone()
    };
    let phase = PhaseAdvice {
        phase: Some("run".into()),
        store_intensity: 0.21,
        judged: true,
        aside: false,
        places: vec![clean, counter],
    };
    Prestores {
        advice: Advice { phases: vec![phase] },
        watched: 0.03,
        attempt: ["strandline", "advise", "prestores", "t.slt"].map(str::to_owned).to_vec(),
    }
}

fn samples() -> Samples {
    Samples {
        method: "cpu-clock, 1000 per second".into(),
        total: 4_000,
        functions: vec![
            FunctionSample { function: "memcpy".into(), module: "libc.so.6".into(), samples: 2_100 },
            FunctionSample { function: "main".into(), module: "./plain".into(), samples: 700 },
        ],
    }
}

/// A program that was not instrumented.
pub fn sampled() -> Report {
    let mut report = empty();
    report.run.subject = Subject::Program { command: vec!["./plain".into()] };
    report.run.exit = Exit::Status { code: 3 };
    report.run.warnings =
        vec!["./plain was not built with strandline cc; build it with CC=\"strandline cc\" make.".into()];
    report.samples = Some(samples());
    report
}

/// All accesses hit the caches.
pub fn no_traffic() -> Report {
    let mut report = empty();
    report.counts = Counts { events: 1_000, loads: 1_000, load_bytes: 8_000, ..Counts::default() };
    report.figures.threads = 1;
    report.figures.caches = vec![
        CacheFigures { level: "L1".into(), hits: 1_000, ..CacheFigures::default() },
        CacheFigures { level: "LLC".into(), ..CacheFigures::default() },
    ];
    report
}

/// One slice, one site, nothing mapped, no finding; the program wrote in whole units.
pub fn one_site() -> Report {
    let mut report = no_traffic();
    let total = Traffic { controller_write_bytes: 4096, media_write_bytes: 4096, ..Traffic::default() };
    let memory =
        SiteMemory { controller_write_bytes: 4096, media_write_bytes: 4096, ..SiteMemory::default() };
    report.sites.define_site(
        SiteId(1),
        Site {
            frames: vec![Frame { function: "main".into(), file: "a.c".into(), line: 3 }],
            module: "a".into(),
            address: 0,
        },
    );
    report.figures.sites =
        vec![SiteFigures::default(), SiteFigures { stores: 64, volatile: memory, ..SiteFigures::default() }];
    report.figures.volatile = MemoryFigures {
        total,
        per_dimm: vec![total],
        media_write_fill: vec![0, 0, 0, 16],
        ..MemoryFigures::default()
    };
    report.figures.timeline =
        vec![Slice { events: 1_000, time_ns: 0, persistent: Traffic::default(), volatile: total }];
    report.write_sizes =
        Some(WriteSizes { temporal: vec![0, 0, 0, 0, 0, 0, 64], nt: Vec::new(), watched: 1.0 });
    report
}

/// Numbers near their types' ends.
pub fn huge() -> Report {
    let mut report = full();
    let blow = |value: &mut u64| *value = value.saturating_mul(200_000_000_000);
    let swell = |t: &mut Traffic| {
        [
            &mut t.controller_read_bytes,
            &mut t.controller_write_bytes,
            &mut t.media_read_bytes,
            &mut t.media_write_bytes,
        ]
        .into_iter()
        .for_each(blow);
    };
    swell(&mut report.figures.persistent.total);
    report.figures.persistent.per_dimm.iter_mut().for_each(swell);
    report.figures.timeline.iter_mut().for_each(|slice| swell(&mut slice.persistent));
    for site in &mut report.figures.sites {
        [&mut site.persistent.media_write_bytes, &mut site.persistent.controller_write_bytes]
            .into_iter()
            .for_each(blow);
    }
    report.counts.events = u64::MAX;
    report.counts.loads = u64::MAX;
    report.figures.caches[0].hits = u64::MAX;
    report.run.duration = Duration::from_secs(1_000_000);
    if let Some(sizes) = &mut report.write_sizes {
        sizes.temporal = vec![u64::MAX; 64];
        sizes.nt = vec![u64::MAX; 64];
    }
    report
}

/// Names that try to break out of the page and the terminal.
pub fn hostile() -> Report {
    let mut report = full();
    let name = "operator<<\"&'</style></script><script>alert(1)</script>\u{1b}[31m\u{202e}";
    let frames =
        vec![Frame { function: format!("{name}{}", "x".repeat(3_000)), file: format!("/{name}.c"), line: 7 }];
    report.sites.define_site(SiteId(1), Site { frames, module: name.into(), address: 1 });
    report.run.subject = Subject::Program { command: vec![name.into()] };
    report.run.host = name.into();
    report.run.reproduce = vec![name.into()];
    report.run.warnings = vec![name.into()];
    report.findings[0].title = name.into();
    report.findings[0].evidence = name.into();
    report.findings[0].share = f64::NAN;
    report.withheld[0].reason = name.into();
    report.figures.machine = name.into();
    report
}

/// All of the above, named.
pub fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("empty", empty()),
        ("full", full()),
        ("everything", everything()),
        ("sampled", sampled()),
        ("no-traffic", no_traffic()),
        ("one-site", one_site()),
        ("huge", huge()),
        ("hostile", hostile()),
    ]
}
