//! The real environment: its locks exclude, its threads borrow, and all of it is told.

use std::sync::atomic::{AtomicU32, Ordering};

use event::{Collected, Op, ThreadId};
use pmem::Os;
use space::{Env, Image, Recorded, Recording, Space};

#[test]
fn locks_exclude() {
    let env = Os::new(Image::new(64));
    let (sum, shared) = (env.mutex(0u64), env.rw_lock(0u64));
    env.threads(4, |_| {
        for _ in 0..1000 {
            *env.lock(&sum) += 1;
            *env.write(&shared) += 1;
        }
    });
    assert_eq!((*env.lock(&sum), *env.read(&shared)), (4000, 4000));
}

#[test]
fn a_panicking_thread_panics_the_caller_after_the_others_ended() {
    let env = Os::new(Image::new(64));
    let (lock, ended) = (env.mutex(()), AtomicU32::new(0));
    let run = std::panic::AssertUnwindSafe(|| {
        env.threads(4, |index| {
            let _held = env.lock(&lock);
            assert_ne!(index, 1, "told to");
            ended.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(ended.into_inner(), 3);
}

#[test]
fn clock_and_randomness() {
    let env = Os::new(Image::new(64));
    let first = env.now_ns();
    assert!(env.now_ns() >= first);
    assert_ne!(env.random(), env.random());
}

#[test]
fn locks_and_threads_become_events() {
    let recording = Recording::persistent("test", "space");
    let space = Recorded::new(Image::new(4096), Collected::default(), &recording);
    let env = Os::new(space.expect("the sink takes everything"));
    let lock = env.mutex(());
    env.threads(2, |index| {
        let _held = env.lock(&lock);
        env.space().store_u64(u64::from(index) * 64, 1);
    });
    let (_, collected) = env.into_space().finish().expect("the sink takes everything");
    let seqs: Vec<u64> = collected.events.iter().filter_map(|(_, event)| event.op.seq()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    for child in [ThreadId(1), ThreadId(2)] {
        let own: Vec<Op> = collected
            .events
            .iter()
            .filter(|(thread, _)| *thread == child)
            .map(|(_, event)| event.op)
            .collect();
        assert!(
            matches!(
                own[..],
                [
                    Op::ThreadStart { .. },
                    Op::Lock { shared: false, .. },
                    Op::Store { .. },
                    Op::Unlock { .. },
                    Op::ThreadEnd { .. }
                ]
            ),
            "{own:?}"
        );
    }
    let count =
        |wanted: fn(&Op) -> bool| collected.events.iter().filter(|(_, event)| wanted(&event.op)).count();
    assert_eq!(count(|op| matches!(op, Op::Spawn { .. })), 2);
    assert_eq!(count(|op| matches!(op, Op::Join { .. })), 2);
    // No two threads hold the lock at the same time.
    let mut held = false;
    for (_, event) in &collected.events {
        match event.op {
            Op::Lock { .. } => assert!(!std::mem::replace(&mut held, true)),
            Op::Unlock { .. } => assert!(std::mem::replace(&mut held, false)),
            _ => {}
        }
    }
}
