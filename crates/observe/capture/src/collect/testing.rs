//! A program without a program: descriptors in a buffer, and writers that fill chunks as the runtime does.

use std::sync::atomic::Ordering;

use event::{Frame, Site};

use super::code::{Code, Place};
use crate::session::{SessionFile, Settings};
use abi::{
    BLOCK_MAGIC, BLOCK_STORE, CHUNK_FILLING, CHUNK_FREE, CHUNK_FULL, MODE_RECORD, block_header, header,
};

/// Where the pretended text section lies.
pub const TEXT: u64 = 0x5555_0000_0000;

/// A pretended text section.
#[derive(Clone, Default)]
pub struct FakeCode {
    text: Vec<u8>,
}

impl FakeCode {
    /// Adds the descriptor of a block; its address. An access is `log2` of its size; the last one is a store
    /// or not. The code of access i lies `16 * i` bytes after the descriptor.
    pub fn block(&mut self, before: u16, sizes: &[u8], stores: bool, after: u8) -> u64 {
        let address = TEXT + self.text.len() as u64;
        self.text.extend(BLOCK_MAGIC.to_le_bytes());
        self.text.extend([sizes.len() as u8, after]);
        self.text.extend(before.to_le_bytes());
        for (at, &size) in sizes.iter().enumerate() {
            let field = 8 + 8 * at as i32;
            self.text.extend((16 * at as i32 - field).to_le_bytes());
            let store = if stores && at + 1 == sizes.len() { BLOCK_STORE } else { 0 };
            self.text.extend([size | store, u8::from(at > 0), 0, 0]);
        }
        address
    }
}

impl Code for FakeCode {
    fn place(&mut self, _: u32, address: u64) -> Place {
        Place::Module { module: 0, address }
    }

    fn read(&mut self, place: Place, into: &mut [u8]) -> usize {
        let Some(from) = place.address().checked_sub(TEXT) else { return 0 };
        let Some(text) = self.text.get(from as usize..) else { return 0 };
        let count = text.len().min(into.len());
        into[..count].copy_from_slice(&text[..count]);
        count
    }

    fn site(&mut self, place: Place) -> Site {
        let frame = Frame { function: "f".into(), file: "f.c".into(), line: place.address() as u32 };
        Site { frames: vec![frame], module: "fake".into(), address: place.address() }
    }
}

/// A session with small chunks.
pub fn session(chunk_bytes: u32, chunk_count: u32) -> SessionFile {
    let settings = Settings {
        mode: MODE_RECORD,
        flags: 0,
        chunk_bytes,
        chunk_count,
        sampling: (0, 0),
        pmem: Vec::new(),
        files: Vec::new(),
        keep: None,
    };
    SessionFile::create(&settings).unwrap()
}

/// The runtime's side of one thread.
pub struct Writer<'a> {
    session: &'a SessionFile,
    thread: u32,
    pid: u32,
    number: u64,
    chunk: Option<usize>,
    at: usize,
    /// Time given to chunks.
    pub now_ns: u64,
}

impl<'a> Writer<'a> {
    /// Thread `thread` of process `pid`, which has written nothing.
    pub fn new(session: &'a SessionFile, pid: u32, thread: u32) -> Self {
        Writer { session, thread, pid, number: 0, chunk: None, at: 0, now_ns: 0 }
    }

    /// Whether a record of that many words can be written now.
    pub fn has_room(&self, words: usize) -> bool {
        self.chunk.is_some_and(|chunk| self.at + words <= self.session.area(chunk).len())
            || self.free().is_some()
    }

    fn free(&self) -> Option<usize> {
        (0..self.session.open())
            .find(|&at| self.session.chunk(at).state.load(Ordering::Acquire) == CHUNK_FREE)
    }

    fn room(&mut self, words: usize) -> usize {
        if let Some(chunk) = self.chunk
            && self.at + words <= self.session.area(chunk).len()
        {
            return chunk;
        }
        self.hand_over();
        let at = self.free().unwrap();
        let chunk = self.session.chunk(at);
        chunk.state.store(CHUNK_FILLING, Ordering::Release);
        chunk.thread.store(self.thread, Ordering::Relaxed);
        chunk.pid.store(self.pid, Ordering::Relaxed);
        chunk.number.store(self.number, Ordering::Relaxed);
        chunk.start_ns.store(self.now_ns, Ordering::Relaxed);
        self.number += 1;
        self.at = 0;
        self.chunk = Some(at);
        at
    }

    /// Marks the chunk that is being filled full.
    pub fn hand_over(&mut self) {
        if let Some(at) = self.chunk.take() {
            self.session.chunk(at).end_ns.store(self.now_ns, Ordering::Relaxed);
            self.session.chunk(at).state.store(CHUNK_FULL, Ordering::Release);
            self.session.head().full.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Writes a header word, of a block or not, with its payload: the payload first.
    pub fn write(&mut self, header: u64, payload: &[u64]) {
        let chunk = self.room(1 + payload.len());
        let area = self.session.area(chunk);
        for (at, word) in payload.iter().enumerate() {
            area[self.at + 1 + at].store(*word, Ordering::Relaxed);
        }
        area[self.at].store(header, Ordering::Release);
        self.at += 1 + payload.len();
    }

    /// Writes a block: the address of its descriptor, and of each access.
    pub fn block(&mut self, descriptor: u64, addresses: &[u64]) {
        self.write(block_header(descriptor), addresses);
    }

    /// Writes a record that is not a block.
    pub fn record(&mut self, kind: u8, argument: u8, payload: &[u64]) {
        self.write(header(kind, argument, TEXT + 1), payload);
    }
}
