//! A file into events.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use event::{BlockShape, Capabilities, Definition, Sink, SinkError, SiteTable, ThreadId};

use super::columns::{Columns, Unpacker};
use super::decode::Decoder;
use super::definitions;
use super::error::{Malformed, TraceError};
use super::format::{
    BLOCK_HEADER, BlockHeader, BlockKind, COLUMN_MAX, HEADER_BODY_MAX, HEADER_PREFIX, Header, MAGIC, TRAILER,
    Trailer, VERSION, VERSION_OFFSET, verify,
};
use super::index::{self, Entry, Index};
use super::merge::Batches;
use super::thread::ThreadBatches;

/// A trace file, opened.
///
/// Keeps the code sites and 56 bytes per block of up to 65,535 events; replaying adds one
/// block of each thread that is alive at the time.
#[derive(Debug)]
pub struct Reader<R> {
    pub(super) blocks: Blocks<R>,
    pub(super) index: Index,
    header: Header,
    table: SiteTable,
    truncated: Option<Truncation>,
}

/// A trace whose writer was killed: what follows its last whole block was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Where the last whole block ends.
    pub offset: u64,
    /// Bytes of the file after that.
    pub lost_bytes: u64,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes of the file.
    pub bytes: u64,
    /// Blocks of events.
    pub blocks: u64,
    /// Threads that have events.
    pub threads: u64,
    /// Events of all threads.
    pub events: u64,
    /// Code sites.
    pub sites: u64,
    /// Nanoseconds of the run up to the last batch; 0 if the source had no clock.
    pub duration_ns: u64,
    /// Set if the writer was killed.
    pub truncated: Option<Truncation>,
}

impl Reader<File> {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// When the system refuses, or the file is foreign, newer or corrupt. A file cut short is none:
    /// see [`Reader::truncated`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match File::open(path).and_then(seekable) {
            Ok(file) => Reader::new(file, name),
            Err(source) => Err(TraceError::Io { file: name, offset: 0, source }),
        }
    }
}

/// The file, unless it can only be read forward: a trace's index is at its end.
fn seekable(mut file: File) -> std::io::Result<File> {
    match file.rewind() {
        Err(error) if error.kind() == ErrorKind::NotSeekable => {
            let remedy = "a trace can't be read from a pipe; write it to a file first";
            Err(std::io::Error::new(ErrorKind::NotSeekable, remedy))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(file),
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Opens the trace in `file`, from its beginning; `name` is how messages call it.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(file: R, name: impl Into<String>) -> Result<Self, TraceError> {
        let mut blocks = Blocks::new(file, name.into())?;
        let (header, header_end) = blocks.header()?;
        let (mut index, truncated) = match blocks.trailer(header_end)? {
            Some(trailer) => (blocks.index(&trailer)?, None),
            None => blocks.scan(header_end)?,
        };
        index.look_ahead();
        let mut table = SiteTable::default();
        for entry in &index.definitions {
            blocks.definitions(entry, &mut table)?;
        }
        Ok(Reader { blocks, index, header, table, truncated })
    }

    /// What stands at the head of the trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Every code site and name of the trace.
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// Set if the writer was killed and the trace ends with its last whole block.
    pub fn truncated(&self) -> Option<Truncation> {
        self.truncated
    }

    /// What the trace holds.
    pub fn info(&self) -> Info {
        Info {
            bytes: self.blocks.len,
            blocks: self.index.blocks,
            threads: self.index.threads.len() as u64,
            events: self.index.events,
            sites: self.table.sites().count() as u64,
            duration_ns: self.index.threads.values().flatten().map(|entry| entry.end_ns).max().unwrap_or(0),
            truncated: self.truncated,
        }
    }

    /// The threads that have events, with their number of events.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, u64)> {
        self.index.threads.iter().map(|(thread, blocks)| {
            (ThreadId(*thread), blocks.iter().map(|entry| u64::from(entry.count)).sum())
        })
    }

    pub(super) fn keeps_values(&self) -> bool {
        self.header.source.capabilities.contains(Capabilities::VALUES)
    }

    /// All threads' batches in the order that [`event::Batch`] promises.
    pub fn batches(&mut self) -> Batches<'_, R> {
        Batches::new(self)
    }

    /// One thread's batches.
    ///
    /// # Errors
    /// When the thread has no events.
    pub fn thread(&mut self, thread: ThreadId) -> Result<ThreadBatches<'_, R>, TraceError> {
        ThreadBatches::new(self, thread)
    }

    /// Gives the whole trace to `sink`, from `begin` to `finish`.
    ///
    /// # Errors
    /// When the sink needs what the trace lacks, the trace is corrupt, or the sink stops.
    pub fn replay<S: Sink + ?Sized>(&mut self, sink: &mut S) -> Result<(), TraceError> {
        let source = &self.header.source;
        let missing = sink.needs() - source.capabilities;
        if !missing.is_empty() {
            let producer = source.producer.clone();
            return Err(SinkError::Lacks { consumer: sink.name(), producer, missing }.into());
        }
        sink.begin(source)?;
        for (id, site) in self.table.sites() {
            sink.define(Definition::Site(id, site))?;
        }
        for (id, name) in self.table.names() {
            sink.define(Definition::Name(id, name))?;
        }
        let mut batches = self.batches();
        while let Some(batch) = batches.next()? {
            sink.push(batch)?;
        }
        sink.finish()?;
        Ok(())
    }
}

/// The file, block by block.
pub(super) struct Blocks<R> {
    file: R,
    name: String,
    len: u64,
    payload: Vec<u8>,
    unpacker: Unpacker,
    shapes: Arc<Vec<BlockShape>>,
}

impl<R> std::fmt::Debug for Blocks<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").field("name", &self.name).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<R: Read + Seek> Blocks<R> {
    fn new(mut file: R, name: String) -> Result<Self, TraceError> {
        let unpacker = Unpacker::new().and_then(|unpacker| Ok((unpacker, file.seek(SeekFrom::End(0))?)));
        match unpacker {
            Ok((unpacker, len)) => {
                let shapes = Arc::default();
                Ok(Blocks { file, name, len, payload: Vec::new(), unpacker, shapes })
            }
            Err(source) => Err(TraceError::Io { file: name, offset: 0, source }),
        }
    }

    pub(super) fn corrupt(&self, offset: u64, Malformed(what): Malformed) -> TraceError {
        TraceError::Corrupt { file: self.name.clone(), offset, what }
    }

    pub(super) fn no_thread(&self, thread: ThreadId) -> TraceError {
        TraceError::NoThread { file: self.name.clone(), thread: thread.0 }
    }

    /// Fills `buffer` from `offset` on.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), TraceError> {
        let result = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(buffer));
        result.map_err(|source| {
            if source.kind() == ErrorKind::UnexpectedEof {
                self.corrupt(offset, Malformed("the file became shorter while it was read"))
            } else {
                TraceError::Io { file: self.name.clone(), offset, source }
            }
        })
    }

    /// The file's header and where it ends.
    fn header(&mut self) -> Result<(Header, u64), TraceError> {
        let mut prefix = [0; HEADER_PREFIX];
        let there = self.len.min(HEADER_PREFIX as u64) as usize;
        self.read(0, &mut prefix[..there])?;
        let magic = there.min(MAGIC.len());
        if prefix[..magic] != MAGIC[..magic] {
            return Err(TraceError::Foreign { file: self.name.clone() });
        }
        if there < HEADER_PREFIX {
            return Err(TraceError::NoHeader { file: self.name.clone(), offset: self.len });
        }
        let version = u16::from_le_bytes([prefix[8], prefix[9]]);
        if version > VERSION {
            let file = self.name.clone();
            return Err(TraceError::Newer { file, offset: VERSION_OFFSET, version });
        }
        if (1..VERSION).contains(&version) {
            let file = self.name.clone();
            return Err(TraceError::Older { file, offset: VERSION_OFFSET, version });
        }
        let body = u32::from_le_bytes([prefix[12], prefix[13], prefix[14], prefix[15]]) as usize;
        if version == 0 || body > HEADER_BODY_MAX {
            return Err(self.corrupt(VERSION_OFFSET, Malformed("an impossible version or header length")));
        }
        let end = (HEADER_PREFIX + body + 4) as u64;
        if end > self.len {
            return Err(TraceError::NoHeader { file: self.name.clone(), offset: self.len });
        }
        let mut header = vec![0; end as usize];
        self.read(0, &mut header)?;
        let (bytes, checksum) = header.split_at(header.len() - 4);
        let checksum = u32::from_le_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]);
        verify(bytes, checksum, "the header's checksum does not match")
            .and_then(|()| Header::decode(&header))
            .map(|header| (header, end))
            .map_err(|malformed| self.corrupt(0, malformed))
    }

    /// The trailer, if the file has one.
    fn trailer(&mut self, header_end: u64) -> Result<Option<Trailer>, TraceError> {
        if self.len < header_end + TRAILER as u64 {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER];
        self.read(self.len - TRAILER as u64, &mut trailer)?;
        Ok(Trailer::decode(&trailer))
    }

    /// Reads the index that the trailer points to.
    fn index(&mut self, trailer: &Trailer) -> Result<Index, TraceError> {
        let end = self.len - TRAILER as u64;
        let mut index = Index::default();
        let mut offset = trailer.index;
        let mut columns = Columns::default();
        for _ in 0..trailer.index_blocks {
            let header = self.block(offset, end)?;
            let entries = if header.kind == BlockKind::Index && header.columns == 1 {
                columns
                    .unpack(&mut self.unpacker, &self.payload, 1, |_| COLUMN_MAX)
                    .and_then(|()| index::decode(columns.get(0), header.count, &mut index))
            } else {
                Err(Malformed("not an index block, which the trailer says it is"))
            };
            entries.map_err(|malformed| self.corrupt(offset, malformed))?;
            offset += (BLOCK_HEADER + self.payload.len()) as u64;
        }
        if offset != end || index.events != trailer.events {
            return Err(self.corrupt(end, Malformed("the trailer does not fit its index")));
        }
        Ok(index)
    }

    /// Finds the blocks of a file without trailer, up to the first that is not whole.
    fn scan(&mut self, header_end: u64) -> Result<(Index, Option<Truncation>), TraceError> {
        let mut index = Index::default();
        let mut offset = header_end;
        while offset < self.len {
            match self.block(offset, self.len) {
                Ok(header) if header.kind == BlockKind::Index => {}
                Ok(header) => {
                    let added = index.add(Entry::of(&header, offset));
                    added.map_err(|malformed| self.corrupt(offset, malformed))?;
                }
                Err(TraceError::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            }
            offset += (BLOCK_HEADER + self.payload.len()) as u64;
        }
        Ok((index, Some(Truncation { offset, lost_bytes: self.len - offset })))
    }

    /// Reads the block at `offset`, which must end at `end` at the latest; leaves its payload in `payload`.
    fn block(&mut self, offset: u64, end: u64) -> Result<BlockHeader, TraceError> {
        let cut = Malformed("a block reaches past the end of the file");
        let mut header = [0; BLOCK_HEADER];
        let Some(after) = end.checked_sub(offset).and_then(|left| left.checked_sub(BLOCK_HEADER as u64))
        else {
            return Err(self.corrupt(offset, cut));
        };
        self.read(offset, &mut header)?;
        let header = BlockHeader::decode(&header).map_err(|malformed| self.corrupt(offset, malformed))?;
        if u64::from(header.payload) > after {
            return Err(self.corrupt(offset, cut));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(header.payload as usize, 0);
        let result = self.read(offset + BLOCK_HEADER as u64, &mut payload);
        self.payload = payload;
        result?;
        verify(&self.payload, header.checksum, "a block's checksum does not match")
            .map_err(|malformed| self.corrupt(offset, malformed))?;
        Ok(header)
    }

    /// Enters the definitions of one block.
    fn definitions(&mut self, entry: &Entry, table: &mut SiteTable) -> Result<(), TraceError> {
        let header = self.block(entry.offset, self.len)?;
        let mut columns = Columns::default();
        let shapes = Arc::make_mut(&mut self.shapes);
        let entered = if header.kind == BlockKind::Definitions && header.columns == 1 {
            columns
                .unpack(&mut self.unpacker, &self.payload, 1, |_| COLUMN_MAX)
                .and_then(|()| definitions::enter_all(columns.get(0), header.count, table, shapes))
        } else {
            Err(Malformed("not a block of definitions, which the index says it is"))
        };
        entered.map_err(|malformed| self.corrupt(entry.offset, malformed))
    }

    /// Starts reading the events of one block.
    pub(super) fn events(&mut self, entry: &Entry, decoder: &mut Decoder) -> Result<(), TraceError> {
        let header = self.block(entry.offset, self.len)?;
        let found = (header.kind, header.thread, header.count, header.first, header.start_ns);
        let opened = if found == (BlockKind::Events, entry.thread, entry.count, entry.first, entry.start_ns) {
            decoder.open(&header, &self.payload, &mut self.unpacker, &self.shapes)
        } else {
            Err(Malformed("not the block that the index says it is"))
        };
        opened.map_err(|malformed| self.corrupt(entry.offset, malformed))
    }
}
