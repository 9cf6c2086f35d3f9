//! Processes moved in the middle of their work, and kills of either side at random points: each runs to its end exactly
//! once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use migrate::freeze::{Checkpoint, checkpoint};
use migrate::live::{Lazy, Listener, Migrate, Way, decided, migrate, restore_lazy, target};
use migrate::remote::kill_points;
use migrate::restore::{exit_code, in_namespace};

mod common;

use common::{built, memory, started};

const TREE: &str = "total 1500 sum 4950 shared 100 child 3 ticks 1 alarms 1\n";
const ROLE: &str = "STRANDLINE_TEST_ROLE";

fn moves(how: &Migrate) -> Option<migrate::live::Moved> {
    let folder = memory();
    let program = built(folder.path(), "tree")?;
    let mut child = started(&program, &folder.path().join("out"));
    std::thread::sleep(Duration::from_millis(700));
    let moved = migrate(child.id().cast_signed(), &folder.path().join("fam"), how).expect("it moves");
    let _ = child.wait();
    assert_eq!((moved.processes, moved.threads), (2, 6));
    assert!(moved.lazy_bytes > 0 && moved.downtime_s <= moved.busy_s, "{moved:?}");
    assert_eq!(exit_code(moved.child.expect("a target of ours")).expect("our child"), 5);
    assert_eq!(std::fs::read_to_string(folder.path().join("out")).expect("written"), TREE);
    Some(moved)
}

#[test]
fn a_tree_moves_through_memory() {
    moves(&Migrate::default());
}

#[test]
fn a_tree_moves_without_copies() {
    moves(&Migrate { lazy: Lazy { map: true, ..Lazy::default() }, ..Migrate::default() });
}

#[test]
fn a_tree_moves_before_it_stops() {
    let Some(moved) = moves(&Migrate { precopy: true, ..Migrate::default() }) else { return };
    let before = moved.before.expect("pages were sent before");
    assert!(
        before.rounds[0] > 0 && before.left_bytes < moved.lazy_bytes,
        "{before:?} of {}",
        moved.lazy_bytes
    );
}

#[test]
fn a_tree_moves_through_slow_memory_onto_large_pages() {
    let lazy = Lazy { medium: fam::Medium::PCM, huge: true, ..Lazy::default() };
    moves(&Migrate { lazy, ..Migrate::default() });
}

/// Memory that is written, given back, read as zeros and written again while its pages are mapped.
#[test]
fn memory_that_is_given_back_reads_as_zeros_in_spite_of_the_file() {
    let folder = memory();
    let Some(program) = built(folder.path(), "gives_back") else { return };
    for precopy in [false, true] {
        let out = folder.path().join(format!("out.{precopy}"));
        let mut child = started(&program, &out);
        std::thread::sleep(Duration::from_millis(400));
        let how = Migrate { precopy, lazy: Lazy { map: true, ..Lazy::default() }, ..Migrate::default() };
        let fam = folder.path().join(format!("fam.{precopy}"));
        let moved = migrate(child.id().cast_signed(), &fam, &how).expect("it moves");
        let _ = child.wait();
        assert_eq!(
            exit_code(moved.child.expect("a target of ours")).expect("our child"),
            0,
            "precopy: {precopy}"
        );
        assert_eq!(std::fs::read_to_string(&out).expect("written"), "wrong 0\n", "precopy: {precopy}");
    }
}

/// A ring of processes with pipes and shared memory, and a program that waits for timers and signals: the
/// result is that of an undisturbed run.
#[test]
fn a_ring_of_processes_and_a_loop_of_events_move_by_every_way() {
    let folder = memory();
    for name in ["ring", "events"] {
        let Some(program) = built(folder.path(), name) else { return };
        let out = folder.path().join(format!("out.{name}"));
        assert_eq!(started(&program, &out).wait().expect("it ends").code(), Some(7));
        let wanted = std::fs::read_to_string(&out).expect("written");
        let ways = [
            Migrate::default(),
            Migrate { precopy: true, lazy: Lazy { map: true, ..Lazy::default() }, ..Migrate::default() },
            Migrate { way: Way::Socket, ..Migrate::default() },
        ];
        for (number, how) in ways.iter().enumerate() {
            std::fs::remove_file(&out).expect("written");
            let mut child = started(&program, &out);
            std::thread::sleep(Duration::from_millis(350));
            let fam = folder.path().join(format!("{name}.{number}"));
            let moved = migrate(child.id().cast_signed(), &fam, how).expect("it moves");
            let _ = child.wait();
            assert_eq!(exit_code(moved.child.expect("a target of ours")).expect("our child"), 7, "{name}");
            assert_eq!(std::fs::read_to_string(&out).expect("written"), wanted, "{name}, way {number}");
        }
    }
}

/// A lock of an open file's goes with it; one of a process's cannot be in two places.
#[test]
fn locks_and_queues_move_but_for_locks_of_a_process() {
    let folder = memory();
    let Some(program) = built(folder.path(), "holds") else { return };
    let out = folder.path().join("out");
    let start = |more: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(&out).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it was just built");
        std::thread::sleep(Duration::from_millis(400));
        child
    };
    let mut child = start(&[]);
    let error = migrate(child.id().cast_signed(), &folder.path().join("fam"), &Migrate::default());
    let error = error.map(drop).expect_err("refused").to_string();
    assert!(error.contains("file descriptor 3: a lock of a range of"), "{error}");
    assert!(error.contains("it was not stopped") && error.contains("`strandline checkpoint`"), "{error}");
    assert_eq!(child.wait().expect("it goes on").code(), Some(7));
    let wanted = std::fs::read_to_string(&out).expect("written");
    let wanted = wanted.split_once(", ").expect("the ranges come first").1;
    for (number, way) in [Way::Fam, Way::Socket].into_iter().enumerate() {
        std::fs::remove_file(&out).expect("written");
        let mut child = start(&["open"]);
        let fam = folder.path().join(format!("fam.{number}"));
        let moved = migrate(child.id().cast_signed(), &fam, &Migrate { way, ..Migrate::default() })
            .expect("it moves");
        let _ = child.wait();
        assert_eq!(exit_code(moved.child.expect("a target of ours")).expect("our child"), 7);
        assert_eq!(std::fs::read_to_string(&out).expect("written"), wanted, "{way:?}");
    }
}

/// A child that has ended, and whose parent does not wait for it, is named, and nothing is stopped.
#[test]
fn a_tree_with_a_zombie_is_refused_by_name() {
    if !common::privileged() {
        return;
    }
    let folder = memory();
    let mut child = Command::new("sh").args(["-c", "true & exec sleep 60"]).spawn().expect("a shell");
    std::thread::sleep(Duration::from_millis(300));
    let error = migrate(child.id().cast_signed(), &folder.path().join("fam"), &Migrate::default());
    let error = error.map(drop).expect_err("refused").to_string();
    assert!(error.contains("its parent has not asked for its status"), "{error}");
    assert!(error.contains("it was not stopped"), "{error}");
    assert!(child.try_wait().expect("our child").is_none(), "it goes on");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_tree_moves_through_a_socket() {
    moves(&Migrate { way: Way::Socket, ..Migrate::default() });
}

#[test]
fn a_checkpoint_restores_before_its_pages_are_read_and_damage_is_found() {
    let folder = memory();
    let Some(program) = built(folder.path(), "work") else { return };
    let (out, image) = (folder.path().join("out"), folder.path().join("image"));
    let undisturbed = started(&program, &out).wait().expect("it ends");
    let wanted = std::fs::read_to_string(&out).expect("written");
    assert_eq!(undisturbed.code(), Some(7));
    let mut child = started(&program, &out);
    std::thread::sleep(Duration::from_millis(150));
    let how = Checkpoint { no_sync: true, ..Checkpoint::default() };
    checkpoint(child.id().cast_signed(), &image, &how).expect("it can be saved");
    let _ = child.wait();
    let (restored, pages) = restore_lazy(&image, Lazy::default()).expect("it restores");
    assert_eq!(exit_code(restored.pid).expect("our child"), 7);
    drop(pages.wait());
    assert_eq!(std::fs::read_to_string(&out).expect("written"), wanted.repeat(2));
    // A byte in the middle of the large memory.
    let file = image.join("1.pages");
    let mut bytes = std::fs::read(&file).expect("pages");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("pages");
    let error = match restore_lazy(&image, Lazy::default()) {
        Err(error) => error.to_string(),
        Ok((restored, pages)) => {
            assert_eq!(exit_code(restored.pid).expect("our child"), 128 + 9, "not one step on wrong memory");
            pages.wait().expect_err("damaged").to_string()
        }
    };
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn what_is_refused_leaves_the_process_alone() {
    let folder = memory();
    let Some(program) = built(folder.path(), "work") else { return };
    let (out, fam) = (folder.path().join("out"), folder.path().join("fam"));
    let mut child = started(&program, &out);
    std::thread::sleep(Duration::from_millis(50));
    let pid = child.id().cast_signed();
    let nobody = folder.path().join("nobody").display().to_string();
    let error =
        migrate(pid, &fam, &Migrate { to: Some(nobody), ..Migrate::default() }).expect_err("no target");
    assert!(error.to_string().contains("no target listens there"), "{error}");
    std::fs::write(fam.join("state"), "something else").expect("folder");
    let error = migrate(pid, &fam, &Migrate::default()).expect_err("used");
    assert!(error.to_string().contains("name another folder"), "{error}");
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    assert_eq!(std::fs::read_to_string(&out).expect("written").lines().count(), 1);
}

/// A process of its own for one side of a migration: this test again, in a role.
fn role(role: &str, what: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "a_side_of_its_own", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, format!("{role} {}", what.join(" ")));
    let log = Path::new(what[what.len() - 3]).with_extension(role);
    let file = |append| std::fs::OpenOptions::new().create(true).append(append).open(&log).expect("a log");
    command.stdin(Stdio::null()).stdout(file(true)).stderr(file(true));
    command.spawn().expect("this test again")
}

#[test]
#[ignore = "--long: a helper process of the other tests, which does nothing by itself"]
fn a_side_of_its_own() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["source", pid, fam, to, way, step] => {
            let how = Migrate {
                to: Some(to.to_owned()),
                way: if way == "socket" { Way::Socket } else { Way::Fam },
                precopy: way.contains("precopy"),
                ..Migrate::default()
            };
            kill_points::without_hold(way.contains("unheld"));
            kill_points::end_after(step.parse().expect("a number"));
            migrate(pid.parse().expect("a number"), Path::new(fam), &how).expect("it moves");
        }
        ["target", fam, at, way, step] => {
            let lazy = Lazy { map: way.contains("map"), ..Lazy::default() };
            let listener = Listener::bind(at).expect("a socket");
            let restored = in_namespace(&mut || {
                // SAFETY: no memory is involved; the namespace ends with its "machine".
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                kill_points::end_after(step.parse().expect("a number"));
                let came = target(&listener, Path::new(fam), lazy.clone())?;
                Ok((came.restored, Box::new(|| drop(came.pages.join()))))
            });
            let code = exit_code(restored.expect("it comes").pid).expect("our child");
            assert_eq!(code, 7);
        }
        _ => panic!("no such role: {role}"),
    }
}

fn state_of(pid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

/// Microseconds in which both sides come, move a process and let its source go, on this machine as it is now.
fn window(program: &Path) -> u64 {
    let folder = memory();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (fam, at) = (path("fam"), path("there"));
    let mut child = started(program, &folder.path().join("out"));
    let mut there = role("target", &[&fam, &at, "fam", "0"]);
    while !Path::new(&at).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = Instant::now();
    let mut here = role("source", &[&child.id().to_string(), &fam, &at, "fam", "0"]);
    assert!(here.wait().expect("our child").success());
    let moved = begin.elapsed();
    assert!(there.wait().expect("our child").success());
    let _ = child.wait();
    moved.as_micros() as u64
}

/// Who is killed, and when.
#[derive(Debug)]
enum Kill {
    /// After so many microseconds.
    After { source: bool, us: u64 },
    /// After a step of the source's or the target's.
    Step { source: bool, number: u64 },
}

/// A source was killed, and the process goes on: it can be saved as if nothing had been.
fn again(pid: u32, folder: &Path) -> Result<(), migrate::Error> {
    let how = Checkpoint { leave_running: true, no_sync: true, ..Checkpoint::default() };
    match checkpoint(pid.cast_signed(), &folder.join("again"), &how) {
        Ok(_) | Err(migrate::Error::NoProcess(_) | migrate::Error::Zombie(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// One migration with a kill. Who had the process in the end, and whether anybody was killed.
fn trial(program: &Path, wanted: &str, way: &str, kill: &Kill) -> (&'static str, bool) {
    let (kill_source, steps) = match kill {
        Kill::After { source, .. } => (*source, [0, 0]),
        Kill::Step { source: true, number } => (true, [*number, 0]),
        Kill::Step { source: false, number } => (false, [0, *number]),
    };
    let steps = steps.map(|step: u64| step.to_string());
    let folder = memory();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (out, fam, at) = (folder.path().join("out"), path("fam"), path("there"));
    let mut child = started(program, &out);
    let mut there = role("target", &[&fam, &at, way, &steps[1]]);
    while !Path::new(&at).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = child.id().to_string();
    let mut here = role("source", &[&pid, &fam, &at, way, &steps[0]]);
    if let Kill::After { us, .. } = kill {
        std::thread::sleep(Duration::from_micros(*us));
        let _ = if kill_source { here.kill() } else { there.kill() };
    }
    let mut ended = here.wait().expect("our child");
    let killed_at_step = matches!(kill, Kill::Step { source: true, .. }) && !ended.success();
    if killed_at_step && decided(Path::new(&fam)).is_none() {
        again(child.id(), folder.path()).unwrap_or_else(|error| panic!("{kill:?}: {error}"));
    }
    // A target that its source never reached waits for another one: this one hangs up.
    let _ = std::os::unix::net::UnixStream::connect(&at);
    // Whoever was killed, the other one comes to an end.
    let status = there.wait().expect("our child");
    if !kill_source {
        ended = status;
    }
    let token = format!("{way}, {kill:?}");
    let lines = || std::fs::read_to_string(&out).unwrap_or_default();
    let moved = decided(Path::new(&fam)).as_deref() == Some("target");
    let who = if moved && !kill_source && lines().is_empty() {
        // The target died with the process: it lies in the folder, whole.
        let restored = in_namespace(&mut || {
            let (restored, pages) = restore_lazy(Path::new(&fam), Lazy::default())?;
            Ok((restored, Box::new(move || drop(pages.wait()))))
        });
        let restored = restored.unwrap_or_else(|error| panic!("{token}: {error}"));
        assert_eq!(exit_code(restored.pid).expect("our child"), 7, "{token}");
        "the folder"
    } else if moved && !lines().is_empty() {
        "the target"
    } else {
        // Stopped, if it was the target's before its pages were there.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) && !matches!(state_of(child.id()), 'T' | 'Z') {
            std::thread::sleep(Duration::from_millis(5));
        }
        if state_of(child.id()) == 'T' {
            // SAFETY: our child.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGCONT) };
        }
        let said = |role: &str| {
            std::fs::read_to_string(folder.path().join(format!("there.{role}"))).unwrap_or_default()
        };
        let said = format!("{token}, moved: {moved}\n{}\n{}", said("source"), said("target"));
        let ended = child.wait().expect("our child");
        assert_eq!(ended.code(), Some(7), "{ended}; {said}");
        "the source"
    };
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(lines(), wanted, "{token}, {who} had it");
    (who, !ended.success())
}

fn kill_by_the(count: u64, seed: u64) {
    println!("seeds {seed} to {}", seed + count - 1);
    let folder = memory();
    let Some(program) = built(folder.path(), "work") else { return };
    let out = folder.path().join("wanted");
    assert!(started(&program, &out).wait().is_ok());
    let wanted = std::fs::read_to_string(&out).expect("written");
    let mut by_owner = std::collections::BTreeMap::new();
    let mut within = 0;
    for (number, seed) in (seed..seed + count).enumerate() {
        if number % 50 == 0 {
            within = window(&program) * 6 / 5;
            println!("kills within {within} us");
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let kill = Kill::After { source: random.bool(), us: random.u64(0..within) };
        *by_owner.entry(trial(&program, &wanted, "fam", &kill).0).or_insert(0) += 1;
    }
    println!("{by_owner:?}");
    assert!(by_owner.len() > 1 || count < 10, "kills fall on both sides of the decision: {by_owner:?}");
}

#[test]
fn killed_anywhere_a_process_ends_exactly_once() {
    kill_by_the(8, 1);
}

#[test]
#[ignore = "--long: 200 migrations with a kill in each"]
fn killed_anywhere_by_the_hundred_a_process_ends_exactly_once() {
    kill_by_the(200, 1000);
}

/// The ways of a process, each with both sides' steps.
const WAYS: [(&str, bool); 7] = [
    ("fam", true),
    ("fam", false),
    ("fam-precopy", true),
    ("fam-precopy-map", true),
    ("fam-precopy-map", false),
    ("fam-map", false),
    // A lost target is a lost process there, as the manual says.
    ("socket", true),
];

/// Kills after the first step, and every so many steps behind it, to the last one.
fn killed_at_steps(way: &str, source: bool, from: u64, stride: usize) {
    let folder = memory();
    let Some(program) = built(folder.path(), "work") else { return };
    let out = folder.path().join("wanted");
    assert!(started(&program, &out).wait().is_ok());
    let wanted = std::fs::read_to_string(&out).expect("written");
    let mut by_owner = std::collections::BTreeMap::new();
    for number in (from..).step_by(stride) {
        let (who, killed) = trial(&program, &wanted, way, &Kill::Step { source, number });
        if !killed {
            println!("{way}, {}: {number} steps, {by_owner:?}", if source { "source" } else { "target" });
            assert!(number > 40 || !source, "{way}: not all steps are counted");
            return;
        }
        *by_owner.entry(who).or_insert(0) += 1;
    }
}

#[test]
fn killed_at_some_steps_a_process_ends_exactly_once() {
    for (index, (way, source)) in WAYS.into_iter().enumerate() {
        killed_at_steps(way, source, 1 + index as u64, if source { 31 } else { 101 });
    }
}

#[test]
#[ignore = "--long: a migration for each step of it, by seven ways"]
fn killed_after_each_step_a_process_ends_exactly_once() {
    for (way, source) in WAYS {
        killed_at_steps(way, source, 1, if source { 1 } else { 7 });
    }
}

/// A source that does not keep its process stopped once it is the target's: killed then, the process runs
/// twice.
#[test]
fn a_source_that_does_not_hold_its_process_is_found() {
    let folder = memory();
    let Some(program) = built(folder.path(), "work") else { return };
    let out = folder.path().join("wanted");
    assert!(started(&program, &out).wait().is_ok());
    let wanted = std::fs::read_to_string(&out).expect("written");
    let found = (1..400).find(|number| {
        let kill = Kill::Step { source: true, number: *number };
        std::panic::catch_unwind(|| trial(&program, &wanted, "fam-unheld", &kill)).is_err()
    });
    println!("found at step {found:?}");
    assert!(found.is_some());
}
