//! Address space that is set aside, and what is mapped into it from its start on.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fd::AsFd;
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A piece of this process's address space that belongs to one value.
#[derive(Debug)]
pub(super) struct Area {
    base: NonNull<u8>,
    /// Bytes that are ours, a whole number of pages.
    bytes: AtomicUsize,
    /// Bytes of it that count as set aside.
    counted: usize,
}

/// What the areas of this process have set aside.
static SET_ASIDE: AtomicUsize = AtomicUsize::new(0);

impl Area {
    /// Sets `bytes` of address space aside, beginning at a multiple of `align`, a power of two. Nobody can access it yet,
    /// and it takes no memory.
    pub(super) fn reserve(bytes: usize, align: usize) -> Result<Area> {
        let bytes = bytes.checked_next_multiple_of(page()).ok_or(Errno::NOMEM)?;
        let align = align.max(page());
        let more = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), more, ProtFlags::empty(), flags) }?.cast::<u8>();
        let skip = start.addr().next_multiple_of(align) - start.addr();
        // SAFETY: both pieces are parts of the mapping just made, which nobody uses; between them lie the `bytes` that
        // are kept. What can't be unmapped is unused address space.
        let base = unsafe {
            let base = start.add(skip);
            for (piece, len) in [(start, skip), (base.add(bytes), align - skip)] {
                if len > 0 {
                    let _ = munmap(piece.cast(), len);
                }
            }
            base
        };
        SET_ASIDE.fetch_add(bytes, Relaxed);
        let mut area = Self::of(base, bytes);
        area.counted = bytes;
        Ok(area)
    }

    /// Sets `bytes` of address space aside at `address`, a multiple of the page's size, where nothing may be yet.
    ///
    /// # Errors
    /// `EXIST` if something is there.
    pub(super) fn reserve_at(bytes: usize, address: usize) -> Result<Area> {
        let bytes = bytes.checked_next_multiple_of(page()).ok_or(Errno::NOMEM)?;
        if !address.is_multiple_of(page()) || address == 0 {
            return Err(Errno::INVAL);
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let wanted = ptr::without_provenance_mut(address);
        // SAFETY: with `FIXED_NOREPLACE` nothing that is mapped is touched.
        let got = unsafe { mmap_anonymous(wanted, bytes, ProtFlags::empty(), flags) }?.cast::<u8>();
        SET_ASIDE.fetch_add(bytes, Relaxed);
        let mut area = Self::of(got, bytes);
        area.counted = bytes;
        // A kernel before 4.17 takes the address for a hint.
        if got.addr() == address { Ok(area) } else { Err(Errno::EXIST) }
    }

    /// Bytes that all areas of this process have set aside.
    pub(super) fn set_aside() -> u64 {
        SET_ASIDE.load(Relaxed) as u64
    }

    /// The area of a mapping that nobody else will unmap.
    pub(super) fn of(base: *mut u8, bytes: usize) -> Area {
        assert!(base.addr().is_multiple_of(4096), "a mapping starts at a page");
        let base = NonNull::new(base).expect("the kernel never maps address 0 unasked");
        Area { base, bytes: AtomicUsize::new(bytes), counted: 0 }
    }

    /// Where it starts.
    #[inline(always)]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes of it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Puts fresh anonymous memory where bytes `from` to `to` lie. Both are rounded up to pages, so that a page is never
    /// put twice where each `from` is the `to` before.
    pub(super) fn put_anonymous(&self, from: u64, to: u64) -> Result<()> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        self.put(from, to, |address, len| {
            // SAFETY: `put` gives a range inside this area that nothing was mapped to before.
            unsafe { mmap_anonymous(address, len, protection, MapFlags::PRIVATE | MapFlags::FIXED) }
        })
    }

    /// Puts the bytes `from` to `to` of `file` there, rounded as in [`Area::put_anonymous`].
    pub(super) fn put_file(
        &self,
        file: impl AsFd,
        from: u64,
        to: u64,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<()> {
        self.put(from, to, |address, len| {
            let offset = from.next_multiple_of(page() as u64);
            // SAFETY: `put` gives a range inside this area that nothing was mapped to before.
            unsafe { mmap(address, len, protection, flags | MapFlags::FIXED, &file, offset) }
        })
    }

    fn put(
        &self,
        from: u64,
        to: u64,
        map: impl FnOnce(*mut core::ffi::c_void, usize) -> Result<*mut core::ffi::c_void>,
    ) -> Result<()> {
        let round = |at: u64| usize::try_from(at).ok()?.checked_next_multiple_of(page());
        let (Some(from), Some(to)) = (round(from), round(to)) else { return Err(Errno::NOMEM) };
        assert!(from <= to && to <= self.bytes(), "what is mapped lies inside the area");
        if from == to {
            return Ok(());
        }
        // SAFETY: inside the area.
        let address = unsafe { self.base().add(from) };
        map(address.cast(), to - from).map(drop).inspect_err(|_| {
            // A kernel may have made a hole before it failed, which is anybody's. From here on nothing is ours.
            self.bytes.store(from, Relaxed);
        })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        SET_ASIDE.fetch_sub(self.counted, Relaxed);
        if self.bytes() == 0 {
            return;
        }
        // SAFETY: the range is ours, and no reference into it outlives a method of the space over it.
        let unmapped = unsafe { munmap(self.base().cast(), self.bytes()) };
        debug_assert!(unmapped.is_ok(), "a whole area can always be unmapped");
    }
}

/// Bytes of a page.
pub(super) fn page() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_starts_where_it_is_asked_to() {
        for align in [1, 4096, 2 << 20, 1 << 30] {
            let area = Area::reserve(12345, align).expect("address space");
            assert!(area.base().addr().is_multiple_of(align.max(page())));
            assert_eq!(area.bytes(), 12345usize.next_multiple_of(page()));
        }
    }

    #[test]
    fn an_area_at_an_address_takes_nothing_that_is_there() {
        let address = 0x1000_2000_0000;
        let area = Area::reserve_at(3 * page(), address).expect("nothing is there");
        assert_eq!((area.base().addr(), area.bytes()), (address, 3 * page()));
        assert_eq!(Area::reserve_at(page(), address + page()).map(drop), Err(Errno::EXIST));
        drop(area);
        Area::reserve_at(page(), address + page()).expect("nothing is there any more");
    }

    #[test]
    fn what_the_system_refuses_ends_the_area() {
        let area = Area::reserve(8 * page(), 1).expect("address space");
        area.put_anonymous(0, 100).expect("a page");
        let refused = area.put(100, 3 * page() as u64, |_, _| Err(Errno::NOMEM));
        assert_eq!(refused, Err(Errno::NOMEM));
        assert_eq!(area.bytes(), page(), "the page that was mapped stays ours");
    }

    #[test]
    fn more_than_there_is_can_not_be_had() {
        assert!(Area::reserve(usize::MAX - 10, 1).is_err());
        assert!(Area::reserve(1 << 60, 1).is_err());
    }
}
