//! Whole records of the calling thread.

use abi::{header, kind};

use crate::state::local::local;
use crate::stream::room::TEXT_MAX;

/// Makes a record of the calling thread.
#[inline(always)]
pub fn record<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    local().stream.room(1 + N).write(header(kind, argument, pc), &payload);
}

/// Makes a record whose last word is a position in the global order of synchronisation.
#[inline]
pub fn record_position<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    let room = local().stream.room(2 + N);
    room.fill(1, &payload);
    room.fill(1 + N, &[room.position()]);
    room.complete(header(kind, argument, pc));
}

/// Makes a rare record that sampling must not leave out, whose last word is a position.
pub fn record_position_kept<const N: usize>(kind: u8, argument: u8, pc: u64, payload: [u64; N]) {
    let room = local().stream.room_kept(2 + N);
    room.fill(1, &payload);
    room.fill(1 + N, &[room.position()]);
    room.complete(header(kind, argument, pc));
}

/// Makes the record of an operation on files, with the positions that are asked for.
pub fn record_file(argument: u8, pc: u64, numbers: [u64; 2], positions: [bool; 2], paths: [&[u8]; 2]) {
    let lengths = paths.map(|path| path.len() as u64);
    let room = local().stream.room_kept(6 + (lengths[0] + lengths[1]).div_ceil(8) as usize);
    let positions = positions.map(|wanted| if wanted { room.position() } else { 0 });
    room.fill(1, &[lengths[0] | lengths[1] << 32, positions[0], positions[1], numbers[0], numbers[1]]);
    let mut text = paths.into_iter().flatten().copied();
    let mut word = 6;
    while let Some(first) = text.next() {
        let mut padded = [0; 8];
        padded[0] = first;
        padded[1..].iter_mut().zip(&mut text).for_each(|(to, byte)| *to = byte);
        room.fill(word, &[u64::from_le_bytes(padded)]);
        word += 1;
    }
    room.complete(header(kind::FILE, argument, pc));
}

/// Makes a rare record that sampling must not leave out and that ends with text, zero-padded to whole words.
pub fn record_text<const N: usize>(kind: u8, pc: u64, payload: [u64; N], text: &[u8]) {
    let text = &text[..text.len().min(TEXT_MAX)];
    let room = local().stream.room_kept(2 + N + text.len().div_ceil(8));
    room.fill(1, &payload);
    room.fill(1 + N, &[text.len() as u64]);
    for (word, bytes) in text.chunks(8).enumerate() {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        room.fill(2 + N + word, &[u64::from_le_bytes(padded)]);
    }
    room.complete(header(kind, 0, pc));
}
