//! What else is asked of ELF files: their code, and whether they were built with `strandline cc`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, PF_X};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ReadRef, SegmentFlags};

use crate::CaptureError;

/// File name of the runtime library that instrumented programs need.
pub const RUNTIME: &str = "libstrandline_rt.so";
/// That of the library in programs that were built with `--persist`. It stands between the program and
/// [`RUNTIME`].
const PERSIST_RUNTIME: &str = "libstrandline_persist.so";
/// What to tell someone whose program was not built with `strandline cc`.
pub const HOW_TO_BUILD: &str = "build it with `strandline cc` in place of the compiler, for example: make clean && make CC=\"strandline cc\" CXX=\"strandline c++\"";

/// One loadable part of an ELF file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    code: bool,
}

/// The contents of an ELF file by address.
#[derive(Debug)]
pub struct Image {
    map: Mmap,
    segments: Vec<Segment>,
}

impl Image {
    /// Opens the file and reads its segment table.
    ///
    /// # Errors
    /// [`CaptureError::Program`] if it can't be read or is no 64-bit ELF file.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let unreadable = |reason: String| CaptureError::Program { path: path.to_owned(), reason };
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let map = mapped(&file).map_err(|error| unreadable(error.to_string()))?;
        let elf =
            ElfFile64::<Endianness, _>::parse(&map[..]).map_err(|error| unreadable(error.to_string()))?;
        let segments = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            let code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
            Segment { address: segment.address(), offset, bytes, code }
        });
        let segments = segments.collect();
        Ok(Image { map, segments })
    }

    /// Copies what the file has at `address` (before relocation); the number of bytes there were.
    pub fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let inside = |segment: &&Segment| address.wrapping_sub(segment.address) < segment.bytes;
        let Some(segment) = self.segments.iter().find(inside) else { return 0 };
        let within = address - segment.address;
        // The table may say more than there is.
        let from = usize::try_from(segment.offset.saturating_add(within)).unwrap_or(usize::MAX);
        let bytes = self.map.get(from..).unwrap_or_default();
        let count = into.len().min((segment.bytes - within) as usize).min(bytes.len());
        into[..count].copy_from_slice(&bytes[..count]);
        count
    }

    /// Address (before relocation) of the code at `offset` of the file, if it is loaded.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        // Mappings begin on page boundaries, segments need not.
        let inside = |segment: &&Segment| {
            let start = segment.offset & !4095;
            segment.code && (start..segment.offset + segment.bytes).contains(&offset)
        };
        self.segments
            .iter()
            .find(inside)
            .map(|segment| (segment.address - segment.offset).wrapping_add(offset))
    }
}

fn mapped(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the file is only read. Somebody who truncates it meanwhile makes us die of SIGBUS, as he does
    // the program that runs from it.
    unsafe { Mmap::map(file) }
}

/// Whether a program was built with `strandline cc`: whether it or a library that it names, directly or
/// through others, needs our runtime. A file that is no ELF program, such as a script, was not.
///
/// Libraries are looked for where the program says (`RPATH`, `RUNPATH`, `$ORIGIN`), in `LD_LIBRARY_PATH` and
/// beside the program, not in the system's own directories, in which nothing is instrumented.
///
/// # Errors
/// [`CaptureError::Program`] if the program can't be read.
pub fn instrumented(program: &Path) -> Result<bool, CaptureError> {
    let unreadable = |reason: String| CaptureError::Program { path: program.to_owned(), reason };
    let file = File::open(program).map_err(|error| unreadable(error.to_string()))?;
    let map = mapped(&file).map_err(|error| unreadable(error.to_string()))?;
    let Ok(needs) = Needs::read(&map[..], program) else { return Ok(false) };
    let mut seen = HashSet::new();
    let mut open = vec![needs];
    while let Some(needs) = open.pop() {
        for library in &needs.libraries {
            if library.starts_with(RUNTIME) || library.starts_with(PERSIST_RUNTIME) {
                return Ok(true);
            }
            let Some(path) = needs.find(library).filter(|path| seen.insert(path.clone())) else { continue };
            let Ok(map) = File::open(&path).and_then(|file| mapped(&file)) else { continue };
            if let Ok(more) = Needs::read(&map[..], &path) {
                open.push(more);
            }
        }
    }
    Ok(false)
}

/// What a program that was built with `--persist` has to be started with (`LD_PRELOAD`) to be observed: its
/// own runtime, which answers the compiler's hooks and reports, and behind it ours. `None` of any other
/// program.
pub fn preload(program: &Path) -> Option<OsString> {
    let file = File::open(program).ok()?;
    let map = mapped(&file).ok()?;
    let needs = Needs::read(&map[..], program).ok()?;
    let persist = needs.libraries.iter().find(|library| library.starts_with(PERSIST_RUNTIME))?;
    let persist = needs.find(persist)?;
    let ours = persist.with_file_name(RUNTIME);
    let mut all = persist.into_os_string();
    all.push(":");
    all.push(ours);
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        all.push(":");
        all.push(more);
    }
    Some(all)
}

/// The libraries that a file names, and where it says to look.
struct Needs {
    libraries: Vec<String>,
    directories: Vec<PathBuf>,
}

impl Needs {
    fn read<'data>(data: impl ReadRef<'data>, path: &Path) -> object::Result<Needs> {
        let elf = ElfFile64::<Endianness, _>::parse(data)?;
        let dynamic = elf.elf_dynamic_table()?;
        let origin = path.parent().unwrap_or(Path::new("."));
        let mut needs = Needs { libraries: Vec::new(), directories: vec![origin.to_owned()] };
        for entry in &dynamic {
            let text = |entry| dynamic.string(entry).map(String::from_utf8_lossy);
            match entry.tag {
                DT_NEEDED => needs.libraries.push(text(entry)?.into_owned()),
                DT_RPATH | DT_RUNPATH => {
                    needs
                        .directories
                        .extend(text(entry)?.split(':').map(|directory| expand(directory, origin)));
                }
                _ => {}
            }
        }
        if let Some(extra) = std::env::var_os("LD_LIBRARY_PATH") {
            needs.directories.extend(std::env::split_paths(&extra));
        }
        Ok(needs)
    }

    fn find(&self, library: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(library)).find(|path| path.is_file())
    }
}

/// A directory of a search path, `$ORIGIN` standing for where the file is.
fn expand(directory: &str, origin: &Path) -> PathBuf {
    match directory.strip_prefix("$ORIGIN").or_else(|| directory.strip_prefix("${ORIGIN}")) {
        Some(rest) => origin.join(rest.trim_start_matches('/')),
        None => PathBuf::from(directory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_this_test_is_what_lies_in_memory() {
        let image = Image::open(&std::env::current_exe().unwrap()).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let exe = std::env::current_exe().unwrap();
        let line =
            maps.lines().find(|line| line.contains("r-xp") && line.ends_with(exe.to_str().unwrap())).unwrap();
        let mut words = line.split_whitespace();
        let start = u64::from_str_radix(words.next().unwrap().split('-').next().unwrap(), 16).unwrap();
        let offset = u64::from_str_radix(words.nth(1).unwrap(), 16).unwrap();
        let bias = start - image.address_of(offset).unwrap();

        let here = the_image_of_this_test_is_what_lies_in_memory as fn() as usize as u64;
        let mut read = [0; 16];
        assert_eq!(image.read(here - bias, &mut read), 16);
        // SAFETY: the address of a function of this program, whose code is longer than 16 bytes.
        assert_eq!(read, unsafe { *(here as *const [u8; 16]) });
        assert_eq!(image.read(0xffff_ffff_0000, &mut read), 0);
    }

    #[test]
    fn programs_of_the_system_are_not_instrumented() {
        assert!(!instrumented(Path::new("/bin/sh")).unwrap());
        assert!(matches!(instrumented(Path::new("/nonexistent")), Err(CaptureError::Program { .. })));
    }

    #[test]
    fn a_script_is_no_instrumented_program() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\nexit 0\n").unwrap();
        assert!(!instrumented(script.path()).unwrap());
        assert!(matches!(Image::open(script.path()), Err(CaptureError::Program { .. })));
    }
}
