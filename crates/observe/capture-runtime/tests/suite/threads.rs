//! Threads, locks and the global order of synchronisation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::support::program::Program;
use crate::support::session::{Settings, TestSession};
use crate::support::{Record, in_order, no_runs};
use abi::kind;

fn check_lives(threads: &BTreeMap<u32, Vec<Record>>, ordered: &[(u32, Record)]) {
    for (thread, records) in threads {
        assert_eq!(records.first().map(|first| first.kind), Some(kind::THREAD_START), "thread {thread}");
        assert_eq!(records.last().map(|last| last.kind), Some(kind::THREAD_END), "thread {thread}");
    }
    let at = |wanted: &dyn Fn(u32, &Record) -> bool| {
        ordered.iter().position(|(thread, record)| wanted(*thread, record))
    };
    for (_, spawn) in ordered.iter().filter(|(_, record)| record.kind == kind::SPAWN) {
        let child = spawn.words[0];
        let spawned = at(&|_, record| record == spawn);
        let started = at(&|thread, record| u64::from(thread) == child && record.kind == kind::THREAD_START);
        let ended = at(&|thread, record| u64::from(thread) == child && record.kind == kind::THREAD_END);
        let joined = at(&|_, record| record.kind == kind::JOIN && record.words[0] == child);
        assert!(
            spawned.is_some() && spawned < started && started < ended && ended < joined,
            "thread {child}"
        );
    }
}

/// No exclusive lock is ever held twice, and who gives it up holds it.
fn check_locks(ordered: &[(u32, Record)]) -> usize {
    let mut holders: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut exclusive = 0;
    for (thread, record) in ordered {
        let holders = holders.entry(record.words[0]).or_default();
        match record.kind {
            kind::LOCK if record.argument == 0 => {
                assert!(holders.is_empty(), "{record:x?}: held by {holders:?}");
                holders.push(*thread);
                exclusive += 1;
            }
            kind::LOCK => holders.push(*thread),
            kind::UNLOCK => {
                let at = holders.iter().position(|holder| holder == thread).expect("who unlocks holds");
                holders.remove(at);
            }
            _ => {}
        }
    }
    exclusive
}

#[test]
fn locks_threads_and_atomics_take_their_positions_in_order() {
    let program = Program::build(&["threads.c"], &["-O2"]);
    let session = TestSession::new(&Settings::default());
    let collected = session.run(program.command(&["8", "500"]));
    assert!(collected.output.status.success());
    let threads = collected.threads(no_runs);
    assert_eq!(threads.len(), 10);
    let ordered = in_order(&threads);
    assert_eq!(session.head().sync_seq.load(Ordering::SeqCst), ordered.len() as u64);
    check_lives(&threads, &ordered);
    // Per round a mutex and a spin lock; in the end the turns.
    assert!(check_locks(&ordered) >= 8 * (2 * 500 + 1));
    let workers = threads.values().filter(|records| records.iter().any(|record| record.kind == kind::ALLOC));
    for records in workers {
        let count = |wanted| records.iter().filter(|record| record.kind == wanted).count();
        if count(kind::ALLOC) >= 500 {
            assert_eq!(count(kind::ALLOC), count(kind::FREE));
        }
    }
}

#[test]
fn many_threads_share_few_chunks() {
    let program = Program::build(&["threads.c"], &["-O2"]);
    let session = TestSession::new(&Settings { chunk_count: 16, chunk_bytes: 4096, ..Settings::default() });
    let collected = session.run(program.command(&["64", "200"]));
    assert!(collected.output.status.success());
    let threads = collected.threads(no_runs);
    assert_eq!(threads.len(), 66);
    let ordered = in_order(&threads);
    check_lives(&threads, &ordered);
    check_locks(&ordered);
}

#[test]
fn a_thread_that_is_given_no_chunk_takes_one_that_was_for_nobody() {
    let program = Program::build(&["waiting.c"], &["-O2"]);
    let session = TestSession::new(&Settings { chunk_count: 16, ..Settings::default() });
    session.head().open_chunks.store(4, Ordering::SeqCst);
    let collected = session.run(program.command(&["8"]));
    assert!(collected.output.status.success());
    let threads = collected.threads(no_runs);
    let whole = |records: &&Vec<Record>| {
        [kind::THREAD_START, kind::THREAD_END] == [&records[0], &records[records.len() - 1]].map(|r| r.kind)
    };
    assert_eq!(threads.values().filter(whole).count(), 9);
    assert_eq!(session.head().open_chunks.load(Ordering::SeqCst), 16);
}
