//! Checkpointers with one fault each, made by changing what a right one has written: a program that looks at what it had
//! open finds each of them.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use migrate::copies::Copies;
use migrate::freeze::{Checkpoint, checkpoint};
use migrate::image::{Description, FileKind, Image, RangeLock, Store};
use migrate::inspect::{Options, inspect};
use migrate::remote::kill;
use migrate::restore::{exit_code, restore};

mod common;

use common::{built, started};

/// A process that is made while another test has a copy has it, too, for a moment: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// It goes over the locks of ranges.
fn locks(image: &mut Image, change: impl Fn(&mut RangeLock)) {
    image.processes.iter_mut().flat_map(|process| &mut process.locks).for_each(change);
}

/// It goes over the open files.
fn open_files(image: &mut Image, change: impl Fn(&mut Description)) {
    image.descriptions.iter_mut().for_each(change);
}

/// It goes over what pipes hold.
fn pipes(image: &mut Image, change: impl Fn(&mut Vec<u8>)) {
    open_files(image, |one| {
        if let FileKind::Pipe { content, .. } = &mut one.kind {
            change(content);
        }
    });
}

/// It goes over pairs of sockets: what they hold, what is shut down of them, their options.
fn pairs(image: &mut Image, change: impl Fn(&mut Vec<Vec<u8>>, &mut u8, &mut Vec<(i32, i32, i32)>)) {
    open_files(image, |one| {
        if let FileKind::SocketPair { content, shutdown, options, .. } = &mut one.kind {
            change(content, shutdown, options);
        }
    });
}

/// Descriptions of a pipe's end other than its first become that one.
fn one_description_of_an_end(image: &mut Image) {
    let all = image.descriptions.clone();
    let of = |one: &Description| match one.kind {
        FileKind::Pipe { inode, .. } => Some((inode, one.flags & libc::O_ACCMODE)),
        _ => None,
    };
    for fd in image.processes.iter_mut().flat_map(|process| &mut process.fds) {
        if let Some(end) = of(&all[fd.description]) {
            fd.description = all.iter().position(|one| of(one) == Some(end)).expect("it is one itself");
        }
    }
}

/// A fault: what a checkpointer that has it does to an image.
type Fault = fn(&mut Image);

const FAULTS: [(&str, Fault); 17] = [
    ("forgets locks of a process", |image| image.processes[0].locks.retain(|lock| lock.of_open_file)),
    ("forgets locks of open files", |image| image.processes[0].locks.retain(|lock| !lock.of_open_file)),
    ("takes a process's lock for an open file's", |image| locks(image, |lock| lock.of_open_file = true)),
    ("takes an open file's lock for a process's", |image| locks(image, |lock| lock.of_open_file = false)),
    ("takes locks to read for locks to write", |image| locks(image, |lock| lock.write = true)),
    ("takes locks to write for locks to read", |image| locks(image, |lock| lock.write = false)),
    ("locks a byte too many", |image| locks(image, |lock| lock.len += u64::from(lock.len > 0))),
    ("locks to a byte, not to the end", |image| locks(image, |lock| lock.len = lock.len.max(1))),
    ("forgets locks of whole files", |image| {
        open_files(image, |one| {
            if let FileKind::Path { flock, .. } = &mut one.kind {
                *flock = None;
            }
        });
    }),
    ("forgets that a pair is half shut down", |image| pairs(image, |_, shutdown, _| *shutdown = 0)),
    ("shuts down the other direction", |image| {
        pairs(image, |_, shutdown, _| *shutdown = *shutdown >> 1 | (*shutdown & 1) << 1);
    }),
    ("forgets options of a pair", |image| pairs(image, |_, _, options| options.clear())),
    ("forgets what a pair holds", |image| pairs(image, |content, _, _| content.clear())),
    ("makes packets one", |image| {
        pairs(image, |content, _, _| *content = vec![content.concat()]);
    }),
    ("forgets what a pipe holds", |image| pipes(image, Vec::clear)),
    ("fills a pipe twice", |image| pipes(image, |content| content.extend(content.clone()))),
    ("has one description for an end of a pipe", one_description_of_an_end),
];

/// Restores the process, and waits for its end: what it wrote, if it ended as it should and in time.
fn went_on(image: &Path, out: &Path) -> Option<String> {
    let _ = fs::remove_file(out);
    let restored = restore(image).ok()?;
    let begin = Instant::now();
    // A fault may leave it waiting for ever.
    while begin.elapsed() < Duration::from_secs(5) && !migrate::inspect::has_ended(restored.pid) {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(restored.pid);
    let code = exit_code(restored.pid).expect("our child");
    (code == 7).then(|| fs::read_to_string(out).unwrap_or_default())
}

#[test]
fn each_fault_of_a_checkpointer_is_found() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "holds") else { return };
    let (out, image) = (folder.path().join("out"), folder.path().join("image"));
    assert_eq!(started(&program, &out).wait().expect("our child").code(), Some(7));
    let wanted = fs::read_to_string(&out).expect("written");
    let mut child = started(&program, &out);
    std::thread::sleep(Duration::from_millis(400));
    let how = Checkpoint { no_sync: true, ..Checkpoint::default() };
    checkpoint(child.id().cast_signed(), &image, &how).expect("it can be saved");
    let _ = child.wait();
    let store = Store::new(&image);
    let right = store.read().expect("whole");
    assert_eq!(went_on(&image, &out).as_ref(), Some(&wanted), "the one without a fault");
    for (name, fault) in FAULTS {
        let mut wrong = right.clone();
        fault(&mut wrong);
        store.write(&wrong, false).expect("written");
        let found = went_on(&image, &out);
        println!("{name}: {}", found.as_deref().unwrap_or("not restored, or not to its end").trim_end());
        assert_ne!(found, Some(wanted.clone()), "{name}: not found");
    }
    store.write(&right, false).expect("written");
    assert_eq!(went_on(&image, &out), Some(wanted), "the one without a fault, again");
}

/// Sockets are looked at through copies: they must not count as held by somebody outside. A copy that another
/// part of this process has stands for a look that takes its own for one.
#[test]
fn a_look_that_counts_its_own_copies_is_found() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "holds") else { return };
    let mut child = started(&program, &folder.path().join("out"));
    std::thread::sleep(Duration::from_millis(300));
    let pid = child.id().cast_signed();
    let hindered = || inspect(pid, &Options::default()).expect("it runs").obstacles;
    assert!(hindered().is_empty(), "{:?}", hindered());
    // Behind both descriptions of the locked file.
    let copy = Copies::new(pid).and_then(|copies| copies.get(5)).expect("its first local socket");
    let found = hindered();
    assert!(found.iter().any(|one| one.fd == Some(5) && one.what.contains("a local socket")), "{found:?}");
    assert_eq!(found.len(), 2, "both ends, and no other: {found:?}");
    drop(copy);
    assert!(hindered().is_empty());
    assert_eq!(child.wait().expect("our child").code(), Some(7));
}
