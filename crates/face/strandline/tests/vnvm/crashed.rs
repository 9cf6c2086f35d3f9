//! A crashed NVM as bytes, and what recovery makes of any bytes. Shared by tests and a fuzz target.

use std::path::Path;

use pmem::Os;
use space::{Env, Image, Space};
use vnvm::{Error, Mode, Options, Process, format, inspect, recover};

use crate::host::{FILE_BYTES, FILES, Machine, SimHost, bytes, file_at, sizes};

/// A memory with an NVM and files of zeros, durable.
pub fn made() -> Image {
    let image = Image::new(bytes());
    format(&image, sizes()).expect("room");
    image
}

/// Commits of one process to two files.
pub fn commit<E: Env>(process: &Process<SimHost<'_, '_, E>>, steps: std::ops::Range<u64>) {
    for step in steps {
        let tid = process.begin();
        for file in 0..2 {
            let region = process.region(file).expect("it was allocated");
            let offset = step * 61 % (FILE_BYTES - 50);
            let written = process.write(tid, &region, offset, &[step as u8 + 1; 50]).expect("inside");
            assert_eq!(written, 50, "redo has made room");
        }
        process.commit(tid).expect("it is open");
    }
}

/// A crashed NVM with dirty pages, clean pages, and transactions in a private and a shared list; and the
/// files after its recovery.
pub fn crashed() -> (Vec<u8>, Vec<u8>) {
    let env = Os::new(made());
    let machine = Machine::new(&env);
    let process = Process::join(machine.process(0), Options::default()).expect("an NVM");
    let other = Process::join(machine.process(1), Options::default()).expect("an NVM");
    for file in ["0", "1"] {
        process.allocate(Path::new(file), FILE_BYTES, Mode::Private).expect("a region");
    }
    let shared = other.allocate(Path::new("2"), FILE_BYTES, Mode::Shared).expect("a region");
    commit(&process, 0..3);
    process.redo_step().expect("whole");
    process.write_back_step(true).expect("room");
    commit(&process, 3..5);
    process.redo_step().expect("whole");
    commit(&process, 5..7);
    let tid = other.begin();
    assert_eq!(other.write(tid, &shared, 100, &[9; 60]).expect("inside"), 60);
    other.commit(tid).expect("it is open");
    let image = env.space().to_bytes();
    let after = files_after(&image).expect("it is whole");
    (image, after)
}

pub fn files_after(image: &[u8]) -> Result<Vec<u8>, Error> {
    let env = Os::new(Image::from_bytes(image));
    let machine = Machine::new(&env);
    let looked = inspect(env.space());
    let done = recover(&machine.process(63), None);
    // What can't be recovered does not look whole.
    assert!(looked.is_err() || done.is_ok(), "{done:?}");
    done?;
    let mut files = vec![0; (FILES * FILE_BYTES) as usize];
    env.space().load(file_at(0), &mut files);
    Ok(files)
}
