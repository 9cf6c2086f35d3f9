//! Protection keys: a mapping that this program can store to only while it holds a [`Permit`], so that a
//! stray store faults.
//!
//! Which processors have them says `pku` in `/proc/cpuinfo`; elsewhere [`Key::new`] returns `None`, and a
//! permit does nothing. What a thread may store to is a
//! register of its own: a permit costs two instructions and no call of the system.

use std::marker::PhantomData;

/// While it lives, its thread may store to what a key protects.
#[derive(Debug, Default)]
pub struct Permit {
    /// What the register was, if it was changed.
    before: Option<u32>,
    /// The register is the thread's.
    _thread: PhantomData<*const ()>,
}

/// A key that this process has.
#[derive(Debug)]
pub struct Key {
    number: u32,
}

impl Key {
    /// A new key, with which the calling thread, and those that it starts from here on, may read and not
    /// store; `None` if processor or system have none left.
    #[must_use]
    pub fn new() -> Option<Key> {
        imp::allocate().map(|number| Key { number })
    }

    /// Protects the whole pages of a mapping by the key.
    ///
    /// # Errors
    /// The system's.
    pub fn protect(&self, mapped: &crate::Mapped) -> std::io::Result<()> {
        imp::protect(self.number, mapped.address(), space::Space::len(mapped) as usize)
    }

    /// Lets this thread store until the value is dropped.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit { before: Some(imp::permit(self.number)), _thread: PhantomData }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            imp::restore(before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;

    /// May not store, may read.
    const NO_STORES: u64 = 2;

    pub fn allocate() -> Option<u32> {
        // SAFETY: the call takes numbers alone. On a processor without keys it fails.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, NO_STORES) };
        u32::try_from(key).ok().filter(|key| (1..16).contains(key))
    }

    pub fn protect(key: u32, address: usize, len: usize) -> std::io::Result<()> {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let len = len.next_multiple_of(4096);
        // SAFETY: the range is a mapping of this process, whose protection stays as it is; with the key,
        // stores may fault and do no other harm.
        match unsafe { libc::syscall(libc::SYS_pkey_mprotect, address, len, both, key) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn read() -> u32 {
        let value: u32;
        // SAFETY: reads the register; there is a key, so the processor has it and the system has switched it
        // on.
        unsafe { asm!("rdpkru", in("ecx") 0, out("eax") value, out("edx") _, options(nomem, nostack)) };
        value
    }

    pub fn restore(value: u32) {
        // SAFETY: writes the register, which decides only whether accesses fault. Not `nomem`: no access is
        // moved across.
        unsafe { asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack)) };
    }

    pub fn permit(key: u32) -> u32 {
        let before = read();
        restore(before & !(3 << (2 * key)));
        before
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    pub fn allocate() -> Option<u32> {
        None
    }
    pub fn protect(_: u32, _: usize, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    pub fn restore(_: u32) {}
    pub fn permit(_: u32) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use space::Space;

    use super::*;

    #[test]
    fn a_permit_lets_its_thread_store() {
        let Some(key) = Key::new() else {
            println!("skipped: the processor or the system has no protection keys");
            return;
        };
        let mapped = crate::Mapped::anonymous(8192).expect("memory");
        key.protect(&mapped).expect("pages");
        {
            let _permit = key.permit();
            {
                let _inner = key.permit();
            }
            mapped.store_u64(64, 7);
        }
        assert_eq!(mapped.load_u64(64), 7, "reads are always allowed");
        // A child stores without a permit and dies of it.
        // SAFETY: the child makes one store and leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let word = std::ptr::with_exposed_provenance::<AtomicU64>(mapped.address());
            // SAFETY: mapped memory; the store faults, which is what is looked for.
            unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                (*word).store(1, std::sync::atomic::Ordering::Relaxed);
                libc::_exit(0);
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFSIGNALED(status), "a stray store faults");
    }
}
