//! What an image costs a crash checker: the next image, a recovery, and the way back.
//!
//! `cargo bench -p space` measures; `cargo test -p space` runs the same on few images. Every row prints the
//! fastest of several turns, because a machine that does other things makes some of them slower and none
//! faster, and a checksum of what recovery read.

use std::hint::black_box;
use std::time::Instant;

use space::{Image, Scratch, Space};

/// Bytes of the image.
const BYTES: u64 = 64 << 10;
/// Entries of the log that recovery reads.
const ENTRIES: u64 = 8;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (images, turns) = if full { (100_000, 20) } else { (1000, 2) };
    println!("{BYTES} byte image, 4 words differ; ns per image");
    row("apply, rollback", images, turns, |_| 0);
    row("apply, small recovery, rollback", images, turns, recover);
    row("apply, read all, rollback", images / 100, turns, read_all);
    recovery_alone(images, turns);
}

/// Undoes a small log: reads a header and the entries, writes the valid ones back, and empties the log.
fn recover<S: Space>(space: &S) -> u64 {
    let mut sum = space.load_u64(0);
    for entry in 0..ENTRIES {
        let at = 64 + entry * 24;
        let (target, value) = (space.load_u64(at) % (BYTES / 8) * 8, space.load_u64(at + 8));
        if space.load_u64(at + 16) == 0 {
            space.store_u64(target, value);
            space.flush(target, 8);
        }
        sum = sum.wrapping_mul(31).wrapping_add(target ^ value);
    }
    space.fence();
    space.store_u64(0, 0);
    space.persist(0, 8);
    sum
}

fn read_all(scratch: &Scratch) -> u64 {
    (0..BYTES / 8).map(|word| scratch.load_u64(word * 8)).fold(0, u64::wrapping_add)
}

/// The `number`-th image as its difference from the one before.
fn difference(number: u64) -> [(u64, u64); 4] {
    let mut state = number;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
    };
    [(); 4].map(|()| (64 + next() % (ENTRIES * 3) * 8, next()))
}

fn row(what: &str, images: u64, turns: u32, recovery: impl Fn(&Scratch) -> u64) {
    let scratch = Scratch::new(BYTES);
    let (mut best, mut sum) = (f64::INFINITY, 0u64);
    for _ in 0..turns {
        let start = Instant::now();
        for image in 0..images {
            scratch.apply(black_box(&difference(image)));
            sum = sum.wrapping_mul(3).wrapping_add(recovery(&scratch));
            black_box(scratch.touched().count());
            scratch.rollback();
        }
        best = best.min(start.elapsed().as_secs_f64() / images as f64 * 1e9);
    }
    println!("{what:<34}{best:>10.1}   {sum:016x}");
}

/// The same small recovery on an image that cannot be rolled back, for comparison.
fn recovery_alone(images: u64, turns: u32) {
    let image = Image::new(BYTES);
    let (mut best, mut sum) = (f64::INFINITY, 0u64);
    for _ in 0..turns {
        let start = Instant::now();
        for number in 0..images {
            for (offset, word) in black_box(difference(number)) {
                image.store_u64(offset, word);
            }
            sum = sum.wrapping_mul(3).wrapping_add(recover(&image));
        }
        best = best.min(start.elapsed().as_secs_f64() / images as f64 * 1e9);
    }
    println!("{:<34}{best:>10.1}   {sum:016x}", "the recovery alone, on an Image");
}
