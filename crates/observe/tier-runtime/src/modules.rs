//! Files of code, and where they were loaded.

use std::ffi::{CStr, c_int, c_void};
use std::path::PathBuf;

/// A loaded file.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its path; the program's own as the kernel has it.
    pub path: PathBuf,
    /// What was added to the addresses in it.
    pub base: usize,
    /// Its first and the last byte's successor.
    pub range: (usize, usize),
}

/// All that are loaded.
pub fn all() -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    // SAFETY: the callback is given the address of a list that lives until the call is over.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found
}

/// The one that has an address.
pub fn with(modules: &[Module], address: usize) -> Option<&Module> {
    modules.iter().find(|one| (one.range.0..one.range.1).contains(&address))
}

unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: libc::size_t, argument: *mut c_void) -> c_int {
    // SAFETY: the list that `all` gave, and the linker's description, which lives as long as this call.
    let (found, info) = unsafe { (&mut *argument.cast::<Vec<Module>>(), &*info) };
    let base = info.dlpi_addr as usize;
    let mut range = (usize::MAX, 0);
    for number in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the linker's table of so many entries.
        let part = unsafe { &*info.dlpi_phdr.add(number) };
        if part.p_type == libc::PT_LOAD {
            let start = base + part.p_vaddr as usize;
            range = (range.0.min(start), range.1.max(start + part.p_memsz as usize));
        }
    }
    let name = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: the linker's name, in C's form.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let name = name.to_string_lossy().into_owned();
    let own = || std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let path = if name.is_empty() && found.is_empty() { own() } else { PathBuf::from(name) };
    found.push(Module { path, base, range });
    0
}
