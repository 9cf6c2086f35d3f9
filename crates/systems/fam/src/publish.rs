//! The order in which a source makes pages, and what says that they are there, visible: its stores are recorded, and every
//! state of memory that a crash may leave is read. Stores since the last fence may be there or not, each for itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::file::{ENTRY, PRESENT, TABLE};
use crate::{Error, FamFile, Medium, Memory, Owner, Pages, Region, Source, Store, Throttle};

/// A store, or a fence.
type Op = Option<(u64, Vec<u8>)>;

/// The memory that is recorded, by its address, and what was done to it.
static RECORD: Mutex<Option<(usize, Vec<Op>)>> = Mutex::new(None);
/// One recording at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Notes a store, or a fence, if this memory is recorded.
pub fn note(memory: &Memory, store: Option<(u64, &[u8])>) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, ops)) = record.as_mut().filter(|(at, _)| *at == memory.address(0, 0) as usize) {
        let _ = at;
        ops.push(store.map(|(offset, bytes)| (offset, bytes.to_vec())));
    }
}

const OWNER: Owner = Owner { pid: 4711, start: 99 };
const REGIONS: [Region; 2] =
    [Region { start: 0x10000, bytes: 0x2000 }, Region { start: 0x40_0000, bytes: 0x1000 }];

fn wanted(address: u64, bytes: u64) -> Vec<u8> {
    (address..address + bytes).map(|at| (at / 512 + at % 7) as u8 | 1).collect()
}

struct Known;

impl Pages for Known {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(&wanted(address, into.len() as u64));
        Ok(())
    }

    fn read_to(&self, address: u64, memory: &Memory, offset: u64, bytes: u64) -> Result<(), Error> {
        memory.write(offset, &wanted(address, bytes));
        Ok(())
    }
}

/// What `fill` does to a file, and the file before.
fn recorded(path: &Path, fill: impl FnOnce(FamFile)) -> (Vec<u8>, Vec<Op>) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let file = FamFile::create(path, OWNER, &REGIONS).expect("room");
    let before = fs::read(path).expect("there");
    let at = file.memory().address(0, 0) as usize;
    *RECORD.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, Vec::new()));
    fill(file);
    let record = RECORD.lock().unwrap_or_else(PoisonError::into_inner).take();
    (before, record.expect("it was begun").1)
}

/// What is wrong in a state that a crash left, if anything is.
fn wrong(path: &Path) -> Option<String> {
    let file = FamFile::open(path, Some(OWNER)).ok()?;
    for (index, vector) in file.layout().vectors().iter().enumerate() {
        let mut found = vec![0; vector.bytes as usize];
        file.memory().read(vector.offset, &mut found);
        if file.is_present(index) && found != wanted(vector.start, vector.bytes) {
            return Some(format!("vector {index} is said to be there, and is not"));
        }
        if vector.end() <= file.progress() && !file.is_present(index) {
            return Some(format!("progress is past vector {index}, which is not there"));
        }
    }
    if let Err(error) = file.verify() {
        return Some(error.to_string());
    }
    let whole = (0..file.layout().vectors().len()).all(|index| file.is_done(index));
    (file.is_complete() && !whole).then(|| "complete, and a vector is missing".to_owned())
}

/// All states that a crash may leave: how many, and what is wrong in the first that is.
fn crashed(path: &Path, before: &[u8], ops: &[Op]) -> (usize, Option<String>) {
    let mut states = 0;
    for end in 0..=ops.len() {
        let fence = ops[..end].iter().rposition(Option::is_none).unwrap_or(0);
        let pending: Vec<usize> = (fence..end).filter(|at| ops[*at].is_some()).collect();
        for kept in 0_u32..1 << pending.len().min(8) {
            let mut bytes = before.to_vec();
            let sure = (0..fence).chain(
                pending.iter().enumerate().filter(|(bit, _)| kept >> bit.min(&7) & 1 == 1).map(|(_, at)| *at),
            );
            for (offset, store) in sure.filter_map(|at| ops[at].as_ref()) {
                bytes[*offset as usize..*offset as usize + store.len()].copy_from_slice(store);
            }
            fs::write(path, &bytes).expect("written");
            states += 1;
            if let Some(what) = wrong(path) {
                return (states, Some(format!("after {end} of {} steps, kept {kept:b}: {what}", ops.len())));
            }
        }
    }
    (states, None)
}

struct Made(PathBuf);

impl Made {
    fn new(name: &str) -> Made {
        Made(PathBuf::from(format!("/dev/shm/strandline-publish-{}-{name}", std::process::id())))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn trial(name: &str, fill: impl FnOnce(FamFile)) -> (usize, Option<String>) {
    let made = Made::new(name);
    let (before, ops) = recorded(&made.0, fill);
    let crash = Made::new(&format!("{name}-crash"));
    crashed(&crash.0, &before, &ops)
}

#[test]
fn no_state_that_a_crash_leaves_promises_what_is_not_there() {
    let throttle = || Arc::new(Throttle::new(Medium::DRAM));
    let (states, found) = trial("ours", |file| {
        Source::start(file, Box::new(Known), throttle(), Store::Direct).wait().expect("dumped");
    });
    assert_eq!(found, None);
    assert!(states > 20, "{states}");
}

/// The same with one fault each, which must be found.
#[test]
fn each_fault_in_the_order_is_found() {
    let twin = |name: &str, write: fn(&FamFile, usize)| {
        trial(name, |file| {
            for index in 0..file.layout().vectors().len() {
                write(&file, index);
                file.set_progress(file.layout().vectors()[index].end());
            }
            file.complete();
        })
    };
    fn data(file: &FamFile, index: usize) {
        let vector = file.layout().vectors()[index];
        file.memory().write(vector.offset, &wanted(vector.start, vector.bytes));
    }
    let (_, none) = twin("right", |file, index| {
        data(file, index);
        file.set_present(index);
        file.seal(index);
    });
    assert_eq!(none, None, "the twin without a fault");
    type Publishes = fn(&FamFile, usize);
    let faults: [(&str, Publishes); 4] = [
        ("early", |file, index| {
            file.set_present(index);
            data(file, index);
            file.seal(index);
        }),
        ("unfenced", |file, index| {
            data(file, index);
            file.memory().store_half(TABLE + index as u64 * ENTRY + 24, PRESENT);
            file.seal(index);
        }),
        ("ahead", |file, index| {
            file.set_progress(file.layout().vectors()[index].end());
            data(file, index);
            file.set_present(index);
            file.seal(index);
        }),
        ("unsealed", |file, index| {
            data(file, index);
            file.set_present(index);
            file.seal(index);
            file.memory().store_half(TABLE + index as u64 * ENTRY + 20, 7);
        }),
    ];
    for (name, write) in faults {
        let (_, found) = twin(name, write);
        assert!(found.is_some(), "{name} is not found");
    }
}
