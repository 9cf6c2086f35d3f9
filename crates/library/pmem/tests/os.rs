//! The real environment: its locks exclude, its threads borrow, and all of it is recorded.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use event::{Collected, Discard, Op, ThreadId};
use pmem::Os;
use space::{Env, Image, Recorded, Recording, Space, conformance};

#[test]
fn it_keeps_the_contract_of_an_environment() {
    conformance::environment(|| Os::new(Image::new(64)));
    let recording = Recording::persistent("test", "space");
    conformance::environment(|| {
        Os::new(Recorded::new(Image::new(64), Discard, &recording).expect("the sink takes everything"))
    });
}

#[test]
fn a_wait_is_reported_as_an_unlock_and_a_lock() {
    let recording = Recording::persistent("test", "space");
    let space = Recorded::new(Image::new(64), Collected::default(), &recording);
    let env = Os::new(space.expect("the sink takes everything"));
    let (ready, changed) = (env.mutex(false), env.condvar());
    let mut line = 0;
    {
        // Nobody can notify before the lock is given up, so there is at least one wait.
        let mut held = env.lock(&ready);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *env.lock(&ready) = true;
                env.notify_all(&changed);
            });
            while !*held {
                line = line!() + 1;
                held = env.wait(&changed, held);
            }
        });
    }
    let (_, collected) = env.into_space().finish().expect("the sink takes everything");
    let own: Vec<_> = collected.events.iter().filter(|(thread, _)| *thread == ThreadId(0)).collect();
    let locks: Vec<bool> = own
        .iter()
        .filter_map(|(_, event)| match event.op {
            Op::Lock { .. } => Some(true),
            Op::Unlock { .. } => Some(false),
            _ => None,
        })
        .collect();
    assert!(locks.len() >= 4 && locks.chunks(2).all(|pair| pair == [true, false]), "{locks:?}");
    let unlock = own.iter().find(|(_, event)| matches!(event.op, Op::Unlock { .. })).expect("a wait");
    let frame = collected.table.site(unlock.1.site).and_then(|site| site.frame()).expect("a place");
    assert_eq!(frame.line, line);
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

/// One thread takes a latch so often in a row that it is its own, and others come while it goes on.
#[test]
fn a_latch_has_one_holder_whoever_has_it_mostly() {
    const LATCHES: u64 = 5000;
    const THREADS: u32 = 3;
    let env = Os::new(Image::new(64));
    let shared = AtomicBool::new(false);
    let (begin, end) = (Barrier::new(THREADS as usize), Barrier::new(THREADS as usize));
    let latches: Vec<_> = (0..LATCHES).map(|_| (env.latch((0u64, 0u64)), AtomicBool::new(false))).collect();
    env.threads(THREADS, |thread| {
        for (latch, is_owned) in &latches {
            begin.wait();
            let times = if thread == 0 { 600 } else { 20 };
            while thread > 0 && !is_owned.load(Ordering::Relaxed) {
                spin_loop();
            }
            for time in 0..times {
                let mut both = env.hold(latch);
                both.0 += 1;
                // Another holder would see them differ, or lose a count.
                if both.0 != both.1 + 1 {
                    shared.store(true, Ordering::Relaxed);
                }
                both.1 += 1;
                drop(both);
                if thread == 0 && time == 100 {
                    is_owned.store(true, Ordering::Relaxed);
                }
            }
            end.wait();
        }
    });
    let all = 600 + 20 * u64::from(THREADS - 1);
    assert!(!shared.load(Ordering::Relaxed), "two held a latch");
    assert!(latches.iter().all(|(latch, _)| *env.hold(latch) == (all, all)), "two held a latch");
}

#[test]
fn a_latch_that_is_a_threads_own_keeps_it_out_as_well() {
    let env = Os::new(Image::new(64));
    let latch = env.latch(0);
    (0..1000).for_each(|_| *env.hold(&latch) += 1);
    let held = env.hold(&latch);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (env, latch) = (&env, &latch);
        scope.spawn(move || {
            *env.hold(latch) += 1;
            sender.send(()).expect("the test receives it");
        });
        assert!(
            receiver.recv_timeout(std::time::Duration::from_millis(50)).is_err(),
            "another thread got it"
        );
        drop(held);
        receiver.recv().expect("it gets it now");
    });
    assert_eq!(*env.hold(&latch), 1001);
}
