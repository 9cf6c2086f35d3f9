//! Real programs saved in the middle and let go on: the result is that of an undisturbed run.

use std::path::Path;
use std::time::Duration;

use migrate::freeze::{By, Checkpoint, checkpoint};
use migrate::restore::{exit_code, restore, restore_clone};

mod common;

use common::{built, started};

const WANTED: &str = "total 1500 sum 4950 shared 100 child 3 ticks 1 alarms 1\n";

/// Builds and starts `tree.c`, and saves it after a while; none where this may not be done.
fn saved(folder: &Path, leave_running: bool, by: By) -> Option<std::process::Child> {
    let program = built(folder, "tree")?;
    let child = started(&program, &folder.join("out"));
    std::thread::sleep(Duration::from_millis(700));
    let how = Checkpoint { leave_running, no_sync: true, by, ..Checkpoint::default() };
    let times = checkpoint(child.id().cast_signed(), &folder.join("image"), &how).expect("it can be saved");
    assert_eq!((times.processes, times.threads), (2, 6));
    Some(child)
}

#[test]
fn a_tree_with_threads_pipes_and_timers_goes_on() {
    for by in [By::Read, By::Writev, By::Splice] {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut child) = saved(folder.path(), false, by) else { return };
        // The checkpoint has already waited for it, as its tracer.
        let _ = child.wait();
        let restored = restore(&folder.path().join("image")).unwrap();
        assert_eq!(exit_code(restored.pid).unwrap(), 5, "{by:?}");
        assert_eq!(std::fs::read_to_string(folder.path().join("out")).unwrap(), WANTED, "{by:?}");
    }
}

#[test]
fn what_is_left_running_and_its_clone_both_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut child) = saved(folder.path(), true, By::Splice) else { return };
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let out = folder.path().join("out");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), WANTED);
    std::fs::write(&out, "").unwrap();
    let clone = restore_clone(&folder.path().join("image")).unwrap();
    assert_eq!(exit_code(clone.pid).unwrap(), 5);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), WANTED);
}

#[test]
fn a_damaged_image_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut child) = saved(folder.path(), false, By::Writev) else { return };
    let _ = child.wait();
    let image = folder.path().join("image");
    let pages = image.join("1.pages");
    let mut bytes = std::fs::read(&pages).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&pages, bytes).unwrap();
    let error = restore(&image).unwrap_err().to_string();
    assert!(error.contains(".pages: damaged at byte") && error.contains("checksum"), "{error}");
}

/// Locks of three kinds, pipes with several descriptions of an end, queues of sockets.
#[test]
fn what_is_locked_and_what_is_queued_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = built(folder.path(), "holds") else { return };
    let (out, image) = (folder.path().join("out"), folder.path().join("image"));
    assert_eq!(started(&program, &out).wait().unwrap().code(), Some(7));
    let wanted = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let mut child = started(&program, &out);
    std::thread::sleep(Duration::from_millis(400));
    let how = Checkpoint { no_sync: true, ..Checkpoint::default() };
    checkpoint(child.id().cast_signed(), &image, &how).expect("it can be saved");
    let _ = child.wait();
    let locked = std::fs::File::open(folder.path().join("out.locked")).unwrap();
    locked.lock().unwrap();
    let error = restore(&image).unwrap_err().to_string();
    assert!(error.contains("out.locked") && error.contains("another process has locked it"), "{error}");
    drop(locked);
    let restored = restore(&image).expect("it restores");
    assert_eq!(exit_code(restored.pid).unwrap(), 7);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), wanted);
}
