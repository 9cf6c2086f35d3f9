//! The restored process's memory while pages are still to come: which are there, and how the others get there.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::Error;
use super::layout::{Layout, Vector};
use super::uffd::{Event, Installed, PAGE, Uffd};

/// Pages of one vector, a bit each.
type Bits = [u64; 8];

/// One address space whose faults are served. A fork makes another one.
#[derive(Debug)]
pub struct Space {
    uffd: Uffd,
    layout: Arc<Layout>,
    have: Vec<Bits>,
    left: u64,
    /// Ranges that `mremap` moved: new address, old address, bytes.
    moved: Vec<(u64, u64, u64)>,
}

/// What a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Done,
    /// Read events first, then try again.
    Busy,
    /// The process is gone.
    Gone,
}

impl Space {
    /// With no page installed.
    #[must_use]
    pub fn new(uffd: Uffd, layout: Arc<Layout>) -> Space {
        let left = layout.bytes() / PAGE;
        let have = vec![[0; 8]; layout.vectors().len()];
        Space { uffd, layout, have, left, moved: Vec::new() }
    }

    /// The address space of a child that was forked just now.
    #[must_use]
    pub fn fork(&self, uffd: Uffd) -> Space {
        Space {
            uffd,
            layout: Arc::clone(&self.layout),
            have: self.have.clone(),
            left: self.left,
            moved: self.moved.clone(),
        }
    }

    /// Its userfaultfd.
    #[must_use]
    pub fn uffd(&self) -> &Uffd {
        &self.uffd
    }

    /// For `poll`.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.uffd.as_raw_fd()
    }

    /// Pages that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The address that a page had in the checkpoint.
    #[must_use]
    pub fn original(&self, page: u64) -> u64 {
        let moved = self.moved.iter().rev().find(|(to, _, bytes)| (*to..to + bytes).contains(&page));
        moved.map_or(page, |(to, from, _)| from + (page - to))
    }

    /// The address that a page of the checkpoint has now, and the bytes from there on that moved alike.
    fn current(&self, original: u64, bytes: u64) -> (u64, u64) {
        for (to, from, length) in self.moved.iter().rev() {
            if (*from..from + length).contains(&original) {
                return (to + (original - from), bytes.min(from + length - original));
            }
        }
        let next = self.moved.iter().map(|(_, from, _)| *from).filter(|from| *from > original).min();
        (original, next.map_or(bytes, |next| bytes.min(next - original)))
    }

    /// Whether nothing more is to be installed at a page of the checkpoint. Addresses that it does not have count so, too.
    #[must_use]
    pub fn has(&self, original: u64) -> bool {
        self.layout.find(original).is_none_or(|index| {
            let bit = (original - self.layout.vectors()[index].start) / PAGE;
            self.have[index][bit as usize / 64] >> (bit % 64) & 1 == 1
        })
    }

    /// The first run of pages from an address on, inside of its vector, that are still to come.
    #[must_use]
    pub fn missing(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let start = (from..end).step_by(PAGE as usize).find(|page| !self.has(*page))?;
        let past = (start..end).step_by(PAGE as usize).find(|page| self.has(*page)).unwrap_or(end);
        Some((start, past - start))
    }

    /// The first vector from a number on of which pages are to come.
    #[must_use]
    pub fn next_vector(&self, from: usize) -> Option<usize> {
        (from..self.have.len()).find(|index| {
            let vector = &self.layout.vectors()[*index];
            let all: u32 = self.have[*index].iter().map(|word| word.count_ones()).sum();
            u64::from(all) < vector.bytes / PAGE
        })
    }

    /// Where pages are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn mark(&mut self, original: u64, bytes: u64) {
        for page in (original..original + bytes).step_by(PAGE as usize) {
            let Some(index) = self.layout.find(page) else { continue };
            let bit = (page - self.layout.vectors()[index].start) / PAGE;
            let word = &mut self.have[index][bit as usize / 64];
            self.left -= u64::from(*word >> (bit % 64) & 1 == 0);
            *word |= 1 << (bit % 64);
        }
    }

    /// Installs what is missing of a range by `put(address now, offset in the range, bytes)`.
    fn install(
        &mut self,
        original: u64,
        bytes: u64,
        put: impl Fn(&Uffd, u64, u64, u64) -> Result<Installed, Error>,
    ) -> Result<Step, Error> {
        let end = original + bytes;
        let mut at = original;
        let mut most = bytes;
        while let Some((start, run)) = self.missing(at, end) {
            let (now, run) = self.current(start, run);
            let run = run.min(most);
            match put(&self.uffd, now, start - original, run)? {
                Installed::Bytes(done) => {
                    self.mark(start, done);
                    at = start + done;
                }
                // The kernel takes no range of two mappings.
                Installed::Unmapped if run > PAGE && self.lives() => most = (run / 2).next_multiple_of(PAGE),
                Installed::Unmapped if !self.lives() => return Ok(Step::Gone),
                Installed::Unmapped => {
                    most = bytes;
                    self.mark(start, PAGE);
                    at = start + PAGE;
                }
                Installed::Busy => return Ok(Step::Busy),
                Installed::Gone => return Ok(Step::Gone),
            }
        }
        Ok(Step::Done)
    }

    /// Copies what is missing of a range.
    ///
    /// # Errors
    /// The kernel refuses.
    ///
    /// # Safety
    /// `from` is readable for `bytes`.
    pub unsafe fn copy(&mut self, original: u64, from: *const u8, bytes: u64) -> Result<Step, Error> {
        self.install(original, bytes, |uffd, to, offset, run| {
            // SAFETY: `offset + run` is inside of `bytes`.
            unsafe { uffd.copy(to, from.add(offset as usize), run) }
        })
    }

    /// Maps what is missing of a range, where the process maps the file that has it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn map(&mut self, original: u64, bytes: u64) -> Result<Step, Error> {
        self.install(original, bytes, |uffd, to, _, run| uffd.map(to, run))
    }

    /// Answers a fault on a page that is there already, was dropped, or never was in the checkpoint.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resolve(&self, page: u64) -> Result<Step, Error> {
        let step = self.uffd.zero(page, PAGE)?;
        match step {
            Installed::Busy => return Ok(Step::Busy),
            Installed::Gone => return Ok(Step::Gone),
            Installed::Bytes(_) | Installed::Unmapped => {}
        }
        match self.uffd.wake(page, PAGE) {
            Err(error) if error.errno() == Some(libc::ESRCH) => Ok(Step::Gone),
            other => other.map(|()| Step::Done),
        }
    }

    /// Whether the process is there yet.
    #[must_use]
    pub fn lives(&self) -> bool {
        // Below all mappings of ordinary processes; never registered for protection, so nothing changes.
        let answer = self.uffd.protect(0x1_0000, PAGE);
        answer.err().and_then(|error| error.errno()) != Some(libc::ESRCH)
    }

    /// Takes note of what the process did with its memory; a fork's child is handed back.
    pub fn note(&mut self, event: Event) -> Option<Space> {
        match event {
            Event::Fork(uffd) => return Some(self.fork(uffd)),
            Event::Remap { from, to, bytes } => {
                let original = self.original(from);
                self.moved.push((to, original, bytes));
            }
            Event::Remove { start, end } | Event::Unmap { start, end } => {
                // Only what the checkpoint has: an unmapped range may be huge.
                let vectors: Vec<Vector> = self.layout.vectors().to_vec();
                for vector in vectors {
                    let (now, bytes) = self.current(vector.start, vector.bytes);
                    let (from, past) = (now.max(start), (now + bytes).min(end));
                    if from < past {
                        self.mark(vector.start + (from - now), past - from);
                    }
                }
            }
            Event::Fault { .. } => {}
        }
        None
    }
}
