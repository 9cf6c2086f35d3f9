//! Sheets into a file.
//!
//! A [`super::Writer`] makes *sheets*: parts of a trace file, not yet compressed, in the order of the file.
//! What becomes of them is the matter of an [`Outlet`]. A [`Binder`] compresses them, adds the index and
//! writes; as it is handed whole sheets that it may keep, it can do so on another thread.

use std::io::Write;

use super::columns::{Compression, Packer};
use super::format::{BlockHeader, BlockKind, Trailer};
use super::index::{self, Entry, INDEX_ENTRIES};
use super::predict::column;
use super::words::{DifferenceWriter, Differences};
use event::SinkError;

/// A part of a trace file, or a used one whose memory may be used again.
#[derive(Default)]
pub struct Sheet {
    what: What,
    /// The header, or a block's columns one after the other.
    data: Vec<u8>,
    /// Where each column ends.
    ends: Vec<usize>,
    /// Of a block of events: the differences, of which two more columns are made.
    differences: Differences,
}

#[derive(Default)]
enum What {
    /// Nothing, but what there is goes out with one write; somebody waits for that.
    #[default]
    Out,
    /// The same, and nobody waits.
    OutSometime,
    Header,
    Block(BlockHeader),
    /// The end, after so many events.
    End(u64),
}

impl Sheet {
    pub(super) fn header(mut self, header: &[u8]) -> Self {
        self.what = What::Header;
        self.data.clear();
        self.data.extend_from_slice(header);
        self
    }

    pub(super) fn block(mut self, header: BlockHeader, columns: &[&[u8]]) -> Self {
        self.what = What::Block(header);
        self.data.clear();
        self.ends.clear();
        for column in columns {
            self.data.extend_from_slice(column);
            self.ends.push(self.data.len());
        }
        self
    }

    /// The differences, to be exchanged before [`Sheet::block`].
    pub(super) fn differences(&mut self) -> &mut Differences {
        &mut self.differences
    }

    pub(super) fn out(mut self, urgent: bool) -> Self {
        self.what = if urgent { What::Out } else { What::OutSometime };
        self
    }

    pub(super) fn end(mut self, events: u64) -> Self {
        self.what = What::End(events);
        self
    }

    /// Whether all that there is shall be in the file soon, and not only when more has come.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !matches!(self.what, What::Block(_) | What::OutSometime)
    }

    /// Whether it is a trace's last.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self.what, What::End(_))
    }
}

/// What takes the sheets of a trace.
pub trait Outlet {
    /// Takes a sheet; gives one that is used up, if there is any, or an empty one.
    ///
    /// # Errors
    /// When the trace can't be written. No sheet comes after that.
    fn put(&mut self, sheet: Sheet) -> Result<Sheet, SinkError>;

    /// Bytes written so far; all of them once the last sheet was put.
    fn bytes(&self) -> u64;
}

/// An outlet that writes the file.
pub struct Binder<W> {
    out: W,
    file: String,
    packer: Packer,
    differences: DifferenceWriter,
    index: Vec<Entry>,
    /// Blocks on their way out.
    buffer: Vec<u8>,
    written: u64,
}

impl<W: Write> Binder<W> {
    /// Writes to `out`, which needs no buffer of its own; `name` is how messages call it.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn new(out: W, name: impl Into<String>) -> Result<Self, SinkError> {
        let file = name.into();
        let packer = packer(&file, Compression::default())?;
        let differences = DifferenceWriter::default();
        Ok(Binder { out, file, packer, differences, index: Vec::new(), buffer: Vec::new(), written: 0 })
    }

    /// Chooses how the blocks are stored.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn compression(&mut self, compression: Compression) -> Result<(), SinkError> {
        self.packer = packer(&self.file, compression)?;
        Ok(())
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }

    fn io(&self, source: std::io::Error) -> SinkError {
        let context = format!("can't write trace {} at byte {}", self.file, self.written);
        SinkError::Io { context, source }
    }

    fn write_out(&mut self) -> Result<(), SinkError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.out.write_all(&self.buffer).and_then(|()| self.out.flush()).map_err(|error| self.io(error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Adds a block to the buffer.
    fn add_block(&mut self, header: BlockHeader, sheet: &Sheet) -> Result<(), SinkError> {
        let starts = std::iter::once(0).chain(sheet.ends.iter().copied());
        let mut columns: Vec<&[u8]> =
            starts.zip(&sheet.ends).map(|(start, end)| &sheet.data[start..*end]).collect();
        if header.kind == BlockKind::Events {
            let [codes, differences] = self.differences.columns(sheet.differences.get());
            (columns[column::CODES], columns[column::DIFFERENCES]) = (codes, differences);
        }
        let added = self.packer.append(&mut self.buffer, header, &columns);
        added.map_err(|error| self.io(error))
    }

    fn add_end(&mut self, events: u64) -> Result<(), SinkError> {
        self.write_out()?;
        let index = self.written;
        let entries = std::mem::take(&mut self.index);
        for part in entries.chunks(INDEX_ENTRIES) {
            let header = BlockHeader::plain(BlockKind::Index, part.len() as u32);
            self.add_block(header, &Sheet::default().block(header, &[&index::encode(part)]))?;
        }
        let trailer = Trailer { index, events, index_blocks: entries.len().div_ceil(INDEX_ENTRIES) as u32 };
        self.buffer.extend_from_slice(&trailer.encode());
        self.write_out()
    }
}

impl<W: Write> Outlet for Binder<W> {
    fn put(&mut self, sheet: Sheet) -> Result<Sheet, SinkError> {
        match sheet.what {
            What::Out | What::OutSometime => self.write_out()?,
            What::Header => self.buffer.extend_from_slice(&sheet.data),
            What::Block(header) => {
                self.index.push(Entry::of(&header, self.written + self.buffer.len() as u64));
                self.add_block(header, &sheet)?;
            }
            What::End(events) => self.add_end(events)?,
        }
        Ok(sheet)
    }

    fn bytes(&self) -> u64 {
        self.written
    }
}

fn packer(file: &str, compression: Compression) -> Result<Packer, SinkError> {
    Packer::new(compression)
        .map_err(|source| SinkError::Io { context: format!("can't compress trace {file}"), source })
}
