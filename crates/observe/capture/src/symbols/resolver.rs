//! The resolver: one loaded file per module, parsed when its first address is asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use abi::NO_LINE;
use addr2line::Loader;
use event::{Frame, OWN_LIBRARY, Site};

use super::names::readable;

/// The shared library of pools, as its file is called.
const OWN_MODULE: &str = "libstrandline.so";
/// Its sources, where it is linked into the program.
const OWN_SOURCES: &str = "library/capi/src/";

/// Finds names for addresses in ELF files.
#[derive(Default)]
pub struct Resolver {
    /// None for a file that can't be read.
    files: HashMap<PathBuf, Option<Loader>>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("files", &self.files.keys()).finish()
    }
}

impl Resolver {
    /// The function and line of `address` (before relocation) in the file `path`, with the functions it was
    /// inlined into. A file that can't be read gives a site without frames.
    pub fn site(&mut self, path: &Path, address: u64) -> Site {
        let module = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), Loader::new(path).ok());
        }
        let loader = self.files.get(path).and_then(Option::as_ref);
        let mut frames = loader.map_or_else(Vec::new, |loader| frames(loader, address));
        if module.starts_with(OWN_MODULE) || frames.iter().any(|frame| frame.file.contains(OWN_SOURCES)) {
            // One frame without a line: nobody who reads a report can change it.
            frames.drain(..frames.len().saturating_sub(1));
            frames.iter_mut().for_each(|frame| (frame.file, frame.line) = (OWN_LIBRARY.to_owned(), 0));
        }
        Site { frames, module, address }
    }
}

fn frames(loader: &Loader, address: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let name = name.map(|name| readable(&name));
            let location = frame.location;
            found.push(Frame {
                function: name.unwrap_or_default(),
                file: location.as_ref().and_then(|at| at.file).unwrap_or_default().to_owned(),
                line: location.as_ref().and_then(|at| at.line).filter(|line| *line != NO_LINE).unwrap_or(0),
            });
        }
    }
    let intrinsics = found.iter().take_while(|frame| stands_for_caller(&frame.file)).count();
    found.drain(..intrinsics.min(found.len().saturating_sub(1)));
    let symbol = || loader.find_symbol(address).map(readable);
    match found.last_mut() {
        // The outermost frame is the function that was compiled, which has a symbol even where DWARF has no
        // name.
        Some(outermost) if outermost.function.is_empty() => {
            outermost.function = symbol().unwrap_or_else(|| format!("{address:#x}"));
        }
        Some(_) => {}
        None => found.extend(symbol().map(|function| Frame { function, file: String::new(), line: 0 })),
    }
    found
}

/// Whether a function of this file is named by who called it: `_mm_clwb` and the like are inline functions of
/// the compiler's own headers, `sl_prestore` is one of ours, and those of `std::atomic` stand for one
/// instruction.
pub fn stands_for_caller(file: &str) -> bool {
    is_compiler_header(file) || is_own_header(file) || is_atomic_header(file)
}

/// Whether a file belongs to gcc or clang: `/usr/lib/gcc/x86_64-linux-gnu/12/include/clwbintrin.h`.
fn is_compiler_header(file: &str) -> bool {
    ["/lib/gcc/", "/lib/clang/"].iter().any(|place| {
        file.split_once(place)
            .is_some_and(|(_, inside)| inside.contains("/include/") && inside.ends_with("intrin.h"))
    })
}

/// Whether a file is one of `<atomic>`'s: `/usr/include/c++/12/bits/atomic_base.h`,
/// `/usr/include/c++/v1/__atomic/atomic.h`.
fn is_atomic_header(file: &str) -> bool {
    let inside = file.rsplit_once("/c++/").map(|(_, inside)| inside);
    let name = inside.and_then(|inside| inside.rsplit('/').next());
    name.is_some_and(|name| name.starts_with("atomic")) || inside.is_some_and(|it| it.contains("/__atomic/"))
}

/// Whether a file is one of the headers that we give to programs.
fn is_own_header(file: &str) -> bool {
    let name = Path::new(file).file_name();
    ["strandline.h", "strandline_pool.h", "strandline.hpp"]
        .iter()
        .any(|own| name.is_some_and(|name| name == *own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_headers_are_distinguished_from_library_headers() {
        assert!(is_compiler_header("/usr/lib/gcc/x86_64-linux-gnu/12/include/clwbintrin.h"));
        assert!(is_compiler_header("/usr/lib/llvm-14/lib/clang/14.0.6/include/emmintrin.h"));
        assert!(!is_compiler_header("/usr/include/c++/12/bits/stl_vector.h"));
        assert!(!is_compiler_header("/src/lib/gcc/intrin.h"));
        assert!(is_atomic_header("/usr/include/c++/12/bits/atomic_base.h"));
        assert!(is_atomic_header("/usr/include/c++/12/atomic"));
        assert!(is_atomic_header("/usr/lib/llvm-14/include/c++/v1/__atomic/cxx_atomic_impl.h"));
        assert!(!is_atomic_header("/usr/include/c++/12/bits/shared_ptr_atomic.h"));
        assert!(!is_atomic_header("/src/atomic_base.h"));
        assert!(is_own_header("include/strandline.h") && !is_own_header("/src/strandline.c"));
    }
}
