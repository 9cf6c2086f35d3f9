//! What source and target say to each other: frames of five words, pages after some of them.

use std::io::{Read, Write};

use super::Error;

const MAGIC: u64 = u64::from_le_bytes(*b"SLFAMMSG");

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Target: the vector with this address is wanted in FAM.
    Request {
        /// Any address in it.
        address: u64,
    },
    /// Source: the vector is in FAM.
    Ack {
        /// Exclusive end of what the background thread has written.
        progress: u64,
        /// First address of the vector.
        start: u64,
        /// Exclusive end of the vector.
        end: u64,
    },
    /// Source: all vectors are in FAM; the source may be gone from now on.
    Done,
    /// Source: it can't go on.
    Failed {
        /// Bytes that are not in FAM.
        missing: u64,
    },
    /// Target: the bytes themselves, by this connection.
    Read {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Source: bytes follow.
    Data {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Target: all pages are installed.
    Bye,
}

impl Frame {
    fn words(self) -> [u64; 5] {
        match self {
            Frame::Request { address } => [MAGIC, 1, address, 0, 0],
            Frame::Ack { progress, start, end } => [MAGIC, 2, progress, start, end],
            Frame::Done => [MAGIC, 3, 0, 0, 0],
            Frame::Failed { missing } => [MAGIC, 4, missing, 0, 0],
            Frame::Read { address, bytes } => [MAGIC, 5, address, bytes, 0],
            Frame::Data { address, bytes } => [MAGIC, 6, address, bytes, 0],
            Frame::Bye => [MAGIC, 7, 0, 0, 0],
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send(self, to: &mut impl Write) -> Result<(), Error> {
        let mut bytes = [0; 40];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        to.write_all(&bytes).map_err(Error::os("send to the other side"))
    }

    /// Receives one.
    ///
    /// # Errors
    /// The other side is gone; what came is no frame.
    pub fn receive(from: &mut impl Read) -> Result<Frame, Error> {
        let mut bytes = [0; 40];
        from.read_exact(&mut bytes).map_err(Error::os("receive from the other side"))?;
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        if word(0) != MAGIC {
            return Err(Error::Protocol(format!("{:#x} is no frame", word(0))));
        }
        let (a, b, c) = (word(2), word(3), word(4));
        Ok(match word(1) {
            1 => Frame::Request { address: a },
            2 => Frame::Ack { progress: a, start: b, end: c },
            3 => Frame::Done,
            4 => Frame::Failed { missing: a },
            5 => Frame::Read { address: a, bytes: b },
            6 => Frame::Data { address: a, bytes: b },
            7 => Frame::Bye,
            kind => return Err(Error::Protocol(format!("frame of kind {kind}"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_garbage_does_not() {
        let frames = [
            Frame::Request { address: 0x7000 },
            Frame::Ack { progress: 1, start: 2, end: 3 },
            Frame::Done,
            Frame::Failed { missing: 9 },
            Frame::Read { address: 1, bytes: 2 },
            Frame::Data { address: 3, bytes: 4 },
            Frame::Bye,
        ];
        let mut wire = Vec::new();
        for frame in frames {
            frame.send(&mut wire).expect("memory");
        }
        let mut from = wire.as_slice();
        for frame in frames {
            assert_eq!(Frame::receive(&mut from).expect("whole"), frame);
        }
        wire[8] = 99;
        assert!(Frame::receive(&mut wire.as_slice()).is_err(), "unknown kind");
        wire[0] ^= 1;
        assert!(Frame::receive(&mut wire.as_slice()).is_err(), "no magic");
        assert!(Frame::receive(&mut [0u8; 39].as_slice()).is_err(), "cut short");
    }
}
