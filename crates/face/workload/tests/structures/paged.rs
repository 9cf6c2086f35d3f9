//! Files in pages.

use index::paged::{Paged, PagedFlaw, PagedOptions, Placement};
use index::{Extents, Whole};
use pmem::Os;
use space::{Env, Scratch};

use crate::support::{Pairs, Scenario, Step, Subject};

/// A part of a file: its number, first byte and length. Parts do not overlap.
const PARTS: [(&str, u32, u64, usize); 7] = [
    ("small", 0, 0, 8),
    ("other", 0, 40, 60),
    ("large", 0, 100, 150),
    ("across", 0, 250, 20),
    ("pages", 0, 300, 700),
    ("second", 1, 10, 30),
    ("third", 2, 200, 100),
];

fn part(key: &str) -> (u32, u64, usize) {
    let found = PARTS.iter().find(|part| part.0 == key);
    found.map(|&(_, file, at, count)| (file, at, count)).expect("a part")
}

/// A write of that byte to all of a part.
fn write(key: &'static str, byte: u8) -> Step {
    (key, Some(vec![byte; part(key).2]))
}

/// Embedded writes and copied pages, a log of several pages, and its cleaning.
fn scenario(threads: usize) -> Scenario {
    let first = ["small", "other", "large", "across", "small", "small", "pages", "other", "small", "across"];
    let steps = |keys: &[&'static str], first: u8| -> Vec<Step> {
        keys.iter().zip(first..).map(|(key, byte)| write(key, byte)).collect()
    };
    let long: Vec<&str> = first.iter().chain(&["small", "other", "small", "small"]).copied().collect();
    let threads = match threads {
        1 => vec![steps(&long, 1)],
        _ => vec![steps(&first[..7], 1), steps(&["second"; 8], 50), steps(&["third"; 4], 90)],
    };
    Scenario { bytes: 10 << 10, threads, images: 128 }
}

struct Files(PagedOptions);

impl Files {
    fn with(embed: u64, flaw: PagedFlaw) -> Files {
        Files(PagedOptions { files: 3, page: 256, embed, pending: 2, placement: Placement::Home, flaw })
    }
}

impl Subject for Files {
    type Open<'e, E: Env + 'e> = Paged<&'e E>;

    fn make<'e, E: Env>(&self, env: &'e E) -> Self::Open<'e, E> {
        let extents = Whole::create(env.space(), 5 << 10).expect("room");
        extents.add(env.space(), 4 << 10).expect("room");
        Paged::create(env, &extents, self.0).expect("room")
    }

    fn change<E: Env>(&self, open: &Self::Open<'_, E>, key: &[u8], value: Option<&[u8]>) {
        let (file, at, _) = part(std::str::from_utf8(key).expect("a name"));
        open.write(file, at, value.unwrap_or_default()).expect("room");
    }

    fn pairs(&self, image: &Scratch) -> Result<Pairs, String> {
        let env = Os::new(image);
        let open = || {
            let extents = Whole::open(env.space()).map_err(|error| error.to_string())?;
            Paged::open(&env, &extents, self.0).map_err(|error| error.to_string())
        };
        let files = open()?;
        let pairs = contents(&files);
        // They are files to work with, too.
        (0..3).try_for_each(|file| files.flatten(file)).map_err(|error| error.to_string())?;
        if contents(&files) != pairs || contents(&open()?) != pairs {
            return Err("lost after recovery".to_owned());
        }
        Ok(pairs)
    }
}

/// The parts that are not zeros.
fn contents<E: Env>(files: &Paged<&E>) -> Pairs {
    let read = |&(key, file, at, count): &(&str, u32, u64, usize)| {
        let mut bytes = vec![0; count];
        files.read(file, at, &mut bytes);
        (key.as_bytes().to_vec(), bytes)
    };
    PARTS.iter().map(read).filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).collect()
}

#[test]
fn files_keep_what_they_acknowledged() {
    for embed in [0, 100] {
        let files = Files::with(embed, PagedFlaw::Sound);
        scenario(1).holds(&files, 1);
        scenario(3).holds(&files, 2);
    }
}

#[test]
fn files_that_end_or_switch_early_are_found() {
    for flaw in [PagedFlaw::EndedEarly, PagedFlaw::SwitchedEarly] {
        scenario(1).breaks(&Files::with(100, flaw), 1);
    }
    scenario(3).breaks(&Files::with(0, PagedFlaw::EndedEarly), 2);
}
