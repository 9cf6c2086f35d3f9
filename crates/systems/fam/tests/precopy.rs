//! What pre-copy leaves in memory is what the process was when it was frozen.

use std::path::PathBuf;
use std::sync::Arc;

use fam::precopy::{Rounds, Watch, finish, rounds};
use fam::study::app::{Access, App, Load, Memory};
use fam::uffd::{ASYNC_PROTECT, PAGE, Uffd};
use fam::{FamFile, Medium, Owner, Pages as _, Region, Remote, Source, Store, Throttle};

struct Run {
    rounds: Vec<u64>,
    left: u64,
    same: bool,
}

fn run(name: &str, work_ns: u64, little: u64) -> Run {
    let load = Load { bytes: 24 << 20, access: Access::Random, threads: 1, work_ns, operations: 0 };
    let path = PathBuf::from(format!("/dev/shm/strandline-precopy-{}-{name}", std::process::id()));
    let app = App::spawn(load, Memory::Watched).expect("spawned");
    app.run();
    let regions = App::regions(load);
    let owner = Owner::of(app.pid()).expect("runs");
    let file = FamFile::create(&path, owner, &regions).expect("created");
    let pages = Remote::of(app.pid()).expect("runs");
    let throttle = Arc::new(Throttle::new(Medium::DRAM));
    let watch = Watch::start(app.pid(), Uffd::from_fd(app.uffd().expect("handed out")), &regions, &regions)
        .expect("watched");
    let copied =
        rounds(&watch, &file, &pages, &throttle, Rounds { most: 4, enough: 64 << 10 }).expect("copied");
    // It writes on until it is frozen, however the machine shares its cores.
    let before = app.beats();
    while app.beats() < before + 100 {
        std::thread::yield_now();
    }
    app.freeze(false).expect("frozen");
    let (file, left) =
        finish(&watch.clean().expect("frozen"), file, &copied, &regions, &pages, little).expect("finished");
    Source::start(file, Box::new(pages), throttle, Store::Direct).wait().expect("dumped");
    let file = FamFile::open_complete(&path, Some(owner)).expect("complete");
    file.verify().expect("whole");
    let (mut theirs, mut ours) = (vec![0; 4096], vec![0; 4096]);
    let pages = Remote::of(app.pid()).expect("frozen");
    let same = (regions[0].start..regions[0].start + regions[0].bytes).step_by(4096).all(|page| {
        pages.read(page, &mut theirs).expect("read");
        file.memory().read(file.layout().offset(page).expect("there"), &mut ours);
        ours == theirs
    });
    let _ = std::fs::remove_file(&path);
    Run { rounds: copied.rounds, left, same }
}

#[test]
fn rounds_shrink_and_the_rest_is_exact() {
    // A write every 100 us: rounds of a few pages.
    let calm = run("calm", 30_000, 4 << 20);
    println!("{:?}, {} left", calm.rounds, calm.left);
    assert!(calm.same, "each page is as it was at the freeze");
    assert_eq!(calm.rounds[0], 24 << 20, "the first round is all");
    assert!(calm.rounds.len() > 1 && calm.rounds[1] < 12 << 20, "the second is what was written meanwhile");
    assert_eq!(calm.left, 0, "so little is written at the freeze");
}

#[test]
fn what_is_written_too_fast_is_left_to_the_daemon() {
    let busy = run("busy", 0, 0);
    println!("{:?}, {} left", busy.rounds, busy.left);
    assert!(busy.same, "each page is as it was at the freeze");
    assert!(busy.left > 0, "something was written after the last round");
}

/// Pages in regions.
fn pages(regions: &[Region]) -> u64 {
    regions.iter().map(|region| region.bytes / PAGE).sum()
}

/// Kilobytes of page tables of this process.
fn page_tables() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).expect("VmPTE");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What a JVM reserves and does not use is neither protected nor visited.
#[test]
fn addresses_without_pages_are_not_looked_at() {
    const RESERVED: u64 = 4 << 30;
    let uffd = match Uffd::open(ASYNC_PROTECT) {
        Ok(uffd) => uffd,
        Err(error) => return println!("skipped: {error}"),
    };
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = libc::mmap(std::ptr::null_mut(), RESERVED as usize, 3, flags, -1, 0);
        assert!(at != libc::MAP_FAILED);
        libc::madvise(at, RESERVED as usize, libc::MADV_NOHUGEPAGE);
        at.cast::<u8>()
    };
    // SAFETY: inside of the mapping, which is ours.
    let write = |page: u64| unsafe { start.add((page * PAGE) as usize).write_volatile(1) };
    // SAFETY: as above.
    let read = |page: u64| unsafe { start.add((page * PAGE) as usize).read_volatile() };
    let at = start as u64;
    (0..10).for_each(write);
    let present = [Region { start: at, bytes: 10 * PAGE }];
    let before = page_tables();
    let all = [Region { start: at, bytes: RESERVED }];
    let watch = Watch::start(std::process::id(), uffd, &all, &present).expect("watched");
    assert!(page_tables() < before + 1024, "{before} KB grew to {}", page_tables());
    assert_eq!(pages(&watch.written().expect("ours")), 0, "nothing was written since");
    assert_eq!(pages(&watch.clean().expect("ours")), 10, "addresses without a page are no clean pages");
    // One that was there, two that were not, and one that is only read.
    write(3);
    write(500_000);
    write(900_000);
    assert_eq!(read(700_000), 0);
    assert_eq!(pages(&watch.clean().expect("ours")), 9);
    assert_eq!(pages(&watch.written().expect("ours")), 3);
    assert_eq!(pages(&watch.written().expect("ours")), 0, "they are watched anew");
    assert_eq!(pages(&watch.clean().expect("ours")), 12);
    drop(watch);
    // SAFETY: what was mapped above.
    unsafe { libc::munmap(start.cast(), RESERVED as usize) };
}
