//! The functions that the runtime stands in front of: what they do, and what they records.

use std::collections::BTreeMap;

use crate::support::program::Program;
use crate::support::session::{Collected, Settings, TestSession};
use crate::support::{Record, no_runs, text};
use abi::{access, flush, kind};

/// The program's records by its phase.
fn phases(collected: &Collected) -> BTreeMap<String, Vec<Record>> {
    let threads = collected.threads(no_runs);
    assert_eq!(threads.len(), 1);
    let mut phases: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    let mut phase = String::new();
    for record in threads.into_values().flatten() {
        if record.kind == kind::PHASE {
            phase = String::from_utf8(text(&record, 0)).expect("UTF-8");
        } else {
            phases.entry(phase.clone()).or_default().push(record);
        }
    }
    phases
}

fn run(file: &str, settings: &Settings) -> (BTreeMap<String, Vec<Record>>, u64, u64) {
    let program = Program::build(&["library.c"], &["-O1", "-fno-builtin", "-no-pie"]);
    let session = TestSession::new(settings);
    let collected = session.run(program.command(&[file]));
    let said = collected.text();
    assert!(collected.output.status.success(), "{said}");
    let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address");
    let (a, b) = said.lines().next().and_then(|line| line.split_once(' ')).expect("two addresses");
    (phases(&collected), address(a), address(b))
}

#[test]
fn memory_and_string_functions_record_the_bytes_they_touch() {
    let (phases, a, b) = run("/dev/shm/strandline-runtime-test-a", &Settings::default());
    let (load, store) = (access::LOAD, access::STORE);
    let wanted = [
        (store, a, 100),
        (load, a, 50),
        (store, b, 50),
        (load, a, 50),
        (store, a + 1, 50),
        (load, a, 50),
        (load, b, 50),
        (load, a, 11),
        (load, b, 11),
        (load, a, 11),
        (store, a, 8),
        (load, a, 8),
        (load, a, 8),
        (store, b, 8),
        (load, a, 8),
        (load, b, 8),
        (load, b, 8),
        (load, a, 8),
        (store, b + 7, 8),
        (load, a, 8),
        (store, b, 10),
        (load, a, 4),
        (load, a, 6),
        (load, a, 8),
        (store, b, 8),
    ];
    let inside = |record: &&Record| {
        (a..a + 4096).contains(&record.words[0]) || (b..b + 4096).contains(&record.words[0])
    };
    let recorded = phases["strings"].iter().filter(inside);
    let recorded: Vec<_> =
        recorded.map(|record| (record.argument, record.words[0], record.words[1])).collect();
    assert_eq!(recorded, wanted);
}

#[test]
fn every_allocation_is_recorded_once_with_its_site_and_freed_once() {
    let (phases, ..) = run("/dev/shm/strandline-runtime-test-b", &Settings::default());
    let mut lengths = Vec::new();
    let mut alive = BTreeMap::new();
    for record in &phases["allocate"] {
        match record.kind {
            kind::ALLOC => {
                assert!(alive.insert(record.words[0], record.words[1]).is_none());
                // The program was linked for addresses below this, and it is the only one that allocates
                // here.
                assert!(record.pc < 1 << 32, "{record:x?}");
                lengths.push(record.words[1]);
            }
            kind::FREE => assert!(alive.remove(&record.words[0]).is_some(), "{record:x?}"),
            _ => {}
        }
    }
    assert_eq!(lengths, [100, 5000, 90, 300, 8, 24]);
    assert!(alive.is_empty());
}

#[test]
fn libpmem_and_persistent_mappings() {
    let file = "/dev/shm/strandline-runtime-test-c";
    let (phases, a, b) = run(file, &Settings::default());
    let records = &phases["persist"];
    let simple: Vec<_> = records
        .iter()
        .filter(|record| matches!(record.kind, kind::ACCESS | kind::FLUSH | kind::FENCE))
        .map(|record| (record.kind, record.argument, record.words.clone()))
        .collect();
    let (access_, flush_, fence) = (kind::ACCESS, kind::FLUSH, (kind::FENCE, 0, vec![]));
    let wanted = [
        (flush_, flush::CLWB, vec![a, 100]),
        fence.clone(),
        (flush_, flush::CLWB, vec![a + 60, 8]),
        fence.clone(),
        (access_, access::LOAD, vec![a, 255]),
        (access_, access::STORE, vec![b, 255]),
        (flush_, flush::CLWB, vec![b, 255]),
        fence.clone(),
        (access_, access::LOAD, vec![a, 256]),
        (access_, access::STORE_NT, vec![b, 256]),
        fence,
        (access_, access::STORE_NT, vec![a, 300]),
    ];
    assert_eq!(simple, wanted);
    let regions: Vec<_> = records
        .iter()
        .filter(|record| matches!(record.kind, kind::REGION_BEGIN | kind::REGION_END))
        .map(|record| (record.kind, record.words[0]))
        .collect();
    assert_eq!(regions, [(kind::REGION_BEGIN, 42), (kind::REGION_END, 42)]);
    check_mappings(records, file);
}

/// Mapped, made smaller, a page taken out of the middle, then all of it.
fn check_mappings(records: &[Record], file: &str) {
    let recorded: Vec<_> =
        records.iter().filter(|record| matches!(record.kind, kind::MAP | kind::UNMAP)).collect();
    let mapped: Vec<_> = recorded.iter().filter(|record| record.kind == kind::MAP).collect();
    assert!(mapped.iter().all(|record| text(record, 2) == file.as_bytes()));
    let map = mapped[0].words[0];
    let wanted = [
        (kind::MAP, map, 1 << 16),
        (kind::UNMAP, map, 1 << 16),
        (kind::MAP, map, 1 << 15),
        (kind::UNMAP, map + 8192, 4096),
    ];
    let first: Vec<_> =
        recorded.iter().map(|record| (record.kind, record.words[0], record.words[1])).collect();
    assert_eq!(first[..4], wanted);
    let mut rest = first[4..].to_vec();
    rest.sort_unstable();
    assert_eq!(rest, [(kind::UNMAP, map, 8192), (kind::UNMAP, map + 12288, (1 << 15) - 12288)]);
}

#[test]
fn a_file_is_persistent_where_the_user_says_so() {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("strandline-runtime-test-{}", std::process::id()));
    let file = file.to_str().expect("UTF-8");
    let maps = |pmem| {
        let (phases, ..) = run(file, &Settings { pmem, ..Settings::default() });
        phases["persist"].iter().filter(|record| record.kind == kind::MAP).count()
    };
    if !file.starts_with("/dev/shm/") {
        assert_eq!(maps(""), 0);
    }
    assert_eq!(maps("*strandline-runtime-t?st-*\0"), 2);
    assert_eq!(maps("/nowhere\0*/strandline-runtime\0"), 0);
}
