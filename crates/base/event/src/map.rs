//! Maps whose keys come from the observed program: heads of blocks, words, lines and pages are looked up so
//! often that the standard library's hash, which resists chosen keys, takes longer than all else that is done
//! with them. (So it does for what a program's code is called, of which there are thousands before the first
//! event.)

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers, or consist of them.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A multiplication and a rotation per number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        // The best bits of a product are the high ones; tables begin with the low ones.
        self.0.rotate_left(26)
    }
}
