//! The design's begin and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::dirty;
use super::image::COUNTS;
use super::table::{alone, any, table, table_of_parent, within};
use crate::failure;

/// Whether the calling process goes on in its child, as `daemon` has it.
pub static MOVES: AtomicBool = AtomicBool::new(false);

/// Files that are mapped from now on are the design's.
pub fn enable() {
    if !dirty::prepare() {
        failure::end("no address space for --persist=msync: is it limited (ulimit -v)?");
    }
}

/// The process ends: what was stored is written to the files, as the system would do.
pub fn end() {
    if !any() {
        return;
    }
    within(|| {
        for image in table().all() {
            let mut image = alone(&image);
            if let Err(error) = image.close() {
                failure::say(&format!("{}: {error}", image.path.display()));
            }
        }
    });
}

/// In a child of `fork`: the images are the parent's. A store to them is a fault.
pub fn forked() {
    if !any() || MOVES.load(Ordering::Relaxed) {
        return;
    }
    let images = table_of_parent().map(|mut table| table.take()).unwrap_or_default();
    for image in images {
        if let Ok(image) = Arc::try_unwrap(image)
            && let Ok(image) = image.into_inner()
        {
            image.abandon();
        }
    }
}

/// What was done, as JSON.
pub fn stats() -> String {
    format!(
        "{{\"design\":\"msync\",\"commits\":{},\"ranges\":{},\"data_bytes\":{}}}\n",
        COUNTS.commits.load(Ordering::Relaxed),
        COUNTS.ranges.load(Ordering::Relaxed),
        COUNTS.data_bytes.load(Ordering::Relaxed)
    )
}
