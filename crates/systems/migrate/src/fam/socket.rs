//! The baseline: post-copy through a socket, as CRIU does it.
//!
//! The source's page server holds all pages until the last one has crossed. A fault is a request for one page and its
//! answer; the active push asks for one run after the other, 64 KiB at first and twice as many each time up to a
//! vector's 2 MiB, about as CRIU's lazy-pages daemon does. CRIU's server splices pages from pipes to the socket; ours reads the process through a
//! buffer that stays in the cache, which costs no more than a pipe.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Error;
use super::delay::{Throttle, Way};
use super::layout::Layout;
use super::message::Frame;
use super::pages::Pages;
use super::space::{Space, Step};
use super::stream::Stream;
use super::transport::Transport;
use super::uffd::PAGE;

/// Bytes that the server reads at a time: they stay in the second-level cache.
const CHUNK: u64 = 256 << 10;
const FIRST_RUN: u64 = 64 << 10;
const LAST_RUN: u64 = super::layout::VECTOR;

/// Serves pages until the target says goodbye. Returns the bytes that were sent.
///
/// The throttle is the network's: it counts what is sent here.
pub fn page_server(
    stream: impl Into<Stream>,
    pages: Box<dyn Pages>,
    layout: Arc<Layout>,
    throttle: Arc<Throttle>,
) -> JoinHandle<Result<u64, Error>> {
    let mut stream = stream.into();
    std::thread::spawn(move || {
        let mut sent = 0;
        let mut buffer = vec![0; CHUNK as usize];
        loop {
            let (address, bytes) = match Frame::receive(&mut stream)? {
                Frame::Read { address, bytes } => (address, bytes),
                Frame::Bye => return Ok(sent),
                other => return Err(Error::Protocol(format!("{other:?} at the page server"))),
            };
            let inside = layout.find(address).is_some() && bytes <= LAST_RUN && bytes.is_multiple_of(PAGE);
            if !inside {
                Frame::Failed { missing: 0 }.send(&mut stream)?;
                return Err(Error::Stray(address));
            }
            throttle.during(Way::Write, bytes, || -> Result<(), Error> {
                Frame::Data { address, bytes }.send(&mut stream)?;
                for at in (0..bytes).step_by(CHUNK as usize) {
                    let now = &mut buffer[..(bytes - at).min(CHUNK) as usize];
                    pages.read(address + at, now)?;
                    stream.write_all(now).map_err(Error::os("send pages"))?;
                }
                Ok(())
            })?;
            sent += bytes;
        }
    })
}

/// Pages by a socket.
pub struct Socket {
    stream: Stream,
    buffer: Vec<u8>,
    run: u64,
}

impl Socket {
    /// A connection to a [`page_server`].
    #[must_use]
    pub fn new(stream: impl Into<Stream>) -> Socket {
        Socket { stream: stream.into(), buffer: vec![0; LAST_RUN as usize], run: FIRST_RUN }
    }

    fn get(&mut self, address: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        let lost = |space: &Space| Error::SourceLost { missing: space.left() * PAGE };
        let answer = Frame::Read { address, bytes }
            .send(&mut self.stream)
            .and_then(|()| Frame::receive(&mut self.stream))
            .map_err(|_| lost(space))?;
        if answer != (Frame::Data { address, bytes }) {
            return Err(lost(space));
        }
        let buffer = &mut self.buffer[..bytes as usize];
        self.stream.read_exact(buffer).map_err(|_| lost(space))?;
        // A page that came is not asked for again: events in between are for the caller, who tries again.
        // SAFETY: a slice of ours.
        unsafe { space.copy(address, buffer.as_ptr(), bytes) }
    }
}

impl Transport for Socket {
    fn fault(&mut self, page: u64, space: &mut Space) -> Result<Step, Error> {
        self.run = FIRST_RUN;
        self.get(page, PAGE, space)
    }

    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        let bytes = bytes.min(self.run);
        self.run = (self.run * 2).min(LAST_RUN);
        self.get(start, bytes, space)
    }

    fn bye(&mut self) {
        let _ = Frame::Bye.send(&mut self.stream);
    }
}
