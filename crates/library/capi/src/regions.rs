//! The regions that a thread has under way: at most one in each pool.

use std::cell::RefCell;
use std::ptr;

use region::{Error, Ticket};

use crate::engines::OpenTx;
use crate::error::{Code, Failure};
use crate::handle::Handle;

/// A region under way.
struct Region {
    handle: &'static Handle,
    /// `None` once it has ended.
    tx: Option<Box<dyn OpenTx>>,
    /// How often it was begun and not ended.
    depth: u32,
    /// Why it can't be committed.
    failed: Option<Failure>,
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.handle.is_own() {
            // This is a child that ends, and the region is its parent's, which goes on.
            std::mem::forget(self.tx.take());
            return;
        }
        // Aborted first: the pool stays open as long as the region counts.
        self.tx = None;
        self.handle.leave();
    }
}

thread_local! {
    /// This thread's regions. What a thread leaves open when it ends is aborted.
    static REGIONS: RefCell<Vec<Region>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` on this thread's regions.
fn with<R>(work: impl FnOnce(&mut Vec<Region>) -> Result<R, Failure>) -> Result<R, Failure> {
    let gone = |_| Err(Failure::new(Code::State, "the thread is ending"));
    REGIONS.try_with(|regions| work(&mut regions.borrow_mut())).unwrap_or_else(gone)
}

fn find<'r>(regions: &'r mut [Region], handle: &Handle) -> Option<&'r mut Region> {
    regions.iter_mut().find(|region| ptr::eq(region.handle, handle))
}

/// Whether this thread has a region in that pool.
pub(crate) fn is_open(handle: &Handle) -> bool {
    with(|regions| Ok(find(regions, handle).is_some())).unwrap_or(false)
}

/// Begins a region, or one within it, which is part of it.
pub(crate) fn begin(handle: &'static Handle) -> Result<(), Failure> {
    with(|regions| {
        if let Some(region) = find(regions, handle) {
            region.depth += 1;
            return Ok(());
        }
        let opened = handle.enter()?;
        // From here on the region's drop counts it out again.
        let mut region = Region { handle, tx: None, depth: 1, failed: None };
        region.tx = Some(opened.pool.begin()?);
        regions.push(region);
        Ok(())
    })
}

/// Takes this thread's region out if this is its outermost end.
fn end(handle: &Handle) -> Result<Option<Region>, Failure> {
    with(|regions| {
        let at = regions.iter().position(|region| ptr::eq(region.handle, handle));
        let at =
            at.ok_or_else(|| Failure::new(Code::State, "this thread has begun no region in the pool"))?;
        regions[at].depth -= 1;
        Ok((regions[at].depth == 0).then(|| regions.swap_remove(at)))
    })
}

/// Ends a region. The outermost one is committed, unless something in it failed, and is durable then.
pub(crate) fn commit(handle: &Handle) -> Result<(), Failure> {
    end_by(handle, |tx| tx.commit()).map(|_| ())
}

/// Ends a region. The outermost one is committed, unless something in it failed; a part of one has no ticket to wait for.
pub(crate) fn commit_async(handle: &Handle) -> Result<Ticket, Failure> {
    Ok(end_by(handle, |tx| tx.commit_async())?.unwrap_or(Ticket::DUE))
}

/// Ends a region. The outermost one is committed by `commit`, unless something in it failed.
fn end_by<R>(
    handle: &Handle,
    commit: impl FnOnce(Box<dyn OpenTx>) -> Result<R, Error>,
) -> Result<Option<R>, Failure> {
    let Some(mut region) = end(handle)? else { return Ok(None) };
    if let Some(failed) = region.failed.take() {
        let message =
            format!("nothing of the region is there, because a part of it failed: {}", failed.message);
        return Err(Failure::new(Code::Failed, message));
    }
    match region.tx.take() {
        Some(tx) => Ok(Some(commit(tx)?)),
        None => Err(interrupted()),
    }
}

/// Gives a region up. If it is part of another one, that one can't be committed any more.
pub(crate) fn abort(handle: &Handle) -> Result<(), Failure> {
    drop(end(handle)?);
    with(|regions| {
        if let Some(region) = find(regions, handle) {
            region.fail(&Failure::new(Code::Failed, "a region within it was aborted"));
        }
        Ok(())
    })
}

/// Of a region that was aborted in the middle of a call.
fn interrupted() -> Failure {
    Failure::new(
        Code::Failed,
        "nothing of the region is there, because a call within it was interrupted by an error",
    )
}

impl Region {
    fn fail(&mut self, failure: &Failure) {
        self.failed.get_or_insert_with(|| failure.clone());
    }
}

/// Does something in this thread's region of that pool. If it fails, the region can't be committed, except
/// that a full pool changes nothing.
pub(crate) fn within<R>(
    handle: &Handle,
    work: impl FnOnce(&mut dyn OpenTx) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(|regions| {
        let Some(region) = find(regions, handle) else {
            handle.opened()?;
            let message = "this thread has begun no region in the pool: call sl_begin, or sl_region, before it is changed";
            return Err(Failure::new(Code::State, message));
        };
        if let Some(failed) = &region.failed {
            let message = format!("the region can't be committed any more: {}", failed.message);
            return Err(Failure::new(Code::Failed, message));
        }
        let Some(mut tx) = region.tx.take() else { return Err(interrupted()) };
        // If it panics, it is dropped, which aborts it, and the region is left without.
        let result = work(&mut *tx);
        region.tx = Some(tx);
        if let Err(failure) = &result
            && failure.code != Code::Full
        {
            region.fail(failure);
        }
        result
    })
}

/// Reads in this thread's region of that pool, or in the pool if it has none.
pub(crate) fn read(handle: &Handle, reference: u64, bytes: &mut [u8]) -> Result<(), Failure> {
    if handle.has_regions() && is_open(handle) {
        return within(handle, |tx| Ok(tx.load(reference, bytes)?));
    }
    Ok(handle.opened()?.pool.load(reference, bytes)?)
}
