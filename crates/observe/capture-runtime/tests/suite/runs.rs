//! Code in line: what it records, whatever happens around it.

use std::os::unix::process::ExitStatusExt;

use crate::support::program::Program;
use crate::support::session::{Collected, Settings, TestSession};
use crate::support::{RUN, Record, descriptor};
use abi::{FLAG_VALUES, MODE_COUNT, access, atomic::IN_ORDER, kind};

const FIXED: &[&str] = &["-O2", "-no-pie"];

/// The first lines of what the program said, as addresses.
fn addresses(collected: &Collected) -> Vec<u64> {
    let text = collected.text();
    let words = text.lines().next().expect("a line").split(' ');
    words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address")).collect()
}

fn runs(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.kind == RUN)
}

#[test]
fn nothing_is_lost_however_the_program_ends() {
    let program = Program::build(&["process.c", "runs.S"], FIXED);
    let end = |how: &str, words: &str| {
        let session = TestSession::new(&Settings { chunk_count: 16, ..Settings::default() });
        let collected = session.run(program.command(&[how, words]));
        let counts: Vec<usize> =
            collected.threads(|_| 2).values().map(|records| runs(records).count()).collect();
        (collected.output.status, counts)
    };
    for how in ["normal", "_exit"] {
        let (status, counts) = end(how, "100003");
        assert!(status.success());
        assert_eq!(counts, [100_003], "{how}");
    }
    let (status, counts) = end("kill", "100003");
    assert_eq!((status.signal(), counts), (Some(libc::SIGKILL), vec![100_003]));
    let (status, counts) = end("segv", "5");
    assert_eq!((status.signal(), counts), (Some(libc::SIGSEGV), vec![5]));
}

#[test]
fn a_fork_and_an_executed_program_are_threads_of_their_own() {
    let program = Program::build(&["process.c", "runs.S"], FIXED);
    let session = TestSession::new(&Settings::default());
    let collected = session.run(program.command(&["fork", "10000"]));
    assert!(collected.output.status.success());
    let counts: Vec<usize> = collected.threads(|_| 2).values().map(|records| runs(records).count()).collect();
    assert_eq!(counts, [15_000, 5_000]);
    let child =
        session.modules().into_iter().find(|module| module.parent != 0).expect("the fork is recorded");
    assert!(collected.chunks.iter().any(|chunk| chunk.pid == child.pid));
    assert!(collected.chunks.iter().any(|chunk| chunk.pid == child.parent));

    let session = TestSession::new(&Settings::default());
    let collected = session.run(program.command(&["exec", "10000"]));
    assert!(collected.output.status.success());
    let counts: Vec<usize> = collected.threads(|_| 2).values().map(|records| runs(records).count()).collect();
    assert_eq!(counts, [10_000, 123]);
    let path = program.path.to_str().expect("UTF-8").as_bytes();
    assert!(session.modules().iter().any(|module| &module.path[..module.path_len as usize] == path));
}

#[test]
fn counting_counts_what_recording_records() {
    let program = Program::build(&["process.c", "runs.S"], FIXED);
    for (how, words) in [("normal", "100003"), ("_exit", "100003"), ("fork", "10000")] {
        let session = TestSession::new(&Settings { mode: MODE_COUNT, ..Settings::default() });
        let collected = session.run(program.command(&[how, words]));
        assert!(collected.output.status.success());
        assert!(collected.chunks.is_empty());
        let copied = if how == "fork" { 20_000 } else { 100_003 };
        let head = session.head();
        let load = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!((load(&head.counted_loads), load(&head.counted_stores)), (copied, copied), "{how}");
    }
}

#[test]
fn signal_handlers_leave_the_interrupted_stream_alone() {
    let program = Program::build(&["signals.c", "runs.S"], FIXED);
    let session = TestSession::new(&Settings::default());
    let collected = session.run(program.command(&["200000"]));
    assert!(collected.output.status.success(), "{:?}", collected.output.status);
    let [from, to, handler_from] = addresses(&collected)[..] else { panic!("three addresses") };
    let threads = collected.threads(|_| 2);
    let in_handler: Vec<u32> =
        collected.chunks.iter().filter(|chunk| chunk.by_handler).map(|chunk| chunk.thread).collect();
    assert!(in_handler.iter().all(|&thread| thread == 1), "{in_handler:?}");
    let words = 4096;
    let own: Vec<_> = runs(&threads[&0]).collect();
    let copied = own.len() - 3 * 7;
    for (at, run) in own.iter().enumerate() {
        let word = 8 * if at < copied { at as u64 % words } else { (at - copied) as u64 % 7 };
        assert_eq!(run.words, [from + word, to + word], "run {at}");
    }
    assert!(copied >= 200_000 && copied % words as usize == 0, "{copied}");
    let handled: Vec<_> = runs(&threads[&1]).collect();
    assert!(handled.len() >= 300 + 3 * 3);
    for (at, run) in handled.iter().enumerate() {
        assert_eq!(run.words[0], handler_from + 8 * (at as u64 % 3));
    }
}

#[test]
fn the_bytes_of_every_store_are_exact() {
    for level in ["-O0", "-O2"] {
        let program = Program::build(&["values.c", "runs.S"], &[level, "-no-pie"]);
        let session = TestSession::new(&Settings { flags: FLAG_VALUES, ..Settings::default() });
        let collected = session.run(program.command(&[]));
        assert!(collected.output.status.success());
        let stdout = &collected.output.stdout;
        let line = stdout.iter().position(|&byte| byte == b'\n').expect("a line");
        let arena = addresses_of(&stdout[..line]);
        let wanted = &stdout[line + 1..];
        let threads = collected.threads(|_| 2);
        let mut memory = vec![0; wanted.len()];
        let mut recorded = 0;
        let records = &threads[&0];
        for (record, after) in records.iter().zip(&records[1..]) {
            let Some((addr, len)) = store(&program, record) else { continue };
            assert_eq!((after.kind, after.words[0]), (kind::VALUE, len), "after {record:x?}");
            if (arena..arena + wanted.len() as u64).contains(&addr) {
                let bytes: Vec<u8> = after.words[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
                let at = (addr - arena) as usize;
                memory[at..at + len as usize].copy_from_slice(&bytes[..len as usize]);
                recorded += 1;
            }
        }
        assert!(recorded > 5000, "{recorded}");
        let different = memory.iter().zip(wanted).position(|(recorded, real)| recorded != real);
        assert_eq!(different, None, "{level}");
    }
}

fn addresses_of(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).expect("text").trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("an address")
}

/// The store that a record records.
fn store(program: &Program, record: &Record) -> Option<(u64, u64)> {
    match (record.kind, record.argument & 7) {
        (RUN, _) => {
            let (count, store) = descriptor(program.bytes_at(record.pc));
            assert_eq!(count, record.words.len());
            store.map(|len| (*record.words.last().expect("not empty"), len as u64))
        }
        (kind::ACCESS, access::STORE | access::STORE_NT) | (kind::ATOMIC, 1 | 2) => {
            Some((record.words[0], record.words[1]))
        }
        _ => None,
    }
}

#[test]
fn hooks_before_instructions_keep_every_register() {
    let program = Program::build(&["hooks.c", "hooks.S"], FIXED);
    let calls = 3000;
    for flags in [0, FLAG_VALUES] {
        let session = TestSession::new(&Settings { chunk_bytes: 4096, flags, ..Settings::default() });
        let collected = session.run(program.command(&[&calls.to_string()]));
        assert!(collected.output.status.success(), "{:?}", collected.output.status);
        let target = addresses(&collected)[0];
        let threads = collected.threads(|_| 0);
        let count = |kind, argument: u8| {
            let is_it = |record: &&Record| record.kind == kind && record.argument & !IN_ORDER == argument;
            let all = threads[&0].iter().filter(is_it);
            all.inspect(|record| assert!(kind == kind::FENCE || record.words[0] == target)).count()
        };
        for flush in 0..4 {
            assert_eq!(count(kind::FLUSH, flush), calls);
        }
        assert_eq!((count(kind::FENCE, 0), count(kind::FENCE, 1)), (calls, calls));
        assert_eq!(count(kind::ACCESS, access::STORE_NT), 5 * calls);
        assert_eq!(count(kind::ATOMIC, 2 | 5 << 4), 5 * calls);
        crate::support::in_order(&threads);
    }
}

#[test]
fn a_program_outlives_its_collector_and_needs_none() {
    let program = Program::build(&["process.c", "runs.S"], FIXED);
    let mut dead = std::process::Command::new("true").spawn().expect("true");
    dead.wait().expect("it ends");
    let session = TestSession::new(&Settings {
        chunk_count: 16,
        chunk_bytes: 4096,
        collector_pid: dead.id(),
        ..Settings::default()
    });
    let collected = session.run_with(&mut program.command(&["normal", "1000000"]), false);
    assert!(collected.output.status.success());
    assert_eq!(collected.chunks.len(), 16);
    assert_eq!(session.head().mode.load(std::sync::atomic::Ordering::SeqCst), abi::MODE_OFF);
    let alone = program.command(&["normal", "1000000"]).status().expect("it runs");
    assert!(alone.success());
}

#[test]
fn sampling_keeps_bursts_of_chunks() {
    let program = Program::build(&["process.c", "runs.S"], FIXED);
    let session = TestSession::new(&Settings { sampling: (1, 4), ..Settings::default() });
    let collected = session.run(program.command(&["normal", "1000000"]));
    assert!(collected.output.status.success());
    let count = runs(&collected.threads(|_| 2)[&0]).count();
    assert!((200_000..300_000).contains(&count), "{count}");
    let last = collected.threads(|_| 2)[&0].last().cloned().expect("records");
    assert_eq!(last.kind, kind::THREAD_END, "what matters is never left out");
}
