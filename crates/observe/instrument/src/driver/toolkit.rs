//! The directory that the compiler is pointed at: runtime, specs, header, and the `as` that is us.
//!
//! It lies in the user's cache under a name made of its contents, so versions live side by side and builds of
//! yesterday keep running. Every file appears by renaming: parallel compilers may all create it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::arguments::DESIGNS;
use super::language::CcError;

/// The runtime's file name, and its name for the dynamic linker.
pub const RUNTIME: &str = "libstrandline_rt.so";
/// The same of the library by which programs survive.
pub const PERSIST_RUNTIME: &str = "libstrandline_persist.so";

/// The libraries that programs get linked with, as bytes.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Runtimes<'a> {
    /// The one that observes.
    pub capture: &'a [u8],
    /// The one that makes persistent memory survive.
    pub persist: &'a [u8],
}

const SPECS: &str = "gcc.specs";
/// Switches gcc's pass on in the compiler proper only, so that the driver does not link libtsan.
/// The blank at the end keeps it apart from what gcc puts behind it, with `-save-temps`.
const SPECS_TEXT: &str = "*cc1_options:\n+ -fsanitize=thread \n\n";
/// What programs include.
const HEADERS: [(&str, &str); 8] = [
    ("include/strandline.h", include_str!("../../include/strandline.h")),
    ("include/strandline_pool.h", include_str!("../../include/strandline_pool.h")),
    ("include/strandline_persist.h", include_str!("../../include/strandline_persist.h")),
    ("include/strandline_kv.h", include_str!("../../include/strandline_kv.h")),
    ("include/strandline_vnvm.h", include_str!("../../include/strandline_vnvm.h")),
    ("include/strandline_kv.hpp", include_str!("../../include/strandline_kv.hpp")),
    ("include/strandline_tier.h", include_str!("../../include/strandline_tier.h")),
    ("include/strandline.hpp", include_str!("../../include/strandline.hpp")),
];

/// A toolkit that is there.
#[derive(Debug)]
pub struct Toolkit {
    directory: PathBuf,
}

impl Toolkit {
    /// Makes the toolkit with `runtimes`, unless it is there already.
    pub fn prepare(runtimes: &Runtimes) -> Result<Self, CcError> {
        let executable = std::env::current_exe()
            .map_err(|source| CcError::Toolkit { path: "/proc/self/exe".into(), source })?;
        Self::prepare_in(&cache(), runtimes, &executable)
    }

    fn prepare_in(cache: &Path, runtimes: &Runtimes, executable: &Path) -> Result<Self, CcError> {
        let mut hash = DefaultHasher::new();
        (runtimes, executable, SPECS_TEXT, HEADERS, env!("CARGO_PKG_VERSION")).hash(&mut hash);
        let directory = cache.join(format!("{:016x}", hash.finish()));
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| CcError::Toolkit { path, source }
        };
        let include = directory.join("include");
        if !include.is_dir() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&include).map_err(failed(&include))?;
        }
        let headers = HEADERS.map(|(name, text)| (name, text.as_bytes()));
        let mut files = vec![
            (RUNTIME.to_owned(), runtimes.capture.to_vec()),
            (PERSIST_RUNTIME.to_owned(), runtimes.persist.to_vec()),
            (SPECS.to_owned(), SPECS_TEXT.into()),
        ];
        files.extend(headers.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
        files.extend(DESIGNS.map(|design| (start_file(design), start(design).into())));
        for (name, bytes) in files {
            let path = directory.join(name);
            if fs::metadata(&path).is_ok_and(|data| data.size() == bytes.len() as u64) {
                continue;
            }
            appear(&path, |new| fs::write(new, &bytes)).map_err(failed(&path))?;
        }
        let assembler = directory.join("as");
        if fs::read_link(&assembler).ok().as_deref() != Some(executable) {
            appear(&assembler, |new| symlink(executable, new)).map_err(failed(&assembler))?;
        }
        Ok(Toolkit { directory })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The assembly that hands the persistency runtime a program's design.
    pub fn start(&self, design: &str) -> PathBuf {
        self.directory.join(start_file(design))
    }

    /// gcc's specs file.
    pub fn specs(&self) -> PathBuf {
        self.directory.join(SPECS)
    }
}

fn start_file(design: &str) -> String {
    format!("persist_{design}.s")
}

/// A constructor that hands the runtime the design's name.
fn start(design: &str) -> String {
    format!(
        "\t.text\nstrandline_persist_start:\n\tleaq strandline_persist_name(%rip), %rdi\n\t\
         jmp strandline_persist_design@PLT\n\
         \t.section .rodata\nstrandline_persist_name:\n\t.asciz \"{design}\"\n\
         \t.section .init_array,\"aw\"\n\t.p2align 3\n\t.quad strandline_persist_start\n\
         \t.section .note.GNU-stack,\"\",@progbits\n"
    )
}

/// Makes `path` whole: under another name first.
fn appear(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(name);
    let made = make(&new).and_then(|()| fs::rename(&new, path));
    if made.is_err() {
        // What went wrong first is what matters.
        let _ = fs::remove_file(&new);
    }
    made
}

fn cache() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let usable = |base: &PathBuf| fs::create_dir_all(base.join("strandline")).is_ok();
    match base.filter(usable) {
        Some(base) => base.join("strandline"),
        None => {
            let user = fs::metadata("/proc/self").map_or(0, |data| data.uid());
            std::env::temp_dir().join(format!("strandline-{user}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_repaired() {
        let cache = tempfile::tempdir().unwrap();
        let make = |capture: &[u8]| {
            let runtimes = Runtimes { capture, persist: b"other" };
            Toolkit::prepare_in(cache.path(), &runtimes, Path::new("/bin/true")).unwrap()
        };
        let first = make(b"runtime");
        assert_eq!(fs::read(first.directory().join(RUNTIME)).unwrap(), b"runtime");
        assert_eq!(fs::read_link(first.directory().join("as")).unwrap(), Path::new("/bin/true"));
        fs::remove_file(first.directory().join(RUNTIME)).unwrap();
        fs::write(first.specs(), "torn").unwrap();
        let again = make(b"runtime");
        assert_eq!(again.directory(), first.directory());
        assert_eq!(fs::read(first.directory().join(RUNTIME)).unwrap(), b"runtime");
        assert_eq!(fs::read_to_string(first.specs()).unwrap(), SPECS_TEXT);
        assert_ne!(make(b"another").directory(), first.directory());
        assert_eq!(
            fs::read_dir(first.directory()).unwrap().count(),
            5 + DESIGNS.len(),
            "nothing is left behind"
        );
    }
}
