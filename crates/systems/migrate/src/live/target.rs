//! The side that a tree of processes comes to.

use std::collections::HashMap;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Instant;

use fam::{FamFile, Region, Socket, Stream};

use super::hand;
use super::lazy::{Lazy, LazyPages, is_of};
use super::link::{self, Listener, PATIENCE, hear, say};
use crate::error::{Error, Result};
use crate::image::{Image, Store};
use crate::restore::{How, Restored, restore_image};

/// A tree that has come.
pub struct Target {
    /// The tree.
    pub restored: Restored,
    /// Waits for its last page, and tells the source.
    pub pages: JoinHandle<Result<fam::Served>>,
}

fn source_gone(what: impl ToString) -> Error {
    Error::Unfit(format!("the source gave up before the process was here ({})", what.to_string()))
}

/// Waits for a source at `listener`, and takes its tree, whose state and pages lie in `folder`.
///
/// # Errors
/// If the source gives up, or the tree cannot be made here: it then goes on at its source.
pub fn target(listener: &Listener, folder: &Path, how: Lazy) -> Result<Target> {
    target_with(listener, folder, how, None)
}

/// The same; file descriptors come over `hand`, if there is one.
pub fn target_with(listener: &Listener, folder: &Path, how: Lazy, hand: Option<Stream>) -> Result<Target> {
    let mut control = listener.accept()?;
    match take(listener, (&mut control, hand.as_ref()), folder, how) {
        Ok((restored, pages)) => {
            let thread = std::thread::spawn(move || {
                let served = pages.wait();
                let word = match &served {
                    Ok(one) => format!("served {} {} {}", one.faults, one.pages_by_fault, one.pages_pushed),
                    Err(error) => format!("failed: {error}"),
                };
                let _ = say(&mut control, &word);
                served
            });
            Ok(Target { restored, pages: thread })
        }
        Err(error) => {
            let _ = say(&mut control, &error.to_string().replace('\n', " "));
            Err(error)
        }
    }
}

fn take(
    listener: &Listener,
    (control, hand): (&mut Stream, Option<&Stream>),
    folder: &Path,
    how: Lazy,
) -> Result<(Restored, LazyPages)> {
    let greeting = hear(control, Some(PATIENCE)).map_err(source_gone)?;
    let words: Vec<&str> = greeting.split(' ').collect();
    let ["strandline-migrate", "1", id, way] = words[..] else {
        return Err(Error::Unfit(format!("`{greeting}` is no greeting of this version's")));
    };
    say(control, "welcome").map_err(source_gone)?;
    let word = hear(control, None).map_err(source_gone)?;
    let given = match word.split_once(' ') {
        None if word == "go" => HashMap::new(),
        Some(("go", indices)) => {
            let indices: Vec<usize> = indices.split(',').filter_map(|index| index.parse().ok()).collect();
            hand::receive(hand.unwrap_or(control), &indices).map_err(source_gone)?
        }
        _ => return Err(source_gone(word)),
    };
    let begin = Instant::now();
    let store = Store::new(folder);
    let image = store.read()?;
    if image.migration.as_deref() != Some(id) {
        let what = format!(
            "{} holds another process's state: both sides must name the same folder",
            folder.display()
        );
        return Err(Error::Unfit(what));
    }
    let pages = LazyPages::new(folder, how);
    for _ in &image.processes {
        one(listener, &store, &image, way, &pages)?;
    }
    let restored = {
        let mut gate = || gate(control, folder);
        restore_image(&store, &image, begin, How { pager: Some(&pages), gate: &mut gate, given })?
    };
    let _ = say(control, "runs");
    Ok((restored, pages))
}

/// The pages of one process, which its source names first.
fn one(listener: &Listener, store: &Store, image: &Image, way: &str, pages: &LazyPages) -> Result<()> {
    let mut stream = listener.accept()?;
    let line = hear(&mut stream, Some(PATIENCE)).map_err(source_gone)?;
    let pid = line.strip_prefix("pages ").and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let process = image.processes.iter().find(|process| process.pid == pid);
    let Some((process, name)) = process.and_then(|process| Some((process, process.lazy.as_deref()?))) else {
        return Err(Error::Unfit(format!("`{line}` names no process of the tree")));
    };
    if way == "socket" {
        let count = hear(&mut stream, Some(PATIENCE)).map_err(source_gone)?.parse().unwrap_or(0);
        let mut regions = Vec::new();
        for _ in 0..count {
            let line = hear(&mut stream, Some(PATIENCE)).map_err(source_gone)?;
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let region = line
                .split_once('+')
                .and_then(|(start, bytes)| Some(Region { start: number(start)?, bytes: number(bytes)? }));
            regions.push(region.ok_or_else(|| source_gone(format!("`{line}` is no region")))?);
        }
        stream.set_patience(None).map_err(source_gone)?;
        pages.add(pid, regions, Box::new(Socket::new(stream)));
        return Ok(());
    }
    stream.set_patience(None).map_err(source_gone)?;
    let file = FamFile::open(&store.path(name), None)?;
    is_of(&file, process)?;
    pages.add_fam(process, file, Some(stream));
    Ok(())
}

/// All is made: who has the tree? Without a source that answers, whoever decides first.
fn gate(control: &mut Stream, folder: &Path) -> Result<()> {
    let word = say(control, "ready").and_then(|()| hear(control, Some(PATIENCE)));
    match word {
        Ok(word) if word == "commit" => Ok(()),
        other => match link::decide(folder, "source")?.as_str() {
            "target" => Ok(()),
            _ => Err(source_gone(other.unwrap_or_else(|error| error.to_string()))),
        },
    }
}
