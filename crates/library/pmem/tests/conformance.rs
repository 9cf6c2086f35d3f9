//! `Mapped` keeps the contract, alone and recorded, in anonymous memory and in a file.

use std::cell::Cell;

use event::Discard;
use pmem::Mapped;
use space::{Recorded, Recording, Space, conformance};

fn recorded<S: Space>(space: S) -> Recorded<S, Discard> {
    Recorded::new(space, Discard, &Recording::persistent("test", "space")).expect("the sink takes everything")
}

/// Fresh files in one directory.
struct Files {
    directory: tempfile::TempDir,
    made: Cell<u32>,
}

impl Files {
    fn new() -> Self {
        Files { directory: tempfile::tempdir().expect("a temporary directory"), made: Cell::new(0) }
    }

    fn make(&self, len: u64) -> Mapped {
        self.made.set(self.made.get() + 1);
        Mapped::create(&self.directory.path().join(self.made.get().to_string()), len).expect("a small file")
    }
}

fn anonymous(len: u64) -> Mapped {
    Mapped::anonymous(len).expect("a page of memory")
}

#[test]
fn mapped_anonymous() {
    conformance::all(anonymous);
}

#[test]
fn mapped_file() {
    let files = Files::new();
    conformance::all(|len| files.make(len));
}

#[test]
fn recorded_mapped() {
    conformance::all(|len| recorded(anonymous(len)));
}
