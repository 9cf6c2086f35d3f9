//! Linux's asynchronous I/O: writes and syncs that are submitted, and complete when their end is fetched.

use std::collections::BTreeMap;

use event::SiteId;
use nix::unistd::Pid;

use crate::look;

/// The number of `io_pgetevents`.
pub const PGETEVENTS: libc::c_long = 333;
/// `IOCB_CMD_…`.
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PWRITEV: u16 = 8;
/// Bytes of `struct iocb`.
const IOCB: usize = 64;
/// Bytes of `struct io_event`.
const EVENT: usize = 32;
/// Requests of one call that are looked at, at most.
const REQUESTS: usize = 65_536;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Bytes at an offset.
    Write(u64, Vec<u8>),
    /// A sync; whether only of contents.
    Sync(bool),
}

/// A request on a file.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file's path.
    pub path: String,
    /// What.
    pub asked: Asked,
    /// Whether the file is open with `O_DIRECT`.
    pub direct: bool,
    /// Where it was submitted.
    pub site: SiteId,
    /// Of a sync: its place in the order.
    pub ticket: Option<u64>,
}

/// A process, its context, and the request's own address.
pub type Key = (i32, u64, u64);

/// Requests whose end was not fetched yet.
#[derive(Debug, Default)]
pub struct Aio(BTreeMap<Key, Request>);

impl Aio {
    /// Requests were accepted.
    pub fn submitted(&mut self, process: i32, context: u64, requests: Vec<(u64, Request)>) {
        self.0.extend(requests.into_iter().map(|(address, request)| ((process, context, address), request)));
    }

    /// The end of a request was fetched.
    pub fn fetched(&mut self, process: i32, context: u64, address: u64) -> Option<Request> {
        self.0.remove(&(process, context, address))
    }

    /// What is still open of a context, or of all of a process.
    pub fn left(&mut self, process: i32, context: Option<u64>) -> Vec<Request> {
        let of = |key: &Key| key.0 == process && context.is_none_or(|context| key.1 == context);
        let keys: Vec<Key> = self.0.keys().filter(|key| of(key)).copied().collect();
        keys.iter().filter_map(|key| self.0.remove(key)).collect()
    }
}

/// The requests that a call submits, by their addresses; `None` in place of those that are on no file or change
/// nothing.
pub fn requests(pid: Pid, count: u64, vector: u64) -> Vec<(u64, Option<Request>)> {
    let addresses = look::memory(pid, vector, (count as usize).min(REQUESTS) * 8);
    let addresses = addresses.chunks_exact(8).map(|bytes| number(bytes, 0));
    addresses.map(|address| (address, request(pid, &look::memory(pid, address, IOCB)))).collect()
}

fn request(pid: Pid, iocb: &[u8]) -> Option<Request> {
    let Decoded { opcode, fd, buffer, len, offset } = decode(iocb)?;
    let asked = match opcode {
        PWRITE => Asked::Write(offset, look::memory(pid, buffer, usize::try_from(len).ok()?)),
        PWRITEV => Asked::Write(offset, look::gathered(pid, buffer, len, u64::MAX)),
        FSYNC | FDSYNC => Asked::Sync(opcode == FDSYNC),
        _ => return None,
    };
    let path = look::descriptor(pid, fd)?;
    let direct = look::position(pid, fd).is_some_and(|(_, flags)| flags & libc::O_DIRECT != 0);
    Some(Request { path, asked, direct, site: SiteId::UNKNOWN, ticket: None })
}

#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    opcode: u16,
    fd: i32,
    buffer: u64,
    len: u64,
    offset: u64,
}

/// The fields of a `struct iocb`; `None` if it is cut off.
fn decode(iocb: &[u8]) -> Option<Decoded> {
    let iocb = iocb.get(..IOCB)?;
    Some(Decoded {
        opcode: u16::from_ne_bytes(iocb[16..18].try_into().ok()?),
        fd: i32::from_ne_bytes(iocb[20..24].try_into().ok()?),
        buffer: number(iocb, 24),
        len: number(iocb, 32),
        offset: number(iocb, 40),
    })
}

/// Of each fetched end: the request's address, and its result.
pub fn events(pid: Pid, address: u64, count: u64) -> Vec<(u64, i64)> {
    let bytes = look::memory(pid, address, (count as usize).min(REQUESTS) * EVENT);
    bytes.chunks_exact(EVENT).map(|event| (number(event, 8), number(event, 16) as i64)).collect()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::{Decoded, IOCB, decode};

    #[test]
    fn an_iocb_is_decoded_and_a_cut_one_is_not() {
        let mut iocb = [0_u8; IOCB];
        iocb[16] = 1;
        iocb[20..24].copy_from_slice(&7_i32.to_ne_bytes());
        iocb[24..32].copy_from_slice(&0x1000_u64.to_ne_bytes());
        iocb[32..40].copy_from_slice(&512_u64.to_ne_bytes());
        iocb[40..48].copy_from_slice(&4096_u64.to_ne_bytes());
        let whole = Decoded { opcode: 1, fd: 7, buffer: 0x1000, len: 512, offset: 4096 };
        assert_eq!(decode(&iocb), Some(whole));
        for len in 0..IOCB {
            assert_eq!(decode(&iocb[..len]), None);
        }
    }
}
