//! The models of file systems, held against the real ones: sequences of calls run on ext4, XFS and Btrfs of a
//! real kernel in an emulated machine, over `dm-log-writes`. The log is cut wherever a disk that loses power
//! may stop, the cut is mounted, and what is in the files must be a state that the model allows once so many
//! calls had returned. How many of the model's states were seen is printed.
//!
//! `./test --long` runs it. All sequences of one and two calls run, and samples of longer ones by a seed:
//! `STRANDLINE_SEED`.
//! `STRANDLINE_SEQUENCES` says how many of three calls (`all` of them take hours) and as many again of four
//! to eight; `STRANDLINE_MOUNTS` how many cuts of each kind are mounted of 64 sequences.
//!
//! `STRANDLINE_ONLY` has sequences in place of these, behind commas.
//!
//! `STRANDLINE_KEEP` names a folder for what the machines say, and `STRANDLINE_SAID` one that has it, so that it is
//! judged again.
#![cfg(target_arch = "x86_64")]

#[path = "../../../../library/pmem/tests/dax/archive.rs"]
mod archive;
mod corpus;
#[path = "../../../../library/pmem/tests/dax/machine.rs"]
mod machine;
#[path = "../on_files/mod.rs"]
mod on_files;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crash::Platform;
use machine::{Boot, Kernel, Machine, Memory};

/// A file system of the kernel that a model is about.
struct System {
    platform: Platform,
    kind: &'static str,
    options: &'static str,
    size: &'static str,
    make: &'static str,
}

const EXT4: &str = "/sbin/mke2fs -q -F -t ext4 -b 4096 -E lazy_itable_init=0,lazy_journal_init=0";

const SYSTEMS: [System; 4] = [
    System { platform: Platform::EXT4, kind: "ext4", options: "data=ordered", size: "64M", make: EXT4 },
    System {
        platform: Platform::EXT4_WRITEBACK,
        kind: "ext4",
        options: "data=writeback",
        size: "64M",
        make: EXT4,
    },
    System { platform: Platform::XFS, kind: "xfs", options: "", size: "320M", make: "/sbin/mkfs.xfs -q -f" },
    System {
        platform: Platform::BTRFS,
        kind: "btrfs",
        options: "",
        size: "256M",
        make: "/sbin/mkfs.btrfs -q -f -m single -d single",
    },
];

/// Sequences that run on one mount.
const BATCH: usize = 64;

fn number(name: &str, usual: usize) -> usize {
    env::var(name).map_or(usual, |text| text.parse().unwrap_or(usize::MAX))
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

/// All of one and two calls, so many of three, and as many random longer ones, in a random order.
fn sequences(chance: &mut Chance, many: usize) -> Vec<String> {
    let mut sequences = corpus::all(1);
    sequences.extend(corpus::all(2));
    let mut three = corpus::all(3);
    while three.len() > many {
        three.swap_remove(chance.below(three.len()));
    }
    sequences.append(&mut three);
    let until = sequences.len() + many.min(2000);
    let letters: Vec<char> = corpus::CALLS.chars().collect();
    while sequences.len() < until {
        let len = 4 + chance.below(5);
        let mut sequence = String::new();
        while sequence.len() < len {
            sequence.push(letters[chance.below(letters.len())]);
            if !corpus::is_possible(&sequence) {
                sequence.pop();
            }
        }
        sequences.push(sequence);
    }
    for at in (1..sequences.len()).rev() {
        sequences.swap(at, chance.below(at + 1));
    }
    sequences
}

/// The program that a file system is made with, if it is there.
fn tool(name: &str) -> Result<PathBuf, String> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("no {name} (apt-get install xfsprogs btrfs-progs)"))
}

struct Prepared {
    machine: Machine,
    folder: tempfile::TempDir,
    tools: [PathBuf; 2],
}

fn prepare() -> Result<Prepared, String> {
    let tools = [tool("mkfs.xfs")?, tool("mkfs.btrfs")?];
    let machine = Machine::prepare(Kernel::Stable)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/cuts.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"])
        .arg(folder.path().join("cuts"))
        .arg(source);
    let built = gcc.status().map_err(|error| format!("no gcc: {error}"))?;
    assert!(built.success(), "cuts.c is compiled");
    Ok(Prepared { machine, folder, tools })
}

/// What the machine says of the sequences on one file system.
fn run(prepared: &Prepared, system: &System, sequences: &[String], seed: u64, mounts: usize) -> String {
    let corpus = prepared.folder.path().join("corpus");
    let batches = sequences.chunks(BATCH).map(|batch| format!("{}\nbatch\n", batch.join("\n")));
    fs::write(&corpus, batches.collect::<String>()).expect("room for the corpus");
    let cuts = prepared.folder.path().join("cuts");
    let [xfs, btrfs] = &prepared.tools;
    let programs = [
        ("/opt/cuts", cuts.as_path()),
        ("/opt/corpus", corpus.as_path()),
        ("/sbin/mkfs.xfs", xfs.as_path()),
        ("/sbin/mkfs.btrfs", btrfs.as_path()),
    ];
    let System { kind, options, size, make, .. } = system;
    let script = format!(
        "echo 1 >/proc/sys/kernel/printk\n\
         mount -t tmpfs -o size=2000m tmp /tmp\n\
         load loop dm-mod dm-log-writes\n\
         [ {kind} = ext4 ] || load libcrc32c {kind}\n\
         truncate -s 1G /tmp/log && losetup /dev/loop1 /tmp/log\n\
         truncate -s {size} /tmp/disk && losetup /dev/loop0 /tmp/disk\n\
         {make} /dev/loop0\n\
         /opt/cuts /dev/loop0 /tmp/disk /dev/loop1 /tmp/log {kind} '{options}' {seed} {mounts} </opt/corpus\n"
    );
    let modules = ["drivers/md", "drivers/block", "fs/xfs", "fs/btrfs"];
    prepared.machine.run(&Boot { modules: &modules, ..Boot::new(Memory::Plain, &script, &programs) })
}

/// What came of a file system.
#[derive(Debug, Default)]
struct Held {
    sequences: usize,
    mounts: u64,
    states: usize,
    allowed: usize,
    seen: usize,
    stale: usize,
    wrong: Vec<String>,
}

fn hold(platform: Platform, sequences: &[String], said: &str) -> Held {
    let mut held = Held::default();
    let mut found: BTreeMap<usize, Vec<(u64, String)>> = BTreeMap::new();
    for line in said.lines().map(|line| line.trim_end_matches('\r')) {
        let mut words = line.splitn(4, ' ');
        match words.next() {
            Some("S") => {
                let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
                // The kernel's own messages come at any time.
                let (Some(sequence), Some(calls)) = (number(), number()) else { continue };
                let state = words.next().unwrap_or("").to_owned();
                if state.ends_with(' ') && !state.contains('[') {
                    found.entry(sequence as usize).or_default().push((calls, state));
                }
            }
            Some("T") => {
                let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
                held.mounts = numbers[0];
                if numbers[1] > 0 {
                    held.wrong.push(format!("{} cuts could not be mounted", numbers[1]));
                }
            }
            _ => {}
        }
    }
    assert!(held.mounts > 0, "{platform}: the machine did not come to its end:\n{said}");
    for (number, states) in found {
        let sequence = &sequences[number];
        let Some(allowed) = corpus::allowed(platform, sequence) else { continue };
        held.sequences += 1;
        held.allowed += allowed.len();
        for (calls, state) in states {
            held.states += 1;
            // What a block held before is shown as zeros by the models.
            let is_stale = state.contains('?');
            held.stale += usize::from(is_stale);
            match allowed.get(&state) {
                Some(&most) if most >= calls => held.seen += 1,
                _ if is_stale && [Platform::EXT4_WRITEBACK, Platform::POSIX].contains(&platform) => {}
                Some(most) => held.wrong.push(format!(
                    "{sequence}: {state} once {calls} calls had returned; the model allows it up to {most}"
                )),
                None => held
                    .wrong
                    .push(format!("{sequence}: {state} once {calls} calls had returned, never in the model")),
            }
        }
    }
    held
}

#[test]
#[ignore = "boots emulated machines, which takes half an hour (--long)"]
fn real_kernels_leave_only_what_the_models_allow() {
    let seed = number("STRANDLINE_SEED", 1) as u64;
    let many = number("STRANDLINE_SEQUENCES", 300);
    let mounts = number("STRANDLINE_MOUNTS", 60);
    let only = env::var("STRANDLINE_SYSTEM").ok();
    let prepared = match prepare() {
        Ok(prepared) => prepared,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
    };
    let sequences = match env::var("STRANDLINE_ONLY") {
        Ok(only) => only.split(',').map(str::to_owned).collect(),
        Err(_) => sequences(&mut Chance(seed * 2 + 1), many),
    };
    assert!(sequences.iter().all(|sequence| corpus::is_possible(sequence)), "{sequences:?}");
    println!(
        "{} sequences, seed {seed}, {mounts} mounts of each kind per {BATCH} sequences",
        sequences.len()
    );
    let mut wrong = Vec::new();
    for system in
        SYSTEMS.iter().filter(|system| only.as_ref().is_none_or(|only| only == system.platform.name()))
    {
        let said = match env::var("STRANDLINE_SAID") {
            Ok(folder) => {
                fs::read_to_string(Path::new(&folder).join(system.platform.name())).expect("what was said")
            }
            Err(_) => run(&prepared, system, &sequences, seed, mounts),
        };
        if let Ok(folder) = env::var("STRANDLINE_KEEP") {
            fs::write(Path::new(&folder).join(system.platform.name()), &said)
                .expect("room for what was said");
        }
        // What POSIX promises, each of them keeps.
        for platform in [system.platform, Platform::POSIX] {
            let held = hold(platform, &sequences, &said);
            println!(
                "{} by {platform}: {} sequences, {} cuts mounted, {} states, of {} that the model allows {} seen, {} with stale bytes, {} not allowed",
                system.platform,
                held.sequences,
                held.mounts,
                held.states,
                held.allowed,
                held.seen,
                held.stale,
                held.wrong.len()
            );
            wrong
                .extend(held.wrong.iter().map(|wrong| format!("{} by {platform}: {wrong}", system.platform)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comparison must be able to fail.
#[test]
fn what_no_model_allows_is_noticed() {
    let sequences = ["wf".to_owned()];
    let held = |lines: &str| hold(Platform::EXT4, &sequences, &format!("{lines}T 1 0\n"));
    assert_eq!(held("S 0 2 /a=w*512+a*488 /b=b*600 /d/ \n").wrong.len(), 0);
    assert_eq!(held("S 0 1 /a=a*1000 /b=b*600 /d/ \n").wrong.len(), 0);
    assert_eq!(held("S 0 2 /a=a*1000 /b=b*600 /d/ \n").wrong.len(), 1, "the sync had returned");
    assert_eq!(held("S 0 0 /a=w*100+a*900 /b=b*600 /d/ \n").wrong.len(), 1, "half of a sector");
    assert!(corpus::all(2).len() > 300 && !corpus::is_possible("uf"));
}
