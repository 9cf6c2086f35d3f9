//! Shadow sub-paging's durable protocol (Ni 2022, section 3.1 and its gaps filled), with every image that a crash can leave.
//!
//! Small pages of two lines, a word each. Durable are the pages, the SSP cache's slots, a journal in a ring, and the page table. A write is
//! pending until a fence; a crash keeps any of the pending writes of a word up to some one, each word by itself.
//!
//! | gap in the source | here |
//! |---|---|
//! | end of a transaction in the journal | the last record of a transaction has a mark |
//! | torn records | a record is two words; the second has a sum over the first |
//! | old records of the ring | each record has its number; recovery stops at one that is not the next |
//! | consolidation | copy, fence, a record with the surviving page and an empty bitmap, fence, then the page table |
//! | page table and journal differ | the slot's page counts; the page table is written again |
//! | checkpoint | slots, fence, tail, fence; a torn slot is repeated from the journal, whose records name all of it |
//! | when the current bitmap is set | after replay |

use std::collections::BTreeMap;

/// Lines of a page, virtual pages, and records of the ring.
const LINES: usize = 2;
const PAGES: usize = 2;
const RING: u64 = 6;

/// A mistake of the protocol: the twins that tests must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    None,
    /// The journal is written before the data are durable.
    DataNotFenced,
    /// Recovery takes records of a transaction that is not whole.
    NoEndMark,
    /// A checkpoint gives the journal's records up before the slots are durable.
    TailFirst,
    /// A consolidation's record is written before its copies are durable.
    RecordBeforeCopies,
    /// Recovery does not look at the records' numbers.
    NoNumbers,
    /// A region writes over the copy that counts.
    InPlace,
}

impl Flaw {
    /// All mistakes.
    pub const ALL: [Flaw; 6] = [
        Flaw::DataNotFenced,
        Flaw::NoEndMark,
        Flaw::TailFirst,
        Flaw::RecordBeforeCopies,
        Flaw::NoNumbers,
        Flaw::InPlace,
    ];
}

/// A durable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// A line of a physical page.
    Line(usize, usize),
    /// The page that a slot's virtual page was in first, and its committed bitmap.
    First(usize),
    Committed(usize),
    /// A record of the journal: its bitmap and page, and the rest.
    Body(u64),
    Seal(u64),
    /// The number of the first record that counts.
    Tail,
    Table(usize),
}

#[derive(Clone, Debug, Default)]
struct Store {
    durable: BTreeMap<Word, u64>,
    pending: Vec<(Word, u64)>,
}

impl Store {
    fn durable(&self, word: Word) -> u64 {
        self.durable.get(&word).copied().unwrap_or(0)
    }

    /// What the machine reads: pending writes too.
    fn read(&self, word: Word) -> u64 {
        let last = self.pending.iter().rev().find(|(written, _)| *written == word);
        last.map_or_else(|| self.durable(word), |(_, value)| *value)
    }

    /// Every memory that a crash now can leave.
    fn images(&self) -> Vec<Store> {
        let mut images = vec![self.durable.clone()];
        let mut words: BTreeMap<Word, Vec<u64>> = BTreeMap::new();
        for &(word, value) in &self.pending {
            words.entry(word).or_default().push(value);
        }
        for (word, values) in words {
            let more = images.iter().flat_map(|image| {
                values.iter().map(move |&value| {
                    let mut image = image.clone();
                    image.insert(word, value);
                    image
                })
            });
            let more: Vec<_> = more.collect();
            images.extend(more);
        }
        images.into_iter().map(|durable| Store { durable, pending: Vec::new() }).collect()
    }
}

/// What the memory controller knows of a virtual page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    first: usize,
    committed: u64,
}

/// A record: bits 0 to 7 slot, 8 the end mark, 16 to 47 its number, 48 on a sum.
fn seal(number: u64, slot: usize, ends: bool, body: u64) -> u64 {
    let plain = slot as u64 | u64::from(ends) << 8 | (number & 0xffff_ffff) << 16;
    let sum = (plain ^ body.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 49;
    plain | sum << 48
}

/// Contents of all virtual lines.
type Contents = [[u64; LINES]; PAGES];

/// A run of the protocol that crashes everywhere.
pub struct Protocol {
    store: Store,
    slots: [Slot; PAGES],
    /// The number of the next record, and of the first that counts.
    head: u64,
    tail: u64,
    flaw: Flaw,
    /// What was acknowledged, and what the transaction at hand makes of it.
    acknowledged: Contents,
    next: Option<Contents>,
    /// Images recovered so far.
    pub images: u64,
}

/// What a crash lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after image {image}: recovered {found:?}, acknowledged {acknowledged:?}, under way {next:?}")]
pub struct Lost {
    /// Which image of the run.
    pub image: u64,
    /// What recovery found,
    pub found: [[u64; 2]; 2],
    /// what was promised,
    pub acknowledged: [[u64; 2]; 2],
    /// and what was under way.
    pub next: Option<[[u64; 2]; 2]>,
}

/// The physical pages of a virtual page.
fn copies(first: usize) -> [usize; 2] {
    [first, first ^ 1]
}

impl Protocol {
    /// Two empty pages, each with a second one.
    #[must_use]
    pub fn new(flaw: Flaw) -> Self {
        let mut store = Store::default();
        let mut slots = [Slot::default(); PAGES];
        for (page, slot) in slots.iter_mut().enumerate() {
            slot.first = 2 * page;
            store.durable.insert(Word::First(page), slot.first as u64);
            store.durable.insert(Word::Table(page), slot.first as u64);
        }
        store.durable.insert(Word::Tail, 1);
        Protocol {
            store,
            slots,
            head: 1,
            tail: 1,
            flaw,
            acknowledged: Contents::default(),
            next: None,
            images: 0,
        }
    }

    fn write(&mut self, word: Word, value: u64) -> Result<(), Lost> {
        self.store.pending.push((word, value));
        self.crash()
    }

    fn fence(&mut self) -> Result<(), Lost> {
        for (word, value) in std::mem::take(&mut self.store.pending) {
            self.store.durable.insert(word, value);
        }
        self.crash()
    }

    /// Recovers every image of a crash now.
    fn crash(&mut self) -> Result<(), Lost> {
        for image in self.store.images() {
            self.images += 1;
            let (slots, _) = recover(&image, self.flaw);
            let found = contents(&image, &slots);
            if found != self.acknowledged && Some(found) != self.next {
                let (acknowledged, next) = (self.acknowledged, self.next);
                return Err(Lost { image: self.images, found, acknowledged, next });
            }
        }
        Ok(())
    }

    fn append(&mut self, page: usize, slot: Slot, ends: bool) -> Result<(), Lost> {
        if self.head - self.tail == RING {
            self.checkpoint()?;
        }
        let (number, body) = (self.head, slot.committed | (slot.first as u64) << 32);
        self.write(Word::Body(number % RING), body)?;
        self.write(Word::Seal(number % RING), seal(number, page, ends, body))?;
        self.head += 1;
        Ok(())
    }

    /// A transaction stores to lines of pages.
    ///
    /// # Errors
    /// If a crash within it loses anything.
    pub fn transact(&mut self, stores: &[(usize, usize, u64)]) -> Result<(), Lost> {
        let mut updated = [0u64; PAGES];
        let mut next = self.acknowledged;
        // Room for all records, so that no checkpoint comes between them.
        if self.head - self.tail + PAGES as u64 > RING {
            self.checkpoint()?;
        }
        for &(page, line, value) in stores {
            updated[page] |= 1 << line;
            next[page][line] = value;
            let Slot { first, committed } = self.slots[page];
            let counts = (committed >> line & 1) as usize;
            let copy = if self.flaw == Flaw::InPlace { counts } else { counts ^ 1 };
            self.write(Word::Line(copies(first)[copy], line), value)?;
        }
        if self.flaw != Flaw::DataNotFenced {
            self.fence()?;
        }
        self.next = Some(next);
        let pages: Vec<usize> = (0..PAGES).filter(|&page| updated[page] != 0).collect();
        let mut after = self.slots;
        for (number, &page) in pages.iter().enumerate() {
            after[page].committed ^= updated[page];
            self.append(page, after[page], number + 1 == pages.len())?;
        }
        self.fence()?;
        self.slots = after;
        self.acknowledged = next;
        self.next = None;
        self.crash()
    }

    /// A page that nobody uses is brought together in that of its copies that has more lines.
    ///
    /// # Errors
    /// If a crash within it loses anything.
    pub fn consolidate(&mut self, page: usize) -> Result<(), Lost> {
        let Slot { first, committed } = self.slots[page];
        let second = committed.count_ones() as usize;
        let survivor = usize::from(2 * second > LINES);
        if self.head - self.tail == RING {
            self.checkpoint()?;
        }
        for line in (0..LINES).filter(|line| (committed >> line & 1) as usize != survivor) {
            let value = self.store.read(Word::Line(copies(first)[survivor ^ 1], line));
            self.write(Word::Line(copies(first)[survivor], line), value)?;
        }
        if self.flaw != Flaw::RecordBeforeCopies {
            self.fence()?;
        }
        let slot = Slot { first: copies(first)[survivor], committed: 0 };
        self.append(page, slot, true)?;
        self.fence()?;
        self.slots[page] = slot;
        self.write(Word::Table(page), slot.first as u64)
    }

    /// Brings the slots up to date and gives up the journal's records.
    ///
    /// # Errors
    /// If a crash within it loses anything.
    pub fn checkpoint(&mut self) -> Result<(), Lost> {
        // What is in the ring and not yet durable is not the checkpoint's.
        self.fence()?;
        for page in 0..PAGES {
            self.write(Word::First(page), self.slots[page].first as u64)?;
            self.write(Word::Committed(page), self.slots[page].committed)?;
        }
        if self.flaw != Flaw::TailFirst {
            self.fence()?;
        }
        self.write(Word::Tail, self.head)?;
        self.fence()?;
        self.tail = self.head;
        Ok(())
    }

    /// Recovers each image of a crash now, crashes everywhere in what recovery writes, and recovers again.
    ///
    /// # Errors
    /// If that loses anything.
    pub fn crash_in_recovery(&mut self) -> Result<(), Lost> {
        for image in self.store.images() {
            let (slots, next) = recover(&image, self.flaw);
            let mut again = Protocol {
                store: image,
                slots,
                head: next,
                flaw: self.flaw,
                acknowledged: self.acknowledged,
                next: self.next,
                images: 0,
                tail: self.tail,
            };
            let result = again.checkpoint();
            self.images += again.images;
            result?;
        }
        Ok(())
    }
}

/// What recovery knows of an image: the slots, and the number of the next record.
fn recover(image: &Store, flaw: Flaw) -> ([Slot; PAGES], u64) {
    let mut slots = [Slot::default(); PAGES];
    for (page, slot) in slots.iter_mut().enumerate() {
        slot.first = image.durable(Word::First(page)) as usize;
        slot.committed = image.durable(Word::Committed(page));
    }
    let (mut number, mut whole) = (image.durable(Word::Tail), Vec::new());
    let mut next = number;
    for _ in 0..RING {
        let body = image.durable(Word::Body(number % RING));
        let sealed = image.durable(Word::Seal(number % RING));
        let (page, ends) = ((sealed & 0xff) as usize, sealed >> 8 & 1 == 1);
        let stamped = if flaw == Flaw::NoNumbers { sealed >> 16 & 0xffff_ffff } else { number };
        if page >= PAGES || sealed == 0 || sealed != seal(stamped, page, ends, body) {
            break;
        }
        whole.push((page, Slot { first: (body >> 32) as usize, committed: body & 0xffff_ffff }));
        number += 1;
        if ends || flaw == Flaw::NoEndMark {
            whole.drain(..).for_each(|(page, slot)| slots[page] = slot);
            next = number;
        }
    }
    (slots, next)
}

fn contents(image: &Store, slots: &[Slot; PAGES]) -> Contents {
    let mut contents = Contents::default();
    for (page, slot) in slots.iter().enumerate() {
        for (line, value) in contents[page].iter_mut().enumerate() {
            let copy = (slot.committed >> line & 1) as usize;
            *value = image.durable(Word::Line(copies(slot.first)[copy], line));
        }
    }
    contents
}

/// Runs so many steps by a seed: transactions, consolidations, checkpoints, each crashing everywhere. Returns the images that
/// were recovered.
///
/// # Errors
/// If one of them lost anything.
pub fn try_all(flaw: Flaw, seed: u64, steps: u64) -> Result<u64, Lost> {
    let mut protocol = Protocol::new(flaw);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for step in 1..=steps {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = state >> 33;
        match dice % 8 {
            0 | 1 => protocol.consolidate((dice >> 8) as usize % PAGES)?,
            2 => protocol.checkpoint()?,
            kind => {
                let (page, line) = ((dice >> 8) as usize % PAGES, (dice >> 12) as usize % LINES);
                let mut stores = vec![(page, line, step)];
                if kind > 4 {
                    stores.push((page ^ 1, line ^ 1, step + 1000));
                }
                protocol.transact(&stores)?;
            }
        }
        protocol.crash_in_recovery()?;
    }
    Ok(protocol.images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_of_every_step_recovers() {
        let images: u64 = (1..=40).map(|seed| try_all(Flaw::None, seed, 40).expect("nothing is lost")).sum();
        assert!(images > 50_000, "{images}");
    }

    #[test]
    fn each_broken_twin_is_caught() {
        for flaw in Flaw::ALL {
            let caught = (1..=40).filter(|&seed| try_all(flaw, seed, 40).is_err()).count();
            assert!(caught > 0, "{flaw:?}");
        }
    }
}
