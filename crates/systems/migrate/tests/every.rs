//! Checkpoints one after the other in one folder: each is whole, later ones are small, and damage or a kill in the middle
//! leaves the last whole one.

use std::process::{Command, Stdio};
use std::time::Duration;

use migrate::freeze::{Checkpoint, checkpoint, checkpoint_every};
use migrate::live::check;
use migrate::restore::{exit_code, restore_clone};

mod common;

use common::built;

#[test]
fn each_is_whole_and_later_ones_write_what_changed() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(program) = built(folder.path(), "work") else { return };
    let (out, image) = (folder.path().join("out"), folder.path().join("image"));
    let mut command = Command::new(&program);
    command.arg(&out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it was just built");
    let pid = child.id().cast_signed();
    std::thread::sleep(Duration::from_millis(60));
    let how = Checkpoint { no_sync: true, ..Checkpoint::default() };
    let mut all = Vec::new();
    let mut report = |result: migrate::Result<migrate::freeze::Times>| {
        let times = result.expect("it can be saved");
        assert_eq!(check(&image).expect("whole"), times.generation);
        all.push(times);
    };
    checkpoint_every(pid, &image, &how, Duration::ZERO, Some(4), &mut report).expect("saved");
    assert_eq!(child.wait().expect("it ends").code(), Some(7), "it was let go on each time");
    assert_eq!(all.iter().map(|times| times.generation).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(all[0].kept_bytes, 0);
    assert!(all[1..].iter().all(|times| times.kept_bytes > 0), "{all:?}");
    // A later state is on top of it, half-written: nothing of the last whole one is lost.
    std::fs::write(image.join("5.pages"), b"half").expect("written");
    std::fs::write(image.join("state.new"), b"strandline-image 1 77").expect("written");
    assert_eq!(check(&image).expect("whole"), 4);
    let wanted = std::fs::read_to_string(&out).expect("written");
    let clone = restore_clone(&image).expect("it restores");
    assert_eq!(exit_code(clone.pid).expect("our child"), 7);
    assert_eq!(std::fs::read_to_string(&out).expect("written"), wanted.repeat(2));
}

#[test]
fn a_folder_of_another_process_keeps_nothing_of_it() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(program) = built(folder.path(), "work") else { return };
    let image = folder.path().join("image");
    let how = Checkpoint { no_sync: true, incremental: true, ..Checkpoint::default() };
    for generation in 1..=2 {
        let mut command = Command::new(&program);
        command
            .arg(folder.path().join("out"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("it was just built");
        std::thread::sleep(Duration::from_millis(60));
        let times = checkpoint(child.id().cast_signed(), &image, &how).expect("saved");
        let _ = child.wait();
        assert_eq!((times.generation, times.kept_bytes), (generation, 0));
        assert_eq!(check(&image).expect("whole"), generation);
    }
    let files = std::fs::read_dir(&image).expect("folder").count();
    assert_eq!(files, 2, "the state and one file of pages");
}
