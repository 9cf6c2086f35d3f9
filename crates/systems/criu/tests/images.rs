//! Images of CRIU's: ours restored by `criu` where one that runs is installed, its own restored by us, damaged ones refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use migrate::freeze::Checkpoint;
use migrate::restore::exit_code;

const WANTED: &str = "total 1500 sum 4950 shared 100 child 3 ticks 1 alarms 1\n";

/// A program of the crate `migrate`'s tests, built; none where this may not be done.
fn built(folder: &Path, name: &str) -> Option<PathBuf> {
    if !fs::read_to_string("/proc/self/status").expect("/proc is there").contains("CapEff:\t000001ff") {
        println!("skipped: choosing process numbers needs root");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrate/tests/programs");
    let (source, program) = (source.join(format!("{name}.c")), folder.join(name));
    let done = Command::new("cc").args(["-O1", "-pthread", "-w", "-o"]).arg(&program).arg(source).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(program)
}

fn criu_runs() -> bool {
    let check = Command::new("criu").arg("check").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let runs = check.is_ok_and(|status| status.success());
    if !runs {
        println!("skipped: no criu that runs here");
    }
    runs
}

/// Starts it as the leader of a session, as CRIU wants the first process.
fn started(program: &Path, out: &Path) -> Child {
    let mut command = Command::new("setsid");
    command.arg(program).arg(out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("setsid is everywhere");
    std::thread::sleep(Duration::from_millis(700));
    child
}

fn image(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    fs::create_dir_all(&image).expect("a folder");
    image
}

/// Waits until whoever is now the parent of the tree's processes has asked for their ends.
fn numbers_free(image: &Path) {
    let names = fs::read_dir(image)
        .expect("the image")
        .flatten()
        .filter_map(|one| one.file_name().into_string().ok());
    let numbers = names.filter_map(|name| Some(name.strip_prefix("core-")?.strip_suffix(".img")?.to_owned()));
    for number in numbers {
        while Path::new("/proc").join(&number).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Saves a program for CRIU: its processes and threads are to be so many.
fn saved(folder: &Path, name: &str, wanted: (usize, usize)) -> Option<PathBuf> {
    let program = built(folder, name)?;
    let mut child = started(&program, &folder.join("out"));
    let image = folder.join("image");
    let times =
        criu::save(child.id().cast_signed(), &image, &Checkpoint::default()).expect("it can be saved");
    assert_eq!((times.processes, times.threads), wanted);
    let _ = child.wait();
    assert!(!image.join("strandline").exists());
    numbers_free(&image);
    Some(image)
}

/// Has criu restore an image, and waits for what runs then, as criu does.
fn restored_by_criu(folder: &Path, image: &Path, options: &[&str]) -> String {
    let mut restore = Command::new("timeout");
    restore.args(["-k", "5", "60", "criu", "restore", "-v4", "-o", "restore.log", "-D"]).arg(image);
    let restore = restore.args(options);
    let done = restore.status().expect("it starts");
    let log = fs::read_to_string(image.join("restore.log")).unwrap_or_default();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("Error")).collect();
    if !done.success() {
        // What it had restored and stands still goes with the test.
        let root = log.lines().find_map(|line| line.split_once("Forking task with ")?.1.split(' ').next());
        if let Some(Ok(root)) = root.map(str::parse) {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(root, libc::SIGKILL) };
        }
    }
    assert!(done.success(), "{done}: {errors:#?}");
    fs::read_to_string(folder.join("out")).expect("written")
}

#[test]
fn what_we_write_criu_restores() {
    let folder = tempfile::tempdir().expect("a folder");
    if !criu_runs() {
        return;
    }
    let Some(image) = saved(folder.path(), "tree", (2, 6)) else { return };
    assert_eq!(restored_by_criu(folder.path(), &image, &[]), WANTED);
}

#[test]
fn criu_brings_what_we_write_on_demand() {
    let folder = tempfile::tempdir().expect("a folder");
    if !criu_runs() {
        return;
    }
    let Some(image) = saved(folder.path(), "tree", (2, 6)) else { return };
    let mut pages = Command::new("timeout");
    pages.args(["-k", "5", "60", "criu", "lazy-pages", "-v4", "-o", "lazy.log", "-D"]).arg(&image);
    let mut pages = pages.spawn().expect("it starts");
    while !image.join("lazy-pages.socket").exists() && pages.try_wait().expect("our child").is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(restored_by_criu(folder.path(), &image, &["--lazy-pages"]), WANTED);
    assert!(pages.wait().expect("our child").success());
    let log = fs::read_to_string(image.join("lazy.log")).expect("a log");
    let brought = log.lines().filter(|line| line.contains("uffd_copy")).count();
    assert!(brought > 10, "{log}");
}

#[test]
fn timers_that_had_expired_unnoticed_go_on_by_criu() {
    let folder = tempfile::tempdir().expect("a folder");
    if !criu_runs() {
        return;
    }
    let Some(image) = saved(folder.path(), "late", (1, 1)) else { return };
    assert_eq!(restored_by_criu(folder.path(), &image, &[]), "reads, alarms\n");
}

#[test]
fn timers_that_had_expired_unnoticed_go_on_by_us() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(image) = saved(folder.path(), "late", (1, 1)) else { return };
    let restored = criu::restore(&image).expect("it restores");
    assert_eq!(exit_code(restored.pid).expect("our child"), 5);
    assert_eq!(fs::read_to_string(folder.path().join("out")).expect("written"), "reads, alarms\n");
}

#[test]
fn what_criu_dumps_we_restore() {
    let folder = tempfile::tempdir().expect("a folder");
    if !criu_runs() {
        return;
    }
    let Some(program) = built(folder.path(), "tree") else { return };
    let mut child = started(&program, &folder.path().join("out"));
    let image = image(folder.path());
    let pid = child.id().to_string();
    let done =
        Command::new("criu").args(["dump", "-t", &pid, "-o", "dump.log", "-v4", "-D"]).arg(&image).status();
    let log = fs::read_to_string(image.join("dump.log")).unwrap_or_default();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("Error")).collect();
    assert!(done.expect("it starts").success(), "{errors:#?}");
    let _ = child.wait();
    numbers_free(&image);
    let restored = criu::restore(&image).expect("it restores");
    assert_eq!(exit_code(restored.pid).expect("our child"), 5);
    assert_eq!(fs::read_to_string(folder.path().join("out")).expect("written"), WANTED);
}

#[test]
fn what_we_write_we_read_and_damage_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(image) = saved(folder.path(), "tree", (2, 6)) else { return };
    let restored = criu::restore(&image).expect("it restores");
    assert_eq!(exit_code(restored.pid).expect("our child"), 5);
    assert_eq!(fs::read_to_string(folder.path().join("out")).expect("written"), WANTED);
    let mut random = fastrand::Rng::with_seed(38);
    for entry in fs::read_dir(&image).expect("the image").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let whole = fs::read(&path).expect("a file of it");
        // Nothing in these has to be there, or can be told from what is right.
        let silent = ["seccomp.img", "timens-0.img"].contains(&name.as_str()) || !name.ends_with(".img");
        if silent {
            continue;
        }
        fs::write(&path, &whole[..whole.len() - 1]).expect("cut short");
        let error = criu::read(&image).expect_err(&name).to_string();
        assert!(error.contains(".img: damaged at byte"), "{name}: {error}");
        fs::write(&path, &whole).expect("whole again");
        if !name.starts_with("pages-") {
            let mut other = whole.clone();
            other[random.usize(4..8)] ^= 0x55;
            fs::write(&path, &other).expect("damaged");
            let error = criu::read(&image).expect_err(&name).to_string();
            assert!(error.contains(".img: ") && error.contains("damaged"), "{name}: {error}");
        }
        fs::remove_file(&path).expect("gone");
        let optional = name.starts_with("pagemap-shmem")
            || ["memfd.img", "pipes-data.img", "inventory.img"].contains(&name.as_str());
        if !optional {
            let error = criu::read(&image).expect_err(&name).to_string();
            assert!(error.contains("cannot be read") && error.contains(&name), "{name}: {error}");
        }
        fs::write(&path, &whole).expect("whole again");
    }
    criu::read(&image).expect("whole again");
}
