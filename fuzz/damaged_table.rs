//! Damage to a levelled space: an error, or every page with its contents. Shared by a fuzz target and a test.

use pmem::levelled::{Frames, Shape};
use space::{Image, Space};

/// Moments of an exchange at which the power fails.
pub const STATES: u8 = 4;
const SHAPE: Shape = Shape { page: 4096, pages: 6 };

/// A space whose pages have moved, and that was left at a moment of an exchange.
fn space(state: u8) -> Image {
    let image = Image::new(SHAPE.bytes());
    let mut frames = Frames::create(&image, SHAPE).expect("a table");
    (0..SHAPE.pages).for_each(|page| image.store_u64(SHAPE.frame(page) + 8, 70 + page));
    frames.exchange(0, 3);
    frames.exchange(5, 1);
    if state > 0 {
        frames.begin_exchange(2, 4);
    }
    if state > 1 {
        frames.move_to_spare(2);
    }
    if state > 2 {
        frames.move_to_spare(4);
    }
    image
}

/// Changes bytes before the frames, and opens what is left.
pub fn open(state: u8, damage: &[(u16, u8)]) {
    let image = space(state % STATES);
    for &(at, byte) in damage {
        // Twice as often where the header, the journal or an entry is.
        let at = u64::from(at);
        let at = if at % 3 == 0 { at / 3 % 128 } else { 4096 + at % (8 * SHAPE.pages) };
        image.store(at, &[byte]);
    }
    let Ok((mut frames, _)) = Frames::open(&image) else { return };
    assert_eq!(frames.shape(), SHAPE, "damage {damage:?}");
    for round in 0..2 {
        for page in 0..SHAPE.pages {
            let found = image.load_u64(SHAPE.frame(frames.frame_of(page)) + 8);
            assert_eq!(found, 70 + page, "page {page}, round {round}, state {state}, damage {damage:?}");
        }
        frames.exchange(0, 5);
    }
}
