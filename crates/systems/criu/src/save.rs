//! A process saved as an image of CRIU's, and restored from one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use migrate::freeze::{Checkpoint, Times, checkpoint_then};
use migrate::image::Store;
use migrate::restore::{How, Restored, in_namespace, restore_image};
use migrate::{Error, Result};

use crate::{read, write};

/// Saves the tree of process `root` in `folder`, for `criu restore`.
///
/// # Errors
/// As a checkpoint, and as [`write()`]. The tree goes on then, and the folder holds no image.
pub fn save(root: i32, folder: &Path, how: &Checkpoint) -> Result<Times> {
    if read::is_image(folder) {
        return Err(Error::Unfit(format!(
            "{} holds an image already: name another folder",
            folder.display()
        )));
    }
    let within = folder.join("strandline");
    let store = Store::new(&within);
    let how = Checkpoint { no_sync: true, ..*how };
    let done = checkpoint_then(root, &within, &how, &mut |image| write::write(image, &store, folder));
    let _ = fs::remove_dir_all(&within);
    if done.is_err() {
        clear(folder);
    }
    done
}

/// Removes what was written before an error.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|end| end == "img") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Restores the image of CRIU's in `folder`, as children of this process.
///
/// # Errors
/// As [`read()`], and as a restore.
pub fn restore(folder: &Path) -> Result<Restored> {
    let begin = Instant::now();
    let image = read::read(folder)?;
    restore_image(
        &Store::new(folder),
        &image,
        begin,
        How { pager: None, gate: &mut || Ok(()), given: HashMap::new() },
    )
}

/// The same in a PID namespace of its own.
///
/// # Errors
/// As [`restore`], and if namespaces may not be made.
pub fn restore_clone(folder: &Path) -> Result<Restored> {
    in_namespace(&mut || Ok((restore(folder)?, Box::new(|| ()))))
}
