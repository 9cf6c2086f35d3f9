//! Damaged bytes, and a disk that is full: an error that says what is wrong, and nothing lost; never a panic.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use pmem::Os;
use proptest::prelude::*;
use space::{Env, Image, Space};
use vnvm::{Error, Mode, Options, Process, recover};

use crate::crashed::{commit, crashed, files_after, made};
use crate::host::{FILE_BYTES, FILES, Machine, bytes, file_at, sizes};

static CRASHED: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();

#[test]
fn any_damaged_byte_but_those_of_cached_pages_is_found_or_harmless() {
    let (image, after) = CRASHED.get_or_init(crashed);
    let cache = sizes().bytes() - u64::from(sizes().cache_pages) * sizes().cache_page;
    let mut found = 0;
    for at in 0..cache as usize {
        for flip in [1, 0x80, 0xFF] {
            let mut damaged = image.clone();
            damaged[at] ^= flip;
            match files_after(&damaged) {
                Ok(files) => assert!(files == *after, "byte {at:#x} ^ {flip:#x} goes unnoticed"),
                Err(error) => {
                    assert!(error.to_string().contains("offset"), "{error}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 1000, "only {found} were found");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_is_an_error_or_harmless_and_no_panic(
        changes in prop::collection::vec((0..bytes() as usize, any::<u8>()), 0..6),
        words in prop::collection::vec((0..bytes() as usize / 8, prop_oneof![any::<u64>(), 0..40_u64]), 0..3),
        copies in prop::collection::vec((0..bytes() as usize / 8, 0..bytes() as usize / 8), 0..3),
    ) {
        let mut image = CRASHED.get_or_init(crashed).0.clone();
        changes.into_iter().for_each(|(at, byte)| image[at] = byte);
        words.into_iter().for_each(|(at, word)| image[at * 8..][..8].copy_from_slice(&word.to_le_bytes()));
        copies.into_iter().for_each(|(from, to)| image.copy_within(from * 8..from * 8 + 8, to * 8));
        _ = files_after(&image);
    }
}

#[test]
fn a_cut_nvm_is_an_error() {
    let image = &CRASHED.get_or_init(crashed).0;
    for len in [0, 8, 64, 128, 1024, 4096] {
        let env = Os::new(Image::from_bytes(&image[..len]));
        let machine = Machine::new(&env);
        assert!(matches!(recover(&machine.process(63), None), Err(Error::Cut { .. })), "{len}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    for bypass in [true, false] {
        let env = Os::new(made());
        let machine = Machine::new(&env);
        let options = Options { bypass, ..Options::default() };
        let process = Process::join(machine.process(0), options).expect("an NVM");
        for file in ["0", "1"] {
            process.allocate(Path::new(file), FILE_BYTES, Mode::Private).expect("a region");
        }
        commit(&process, 0..3);
        process.redo_step().expect("whole");
        machine.full.store(true, Ordering::Relaxed);
        let is_full = |error: &Error| error.to_string().contains("nothing is lost");
        assert!(process.write_back_step(true).is_err_and(|error| is_full(&error)));
        commit(&process, 3..8);
        // Redo has cache pages for some of it and then needs the disk.
        let mut failed = false;
        for _ in 0..4 {
            failed |= process.redo_step().is_err_and(|error| is_full(&error));
        }
        assert!(failed && process.leave().is_err_and(|error| is_full(&error)));
        let crashed = env.space().to_bytes();
        let recovery = recover(&machine.process(63), None);
        assert!(recovery.is_err_and(|error| is_full(&error)), "nor can recovery write");
        assert_eq!(env.space().to_bytes()[..8], crashed[..8], "it is not erased");
        machine.full.store(false, Ordering::Relaxed);
        assert!(process.leave().expect("there is room"), "it was the last one");
        let mut files = vec![0; (FILES * FILE_BYTES) as usize];
        env.space().load(file_at(0), &mut files);
        assert_eq!(files, files_after(&crashed).expect("whole"), "as recovery makes it");
        let mut expected = vec![0; FILE_BYTES as usize];
        (0..8)
            .for_each(|step| expected[(step * 61 % (FILE_BYTES - 50)) as usize..][..50].fill(step as u8 + 1));
        assert_eq!(files[..FILE_BYTES as usize], expected);
    }
}
