//! A small image of CRIU's, written without any process: one thread, a mapping of its own, shared memory, open files.

use std::fs;
use std::path::Path;

use migrate::image::{
    Description, Fd, FileKind, Image, Mm, Process, Run, Shared, Store, Thread, Vma, VmaKind, Watch, hash,
};

const ADDRESS: u64 = 0x40_0000;

fn vma(start: u64, kind: VmaKind) -> Vma {
    let shared = matches!(kind, VmaKind::Shared { .. });
    let (grows_down, no_reserve, locked, advice) = (false, false, false, vec![14]);
    Vma { start, end: start + 8192, protection: 3, shared, grows_down, no_reserve, locked, advice, kind }
}

fn thread() -> Thread {
    Thread {
        tid: 77,
        name: "small".to_owned(),
        registers: (0..27).collect(),
        xstate: vec![0; 2432],
        mask: 5,
        pending: Vec::new(),
        altstack: [0, 2, 0],
        robust: [0x1000, 24],
        clear_tid: 0x2000,
        rseq: None,
        schedule: [0, -3, 0],
        affinity: vec![u64::MAX; 16],
        parent_death_signal: 0,
        timer_slack_ns: 50_000,
        credentials: migrate::image::Credentials::default(),
    }
}

/// Writes it into `folder`.
pub fn write(folder: &Path) -> Image {
    let within = folder.join("within");
    fs::create_dir_all(&within).expect("a folder");
    let pages = vec![7_u8; 8192];
    fs::write(within.join("1.pages"), &pages).expect("written");
    let run = |address| Run { address, len: 8192, file: 0, offset: 0, hash: hash(&pages) };
    let kinds = [
        FileKind::Path { path: "/dev/null".to_owned(), len: None, flock: None },
        FileKind::Pipe { inode: 9, capacity: 65536, content: b"in it".to_vec() },
        FileKind::Event { count: 3, semaphore: false },
        FileKind::Timer { clock: 1, ticks: 1, set_flags: 0, value: [1, 2], interval: [3, 4] },
        FileKind::Signals(6),
        FileKind::Epoll(vec![Watch { fd: 2, events: 1, data: 8 }]),
        FileKind::Memory(0),
    ];
    let pages = || vec![run(0)];
    let shared = |id, name: &str| {
        let name = name.to_owned();
        Shared { id: (1, id), name, len: 8192, seals: 1, sysv: None, pages: pages() }
    };
    let process = Process {
        pid: 77,
        started: 0,
        parent: 1,
        group: 77,
        session: 77,
        stopped: false,
        exe: "/bin/true".to_owned(),
        cwd: "/".to_owned(),
        root: "/".to_owned(),
        umask: 18,
        personality: 0,
        dumpable: 1,
        subreaper: false,
        oom_score_adj: -7,
        limits: Vec::new(),
        mm: Mm { bounds: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], auxv: vec![6, 4096, 0, 0] },
        vmas: vec![
            vma(ADDRESS, VmaKind::Anonymous),
            vma(ADDRESS + 0x10000, VmaKind::Shared { index: 0, offset: 0 }),
            vma(ADDRESS + 0x20000, VmaKind::Shared { index: 1, offset: 0 }),
        ],
        pages: vec![run(ADDRESS)],
        lazy: None,
        fds: (0..7).map(|fd| Fd { fd, description: fd as usize, close_on_exec: fd == 3 }).collect(),
        locks: Vec::new(),
        actions: Vec::new(),
        pending: Vec::new(),
        itimers: [[1, 2, 3, 4], [0; 4], [0; 4]],
        timers: Vec::new(),
        threads: vec![thread()],
    };
    let image = Image {
        kernel: String::new(),
        boot: String::new(),
        monotonic_ns: 0,
        vdso: 0,
        processes: vec![process],
        descriptions: kinds
            .into_iter()
            .map(|kind| Description { kind, flags: 0, position: 0, owner: 0 })
            .collect(),
        shared: vec![shared(5, "memory"), shared(6, "/dev/zero")],
        page_files: vec!["1.pages".to_owned()],
        generation: 1,
        migration: None,
    };
    criu::write(&image, &Store::new(&within), folder).expect("it can be written");
    image
}
