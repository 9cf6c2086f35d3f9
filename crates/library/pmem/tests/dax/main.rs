//! What is said of durability, on a real DAX file system: in an emulated machine, because such memory is rare.
//!
//! The machine runs this very test binary, on ext4 over memory that the kernel takes for persistent (`memmap=`), over the same
//! memory without DAX, on the whole of it as a DAX device, and on virtio-pmem, which mounts with DAX but makes nothing
//! durable by flushes. Emulation has no caches: that a flush is missing it can't show, which is the crash checker's work.
//!
//! `./test --long` runs it. It wants an x86-64 Debian with `qemu-system-x86`, `busybox-static` and `e2fsprogs`, and gets the
//! guest's kernel by `apt-get download` once; where any of that is not to be had, it is skipped.
#![cfg(target_arch = "x86_64")]

mod archive;
#[allow(dead_code, reason = "the command line's tests share this file and use all of it")]
mod machine;

use std::env;
use std::path::{Path, PathBuf};

use machine::{Boot, Kernel, Machine, Memory};
use persistency::Domain;
use pmem::{Durability, Mapped, Options, Synced};
use space::{Space, conformance};

#[test]
#[ignore = "boots emulated machines, which takes a minute"]
fn durability_is_reported_as_it_is_on_persistent_memory() {
    let machine = match Machine::prepare(Kernel::Stable) {
        Ok(machine) => machine,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
    };
    let this = env::current_exe().expect("it runs");
    for (memory, script, passes) in
        [(Memory::Reserved, include_str!("memmap.sh"), 3), (Memory::VirtioPmem, include_str!("virtio.sh"), 1)]
    {
        let output = machine.run(&Boot::new(memory, script, &[("/opt/test", &this)]));
        let passed = output.lines().filter(|line| line.trim() == "GUEST: passed").count();
        assert!(
            passed == passes && !output.contains("GUEST: failed"),
            "{passed} of {passes} passed:\n{output}"
        );
    }
}

/// What a script in the machine asks for, by variables.
fn asked(name: &str) -> Option<String> {
    env::var(format!("STRANDLINE_GUEST_{name}")).ok()
}

#[test]
#[ignore = "runs in an emulated machine, on behalf of durability_is_reported_as_it_is_on_persistent_memory"]
fn inside_on_files() {
    let (Some(folder), Some(expected)) = (asked("FOLDER"), asked("DURABILITY")) else { return };
    let domain = match expected.as_str() {
        "dax" => Domain::Dax,
        "page-cache" => Domain::Sync,
        other => panic!("no durability is called {other}"),
    };
    let folder = PathBuf::from(folder);
    tells(&folder.join("space"), domain);
    for (i, test) in conformance::tests::<Mapped>().into_iter().enumerate() {
        let space = Mapped::create(&folder.join(i.to_string()), 8).expect("a small file");
        space.grow(conformance::LEN).expect("a page");
        test(&space);
    }
}

fn tells(path: &Path, domain: Domain) {
    let space = Mapped::create(path, 4096).expect("a small file");
    assert_eq!(space.durability(), domain.into());
    // Over several huge pages.
    space.grow(9 << 20).expect("there is room");
    space.store_u64(5 << 20, 7);
    space.persist(5 << 20, 8);
    space.sync().expect("the device works");
    Mapped::open(path).expect_err("it is locked");
    drop(space);
    let reader = Mapped::open_read_only(path).expect("the file is there");
    assert_eq!((reader.durability(), reader.load_u64(5 << 20)), (domain.into(), 7));
    drop(reader);
    let forced = Options::new().force(true).open(path).expect("the file is there");
    let expected = Durability { domain: Domain::Dax, forced: domain != Domain::Dax };
    assert_eq!(forced.durability(), expected);
    drop(forced);
    let synced = Synced::new(Mapped::open(path).expect("the file is there"));
    synced.prefault(0, 9 << 20).expect("the device works");
    synced.store_u64(8, 9);
    synced.persist(8, 8);
    assert_eq!(synced.syncs(), u64::from(domain == Domain::Sync));
}

#[test]
#[ignore = "runs in an emulated machine, on behalf of durability_is_reported_as_it_is_on_persistent_memory"]
fn inside_on_a_device() {
    let Some(device) = asked("DEVICE") else { return };
    let device = Path::new(&device);
    let space = Mapped::open(device).expect("a DAX device");
    assert_eq!(space.durability().domain, Domain::Dax);
    assert!(space.len() >= 100 << 20, "{} bytes", space.len());
    for at in [0, 8 << 20, space.len() - 8] {
        space.store_u64(at, at + 1);
        space.persist(at, 8);
    }
    space.sync().expect("nothing to do");
    let fixed = space.grow(space.len() + 4096).expect_err("a device has its length").to_string();
    assert!(fixed.contains("it is a device"), "{fixed}");
    Mapped::open(device).expect_err("it is locked");
    drop(space);
    let space = Mapped::open_read_only(device).expect("a DAX device");
    assert_eq!((space.durability().domain, space.load_u64(8 << 20)), (Domain::Dax, (8 << 20) + 1));
}
