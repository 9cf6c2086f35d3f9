//! Pages from fabric-attached memory: read there without a message where the target knows that they are there.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use serde::Serialize;

use super::Error;
use super::delay::{Throttle, Way};
use super::file::FamFile;
use super::layout::Region;
use super::message::Frame;
use super::space::{Space, Step};
use super::stream::Stream;
use super::transport::Transport;
use super::uffd::PAGE;

/// How pages get from FAM into the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Install {
    /// Copied into memory of its own, so many bytes at a fault (a multiple of a page).
    Copy {
        /// Bytes around the fault, aligned to themselves.
        grain: u64,
    },
    /// Mapped: the process maps the file privately, reads FAM itself, and copies a page at its first write.
    Map,
}

/// FAM, and the source's daemon while it lasts.
pub struct Fam {
    file: FamFile,
    source: Option<Stream>,
    throttle: Arc<Throttle>,
    install: Install,
    /// Vectors that acknowledgements named, newest first.
    dumped: VecDeque<(u64, u64)>,
    progress: u64,
    all_done: bool,
    asked: u64,
    /// Of a file without a source, the vectors that have been held against their checksums.
    checked: Option<Vec<bool>>,
    /// With [`Install::Map`], what the process maps, by address; none: all of it.
    mapped: Option<Vec<Region>>,
}

impl Fam {
    /// From a file that a source is filling.
    #[must_use]
    pub fn new(file: FamFile, source: impl Into<Stream>, throttle: Arc<Throttle>, install: Install) -> Fam {
        let source = Some(source.into());
        let dumped = VecDeque::new();
        let (checked, mapped) = (None, None);
        Fam {
            file,
            source,
            throttle,
            install,
            dumped,
            progress: 0,
            all_done: false,
            asked: 0,
            checked,
            mapped,
        }
    }

    /// From a file that is complete: no source is needed, nor that there ever was one. Each vector is held against its
    /// checksum when a page of it is first wanted.
    #[must_use]
    pub fn complete(file: FamFile, throttle: Arc<Throttle>, install: Install) -> Fam {
        let dumped = VecDeque::new();
        let checked = Some(vec![false; file.layout().vectors().len()]);
        let mapped = None;
        Fam {
            file,
            source: None,
            throttle,
            install,
            dumped,
            progress: 0,
            all_done: true,
            asked: 0,
            checked,
            mapped,
        }
    }

    /// The process maps these regions, in order of addresses; all others are copied.
    #[must_use]
    pub fn mapping(mut self, regions: Vec<Region>) -> Fam {
        self.install = Install::Map;
        self.mapped = Some(regions);
        self
    }

    /// What lies with this address in one vector and gets into the process in the same way: its start, its end, and whether
    /// it is mapped.
    fn piece(&self, address: u64) -> Option<(u64, u64, bool)> {
        let vector = self.file.layout().vectors()[self.file.layout().find(address)?];
        let (start, end) = (vector.start, vector.end());
        let Some(mapped) = self.mapped.as_ref() else {
            return Some((start, end, self.install == Install::Map));
        };
        let after = mapped.partition_point(|region| region.start <= address);
        let before = after.checked_sub(1).map(|index| mapped[index]);
        let past = before.map_or(0, |region| region.start + region.bytes);
        Some(match before.filter(|_| address < past) {
            Some(region) => (start.max(region.start), end.min(past), true),
            None => (start.max(past), mapped.get(after).map_or(end, |next| end.min(next.start)), false),
        })
    }

    /// Messages that were sent because a page was not known to be in FAM.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether the source is no longer needed.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.all_done
    }

    fn knows(&mut self, page: u64) -> bool {
        if self.all_done || page < self.progress {
            return true;
        }
        let Some(at) = self.dumped.iter().position(|(start, end)| (*start..*end).contains(&page)) else {
            return false;
        };
        // Least recently used last.
        if let Some(entry) = self.dumped.remove(at) {
            self.dumped.push_front(entry);
        }
        true
    }

    fn hear(&mut self, frame: Frame) -> Result<(), Error> {
        match frame {
            Frame::Ack { progress, start, end } => {
                self.progress = self.progress.max(progress);
                self.dumped.retain(|(_, end)| *end > progress);
                if start >= self.progress {
                    self.dumped.push_front((start, end));
                }
            }
            Frame::Done => {
                self.all_done = true;
                self.dumped.clear();
            }
            Frame::Failed { missing } => return Err(Error::SourceLost { missing }),
            other => return Err(Error::Protocol(format!("{other:?} from the source"))),
        }
        Ok(())
    }

    /// The connection broke: whether all is in FAM decides what that means.
    fn without_source(&mut self) -> Result<(), Error> {
        self.source = None;
        if self.file.is_complete() {
            self.all_done = true;
            return Ok(());
        }
        let vectors = self.file.layout().vectors();
        let missing = (0..vectors.len()).filter(|index| !self.file.is_present(*index));
        Err(Error::SourceLost { missing: missing.map(|index| vectors[index].bytes).sum() })
    }

    /// Returns once the page is in FAM.
    fn ensure(&mut self, page: u64) -> Result<(), Error> {
        let mut sent = false;
        while !self.knows(page) {
            let Some(source) = &mut self.source else { return self.without_source() };
            let step = (|| {
                if !sent {
                    Frame::Request { address: page }.send(source)?;
                }
                Frame::receive(source)
            })();
            if !sent {
                self.asked += 1;
            }
            sent = true;
            match step {
                Ok(frame) => self.hear(frame)?,
                Err(Error::Os { .. }) => self.without_source()?,
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Installs a range, piece by piece, each once it is in FAM.
    fn put(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        let (mut at, end) = (start, start + bytes);
        while at < end {
            let Some((_, past, mapped)) = self.piece(at) else { return Err(Error::Stray(at)) };
            let now = past.min(end) - at;
            self.ensure(at)?;
            match self.put_piece(at, now, mapped, space)? {
                Step::Done => at += now,
                other => return Ok(other),
            }
        }
        Ok(Step::Done)
    }

    fn put_piece(&mut self, start: u64, bytes: u64, mapped: bool, space: &mut Space) -> Result<Step, Error> {
        let Some(index) = self.file.layout().find(start) else { return Err(Error::Stray(start)) };
        let vector = self.file.layout().vectors()[index];
        let offset = vector.offset + (start - vector.start);
        if let Some(checked) = self.checked.as_mut().filter(|checked| !checked[index]) {
            self.file.verify_vector(index)?;
            checked[index] = true;
        }
        if mapped {
            return space.map(start, bytes);
        }
        let from = self.file.memory().address(offset, bytes);
        self.throttle.during(Way::Read, bytes, || {
            // SAFETY: `address` checked the range.
            unsafe { space.copy(start, from, bytes) }
        })
    }
}

/// Bytes around a fault that are copied where the rest is mapped.
const BESIDE_MAPPED: u64 = 64 << 10;

impl Transport for Fam {
    fn fault(&mut self, page: u64, space: &mut Space) -> Result<Step, Error> {
        let Some((first, past, mapped)) = self.piece(page) else { return Err(Error::Stray(page)) };
        let (start, end) = if mapped {
            (first, past)
        } else {
            let grain =
                if let Install::Copy { grain } = self.install { grain.max(PAGE) } else { BESIDE_MAPPED };
            let start = page / grain * grain;
            (start.max(first), (start + grain).min(past))
        };
        // The fault's own page first: its thread goes on while the rest follows.
        match self.put(page, PAGE, space)? {
            Step::Done if end - start > PAGE => self.put(start, end - start, space),
            other => Ok(other),
        }
    }

    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        self.put(start, bytes, space)
    }

    fn news_fd(&self) -> Option<RawFd> {
        self.source.as_ref().map(AsRawFd::as_raw_fd).filter(|_| !self.all_done)
    }

    fn news(&mut self) -> Result<(), Error> {
        let Some(source) = &mut self.source else { return Ok(()) };
        match Frame::receive(source) {
            Ok(frame) => self.hear(frame),
            Err(Error::Os { .. }) => self.without_source(),
            Err(other) => Err(other),
        }
    }

    fn bye(&mut self) {
        if let Some(source) = &mut self.source {
            let _ = Frame::Bye.send(source);
        }
    }
}
