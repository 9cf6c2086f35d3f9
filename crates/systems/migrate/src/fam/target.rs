//! Pages from fabric-attached memory: read there without a message where the target knows that they are there.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use serde::Serialize;

use super::Error;
use super::delay::{Throttle, Way};
use super::file::FamFile;
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
}

impl Fam {
    /// From a file that a source is filling.
    #[must_use]
    pub fn new(file: FamFile, source: impl Into<Stream>, throttle: Arc<Throttle>, install: Install) -> Fam {
        let source = Some(source.into());
        let dumped = VecDeque::new();
        Fam { file, source, throttle, install, dumped, progress: 0, all_done: false, asked: 0 }
    }

    /// From a file that is complete: no source is needed, nor that there ever was one.
    #[must_use]
    pub fn complete(file: FamFile, throttle: Arc<Throttle>, install: Install) -> Fam {
        let dumped = VecDeque::new();
        Fam { file, source: None, throttle, install, dumped, progress: 0, all_done: true, asked: 0 }
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

    fn put(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        let Some(offset) = self.file.layout().offset(start) else { return Err(Error::Stray(start)) };
        match self.install {
            Install::Copy { .. } => {
                let from = self.file.memory().address(offset, bytes);
                self.throttle.during(Way::Read, bytes, || {
                    // SAFETY: `address` checked the range.
                    unsafe { space.copy(start, from, bytes) }
                })
            }
            Install::Map => space.map(start, bytes),
        }
    }
}

impl Transport for Fam {
    fn fault(&mut self, page: u64, space: &mut Space) -> Result<Step, Error> {
        self.ensure(page)?;
        let layout = space.layout();
        let Some(index) = layout.find(page) else { return Err(Error::Stray(page)) };
        let vector = layout.vectors()[index];
        let (start, end) = match self.install {
            Install::Copy { grain } => {
                let grain = grain.max(PAGE);
                let start = page / grain * grain;
                (start.max(vector.start), (start + grain).min(vector.end()))
            }
            Install::Map => (vector.start, vector.end()),
        };
        // The fault's own page first: its thread goes on while the rest follows.
        match self.put(page, PAGE, space)? {
            Step::Done if end - start > PAGE => self.put(start, end - start, space),
            other => Ok(other),
        }
    }

    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        self.ensure(start)?;
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
