//! What a crash at any moment of an exchange leaves: every page has its contents. A twin that lets a page's
//! entry name the new frame before the copy is durable is found out.

use event::{Collected, Op};
use pmem::levelled::{Frames, Shape};
use space::{Image, Recorded, Recording, Space};

const SHAPE: Shape = Shape { page: 4096, pages: 4 };
/// Random choices of what survives, at each moment.
const CHOICES: u64 = 24;

/// What every word of a page holds: the page's number and the word's.
fn content(page: u64, word: u64) -> u64 {
    page << 32 | word << 8 | 0x5a
}

fn filled() -> Image {
    let image = Image::new(SHAPE.bytes());
    let frames = Frames::create(&image, SHAPE).expect("a table");
    for page in 0..SHAPE.pages {
        let first = SHAPE.frame(frames.frame_of(page));
        (0..SHAPE.page / 8).for_each(|word| image.store_u64(first + 8 * word, content(page, word)));
    }
    image
}

/// Runs a scenario and returns what was in memory before, and every event with its values.
fn record(scenario: impl Fn(&mut Frames<&Recorded<Image, Collected>>)) -> (Vec<u8>, Collected) {
    let image = filled();
    let before = image.to_bytes();
    let recording = Recording { values: true, ..Recording::persistent("test", "space") };
    let space = Recorded::new(image, Collected::default(), &recording).expect("a sink that takes all");
    let (mut frames, _) = Frames::open(&space).expect("the table");
    scenario(&mut frames);
    let (_, events) = space.finish().expect("the end");
    (before, events)
}

/// A store of a word that has not been made durable yet.
struct Pending {
    offset: u64,
    value: [u8; 8],
    /// Flushed since it was made, or needing no flush.
    leaving: bool,
}

/// Judges images at every moment: none, all, all but one, and random choices of what is pending survive.
/// Returns the number of images and the first complaint.
fn judge(before: &[u8], events: &Collected) -> (u64, Option<String>) {
    let base = events.events.iter().find_map(|(_, event)| match event.op {
        Op::Map { addr, .. } => Some(addr),
        _ => None,
    });
    let base = base.expect("the space is mapped");
    let (mut durable, mut pending) = (before.to_vec(), Vec::<Pending>::new());
    let (mut values, mut images, mut random) = (events.values.as_slice(), 0, 1u64);
    for (_, event) in &events.events {
        match event.op {
            Op::Store { addr, len } | Op::StoreNt { addr, len } => {
                let nt = matches!(event.op, Op::StoreNt { .. });
                let (bytes, rest) = values.split_at(len as usize);
                values = rest;
                for (at, value) in (addr - base..).step_by(8).zip(bytes.as_chunks::<8>().0) {
                    pending.push(Pending { offset: at, value: *value, leaving: nt });
                }
            }
            Op::Flush { addr, .. } => {
                let line = (addr - base) / 64;
                pending.iter_mut().filter(|one| one.offset / 64 == line).for_each(|one| one.leaving = true);
            }
            Op::Fence(_) => {
                for one in pending.extract_if(.., |one| one.leaving) {
                    durable[one.offset as usize..][..8].copy_from_slice(&one.value);
                }
            }
            _ => continue,
        }
        let last = pending.len().saturating_sub(1);
        let mut masks: Vec<Box<dyn Fn(usize) -> bool>> = vec![
            Box::new(|_| false),
            Box::new(|_| true),
            Box::new(move |at| at != last),
            Box::new(move |at| at == last),
        ];
        for _ in 0..CHOICES {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let seed = random;
            masks.push(Box::new(move |at| (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0));
        }
        // The copies of whole pages are long: not every one of their stores is a moment of its own.
        let masks = if pending.len() > 40 && images % 7 != 0 { &masks[..4] } else { &masks[..] };
        for survives in masks {
            images += 1;
            let mut image = durable.clone();
            for (_, one) in pending.iter().enumerate().filter(|(at, _)| survives(*at)) {
                image[one.offset as usize..][..8].copy_from_slice(&one.value);
            }
            if let Err(complaint) = recovers(&image) {
                return (images, Some(complaint));
            }
        }
    }
    (images, None)
}

fn recovers(bytes: &[u8]) -> Result<(), String> {
    let image = Image::new(bytes.len() as u64);
    image.store(0, bytes);
    let (mut frames, _) = Frames::open(&image).map_err(|error| error.to_string())?;
    // Both pages moved, or none did.
    let places = [1, 2].map(|page| frames.frame_of(page));
    if places != [1, 2] && places != [4, 1] {
        return Err(format!("half an exchange: {places:?}"));
    }
    for round in 0..2 {
        for page in 0..SHAPE.pages {
            let first = SHAPE.frame(frames.frame_of(page));
            let wrong =
                (0..SHAPE.page / 8).find(|&word| image.load_u64(first + 8 * word) != content(page, word));
            if let Some(word) = wrong {
                return Err(format!("page {page}, word {word}, round {round}"));
            }
        }
        // What was recovered can be exchanged again.
        frames.exchange(0, 3);
    }
    Ok(())
}

#[test]
fn every_crash_of_an_exchange_leaves_every_page() {
    let (before, events) = record(|frames| frames.exchange(1, 2));
    let (images, complaint) = judge(&before, &events);
    assert_eq!(complaint, None);
    assert!(images > 1000, "{images}");
}

#[test]
fn a_twin_that_commits_before_the_copy_is_durable_is_caught() {
    let (before, events) = record(|frames| {
        frames.begin_exchange(1, 2);
        for page in [1, 2] {
            frames.copy_to_spare(page);
            // No fence here.
            frames.commit_to_spare(page);
        }
        frames.end_exchange();
    });
    let (_, complaint) = judge(&before, &events);
    assert!(complaint.is_some_and(|complaint| complaint.starts_with("page ")));
}

/// The first complaint about a twin of an exchange.
fn complaint(twin: impl Fn(&mut Frames<&Recorded<Image, Collected>>)) -> Option<String> {
    let (before, events) = record(twin);
    judge(&before, &events).1
}

#[test]
fn a_twin_that_moves_before_its_journal_says_so_is_caught() {
    let complaint = complaint(|frames| {
        let space = *frames.space();
        // What `begin_exchange` does comes behind the first move.
        frames.move_to_spare(1);
        let (spare, left) = (frames.spare(), frames.frame_of(1));
        space.fence();
        frames.begin_exchange(2, 1);
        assert_ne!(spare, left);
        frames.move_to_spare(2);
        frames.end_exchange();
    });
    assert!(complaint.is_some_and(|complaint| complaint.starts_with("half an exchange")));
}

#[test]
fn a_twin_whose_journal_ends_before_the_second_move_is_caught() {
    let complaint = complaint(|frames| {
        frames.begin_exchange(1, 2);
        frames.move_to_spare(1);
        frames.end_exchange();
        frames.move_to_spare(2);
    });
    assert!(complaint.is_some_and(|complaint| complaint.starts_with("half an exchange")));
}

/// The journal's words, as `begin_exchange` stores them.
const JOURNAL: u64 = 64;

#[test]
fn a_twin_whose_journal_is_not_durable_before_the_first_move_is_caught() {
    let complaint = complaint(|frames| {
        let space = *frames.space();
        // Whole and correct, as it is in a space that nobody records, but neither flushed nor fenced.
        let image = Image::new(SHAPE.bytes());
        Frames::create(&image, SHAPE).expect("a table").begin_exchange(1, 2);
        (0..8).for_each(|word| space.store_u64(JOURNAL + 8 * word, image.load_u64(JOURNAL + 8 * word)));
        frames.move_to_spare(1);
        frames.move_to_spare(2);
        frames.end_exchange();
    });
    assert!(complaint.is_some_and(|complaint| complaint.starts_with("half an exchange")));
}

#[test]
fn a_twin_that_reuses_a_frame_before_its_page_has_left_durably_is_caught() {
    let complaint = complaint(|frames| {
        let space = *frames.space();
        frames.begin_exchange(1, 2);
        frames.copy_to_spare(1);
        space.fence();
        // Page 1 lies in the spare from here on, but not durably.
        space.store_u64(SHAPE.entry(1), Shape::entry_word(1, 4));
        let mut page = vec![0; SHAPE.page as usize];
        space.load(SHAPE.frame(2), &mut page);
        space.store_nt(SHAPE.frame(1), &page);
        space.fence();
        space.store_u64(SHAPE.entry(2), Shape::entry_word(2, 1));
        space.flush(SHAPE.entry(1), 16);
        space.fence();
        frames.end_exchange();
    });
    assert!(complaint.is_some_and(|complaint| complaint.starts_with("page ")));
}
