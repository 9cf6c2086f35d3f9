//! Two files on a disk that keeps, at a crash, any of the sectors that were written since the last sync.

use std::cell::RefCell;
use std::io::Result;
use std::rc::Rc;

use sfr::journal::Disk;

const SECTOR: usize = 512;

/// Numbers that look random.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What was done to a file since its last sync.
#[derive(Clone)]
enum Change {
    Sector(usize, Vec<u8>),
    Length(usize),
}

#[derive(Clone, Default)]
struct File {
    /// What a crash keeps at least.
    durable: Vec<u8>,
    now: Vec<u8>,
    changes: Vec<Change>,
}

/// Both files at one point of a run.
#[derive(Clone, Default)]
pub struct Point([File; 2]);

#[derive(Default)]
struct State {
    files: Point,
    watched: Option<Vec<(bool, Point)>>,
    /// Whether the commit that is watched was promised.
    returned: bool,
}

/// The disk.
#[derive(Clone, Default)]
pub struct Disks(Rc<RefCell<State>>);

/// One of its files.
#[derive(Clone)]
pub struct Drive {
    disks: Disks,
    file: usize,
}

impl Disks {
    pub fn of(journal: Vec<u8>, data: Vec<u8>) -> Disks {
        let file = |bytes: Vec<u8>| File { durable: bytes.clone(), now: bytes, changes: Vec::new() };
        let state = State { files: Point([file(journal), file(data)]), ..State::default() };
        Disks(Rc::new(RefCell::new(state)))
    }

    pub fn journal(&self) -> Drive {
        Drive { disks: self.clone(), file: 0 }
    }

    pub fn data(&self) -> Drive {
        Drive { disks: self.clone(), file: 1 }
    }

    /// From now on each operation is a crash point.
    pub fn watch(&self) {
        let mut state = self.0.borrow_mut();
        state.watched = Some(Vec::new());
        state.returned = false;
    }

    /// What was watched so far was before a promise, the rest is after it.
    pub fn mark(&self) {
        let mut state = self.0.borrow_mut();
        state.returned = true;
        state.note();
    }

    pub fn watched(&self) -> Vec<(bool, Point)> {
        self.0.borrow_mut().watched.take().unwrap_or_default()
    }
}

impl State {
    fn note(&mut self) {
        let now = (self.returned, self.files.clone());
        if let Some(watched) = &mut self.watched {
            watched.push(now);
        }
    }
}

impl Point {
    /// What a crash leaves: of each file, any changes since its last sync.
    pub fn crash(&self, random: &mut Random) -> Disks {
        let [journal, data] = self.0.each_ref().map(|file| file.crash(random));
        Disks::of(journal, data)
    }
}

impl File {
    fn crash(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // All, none, or each by chance.
        let way = random.below(4);
        for change in &self.changes {
            if way == 0 || (way > 1 && random.below(2) == 0) {
                continue;
            }
            match change {
                Change::Sector(at, sector) => put(&mut bytes, *at, sector),
                Change::Length(length) => bytes.resize(*length, 0),
            }
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, from: &[u8]) {
    if bytes.len() < at + from.len() {
        bytes.resize(at + from.len(), 0);
    }
    bytes[at..at + from.len()].copy_from_slice(from);
}

impl Drive {
    pub fn bytes(&self) -> Vec<u8> {
        self.disks.0.borrow().files.0[self.file].now.clone()
    }

    /// Makes these bytes its durable contents.
    pub fn write_all(&self, bytes: &[u8]) {
        let mut state = self.disks.0.borrow_mut();
        state.files.0[self.file] = File { durable: bytes.to_vec(), now: bytes.to_vec(), changes: Vec::new() };
    }

    fn change(&self, work: impl FnOnce(&mut File)) -> Result<()> {
        let mut state = self.disks.0.borrow_mut();
        work(&mut state.files.0[self.file]);
        state.note();
        Ok(())
    }
}

impl Disk for Drive {
    fn read(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        let state = self.disks.0.borrow();
        let now = &state.files.0[self.file].now;
        let there = now.get(at as usize..).unwrap_or_default();
        let got = there.len().min(to.len());
        to[..got].copy_from_slice(&there[..got]);
        Ok(got)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.change(|file| {
            let at = at as usize;
            put(&mut file.now, at, from);
            let mut begin = at;
            while begin < at + from.len() {
                let end = ((begin / SECTOR + 1) * SECTOR).min(at + from.len());
                file.changes.push(Change::Sector(begin, from[begin - at..end - at].to_vec()));
                begin = end;
            }
        })
    }

    fn sync(&self) -> Result<()> {
        self.change(|file| {
            file.durable = file.now.clone();
            file.changes.clear();
        })
    }

    fn length(&self) -> Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.change(|file| {
            file.now.resize(length as usize, 0);
            file.changes.push(Change::Length(length as usize));
        })
    }
}
