//! C programs that use the runtime, built by plain gcc: the sanitizer's calls stay calls, and code in line is
//! written by hand in assembly.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the runtime, built as it is shipped.
pub fn runtime() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = here().join("target/tested");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "--quiet", "--target-dir"])
            .arg(&target)
            .current_dir(here())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the runtime does not build");
        target.join("release")
    })
}

/// A built program.
pub struct Program {
    pub path: PathBuf,
    elf: Vec<u8>,
}

impl Program {
    /// Builds `tests/suite/programs/SOURCES` with gcc's sanitizer pass and `flags`.
    pub fn build(sources: &[&str], flags: &[&str]) -> Program {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = here().join("target/tested/programs");
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{}-{number}", sources[0], std::process::id()));
        let specs = here().join("tests/suite/support/specs");
        let output = Command::new("gcc")
            .arg(format!("-specs={}", specs.display()))
            .args(["-g", "-pthread", "-Wall", "-o"])
            .arg(&path)
            .args(flags)
            .args(sources.iter().map(|source| here().join("tests/suite/programs").join(source)))
            .arg(format!("-L{0}", runtime().display()))
            .arg(format!("-Wl,-rpath,{0}", runtime().display()))
            .arg("-lstrandline_rt")
            .output()
            .expect("gcc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let elf = std::fs::read(&path).expect("the program can be read");
        Program { path, elf }
    }

    /// The command that runs it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        // Cargo's has the runtime's other builds in it.
        command.args(arguments).env_remove("LD_LIBRARY_PATH");
        command
    }

    /// The program's bytes that are mapped at `address`, if it was linked for fixed addresses.
    pub fn bytes_at(&self, address: u64) -> &[u8] {
        let elf = &self.elf;
        let word = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("eight bytes"));
        let (headers, count) = (word(32) as usize, usize::from(elf[56]));
        for header in (0..count).map(|at| headers + 56 * at) {
            let (offset, start, len) = (word(header + 8), word(header + 16), word(header + 32));
            if word(header) as u32 == 1 && (start..start + len).contains(&address) {
                return &elf[(offset + address - start) as usize..(offset + len) as usize];
            }
        }
        panic!("{address:#x} is not in {}", self.path.display());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
