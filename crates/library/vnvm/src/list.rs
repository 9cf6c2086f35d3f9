//! Committed lists: linked lists of transactions in NVM, changed in an order that every crash leaves whole.
//!
//! *Insert*: the object and all that hangs on it is durable; then one 8-byte store, made durable, links it.
//! *Delete*: one 8-byte store, made durable, leads past it;
//! then its pages are free. A list has no more objects than there are log pages.

use space::Space;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::log::Object;
use crate::words::{link, linked};

/// Makes the link at `from` lead to `to`, durably.
pub(crate) fn lead<S: Space>(space: &S, from: u64, to: Option<u32>) {
    space.store_u64(from, link(to));
    space.persist(from, 8);
}

/// The transactions of the list that begins at the link `head`, from the first to `last`, at most `most`;
/// and what follows.
///
/// # Errors
/// If something is damaged.
pub(crate) fn walk<S: Space>(
    space: &S,
    layout: &Layout,
    head: u64,
    last: Option<u32>,
    most: usize,
) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    let mut next = linked(head, space.load_u64(head))?;
    while let Some(first) = next.filter(|_| objects.len() < most) {
        let (object, following) = Object::load(space, layout, first)?;
        objects.push(object);
        if objects.len() > layout.sizes.log_pages as usize {
            let what = "a committed list, which is a ring,";
            return Err(Error::Damaged { offset: head, what, found: u64::from(first) });
        }
        next = if last == Some(first) { None } else { following };
    }
    Ok(objects)
}
