//! A store whose record is made only when it has been executed.
//!
//! The compiler's calls tell a store before it happens. For the assignment of a whole structure (`a = b`) gcc
//! even records the store, then the load, and only then copies. When stored bytes are recorded, the record of
//! a store that a call has announced waits for the thread's next record, and lets the load go first if
//! nothing has changed where the store goes: then either it has not been executed yet, or it stored what was
//! there already and nobody can tell the order.

use core::cell::Cell;

/// A store that waits. Zeros: none does.
#[repr(C)]
#[derive(Default)]
pub struct Deferred {
    header: Cell<u64>,
    addr: Cell<u64>,
    len: Cell<u64>,
    /// Its position in the global order; 0: none.
    position: Cell<u64>,
    /// [`digest`] of the memory before it.
    before: Cell<u64>,
}

/// Flag in [`Deferred::len`]: a load went first. One does, at most.
const PASSED: u64 = 1 << 63;

impl Deferred {
    /// Takes note of a store of `len` bytes at `addr`, not 0, that is about to be executed.
    pub fn set(&self, header: u64, addr: u64, len: u64, position: u64) {
        self.header.set(header);
        self.position.set(position);
        self.addr.set(addr);
        self.len.set(len);
        self.before.set(digest(addr, len));
    }

    /// Takes the store out: its record's header, address and length, and its position.
    pub fn take(&self) -> Option<(u64, [u64; 2], u64)> {
        let header = self.header.replace(0);
        (header != 0).then(|| (header, [self.addr.get(), self.len.replace(0) & !PASSED], self.position.get()))
    }

    /// Whether a load is just going first.
    pub fn is_passed(&self) -> bool {
        self.header.get() == 0 && self.len.get() != 0
    }

    /// Whether a load goes first.
    #[inline]
    pub fn lets_pass(&self) -> bool {
        self.header.get() != 0 && self.is_unchanged()
    }

    fn is_unchanged(&self) -> bool {
        let len = self.len.get();
        len & PASSED == 0 && digest(self.addr.get(), len) == self.before.get()
    }

    /// Makes `record`, a load's, before the store's.
    pub fn pass(&self, record: impl FnOnce()) {
        let header = self.header.replace(0);
        record();
        self.len.set(self.len.get() | PASSED);
        self.header.set(header);
    }
}

/// A number that is another one, most surely, when the bytes are.
fn digest(addr: u64, len: u64) -> u64 {
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (addr, len) = (addr as *const u8, len as usize);
    let mut state = 0;
    // SAFETY: the program is about to store there, so the memory is there and may be read. It may be changed
    // by another thread meanwhile, which the volatile reads allow.
    unsafe {
        for at in 0..len / 8 {
            let word = addr.add(8 * at).cast::<[u8; 8]>().read_volatile();
            state = mix(state, u64::from_le_bytes(word));
        }
        for at in len / 8 * 8..len {
            state = mix(state, addr.add(at).read_volatile().into());
        }
    }
    state
}
