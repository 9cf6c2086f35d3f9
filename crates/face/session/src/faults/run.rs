//! A run of the program with the library that logs its large blocks, and treats them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ::faults::advice::Remedy;
use ::faults::attribute::Log;

use crate::error::Error;
use crate::plan::{TIER_RUNTIME, allocators};
use crate::temporary::Temporary;

/// What a run is given.
pub(super) struct Preload {
    folder: Temporary,
}

/// What the library left.
#[derive(Default)]
pub(super) struct Left {
    /// By process.
    pub(super) logs: BTreeMap<u32, Log>,
    /// By key: whether by `malloc`, and the name.
    pub(super) names: BTreeMap<u64, (bool, String)>,
    /// Remedies that the kernel refused: key, remedy, how often, of how many, error.
    pub(super) refused: Vec<String>,
    /// Processes that forked without the library in the child.
    pub(super) forks: u64,
}

impl Preload {
    pub(super) fn new() -> Result<Preload, Error> {
        let place = std::env::temp_dir();
        let folder = Temporary::new("strandline-faults-", &place).map_err(Error::file("create", &place))?;
        let library = folder.path().join("libstrandline_tier.so");
        fs::write(&library, TIER_RUNTIME).map_err(Error::file("write", &library))?;
        Ok(Preload { folder })
    }

    /// Variables of a run: allocations of `from` bytes and more are noted, and remedies carried out.
    pub(super) fn environment(
        &self,
        from: u64,
        remedies: &[(Option<u64>, Remedy)],
        log: bool,
    ) -> Result<Vec<(OsString, OsString)>, Error> {
        let folder = self.folder.path();
        self.clear();
        let mut preload = folder.join("libstrandline_tier.so").into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let out = folder.join("results");
        let mut settings = format!("source=counters\ninterval=1\nfrom={from}\nout={}\n", out.display());
        if log {
            settings.push_str(&format!("log={}\n", folder.join("blocks").display()));
        }
        let sites: String = remedies
            .iter()
            .filter_map(|(key, remedy)| key.map(|key| format!("{key:016x} {}\n", remedy.name())))
            .collect();
        if !sites.is_empty() {
            let file = folder.join("remedies");
            fs::write(&file, sites).map_err(Error::file("write", &file))?;
            settings.push_str(&format!("remedies={}\n", file.display()));
        }
        let mut all = vec![("LD_PRELOAD".into(), preload), ("STRANDLINE_TIER".into(), settings.into())];
        all.extend(environment_of_keep(remedies));
        Ok(all)
    }

    fn clear(&self) {
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("results.") || name.starts_with("blocks.") {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// What the last run left; `None` if no process loaded the library.
    pub(super) fn left(&self) -> Option<Left> {
        let mut left = Left::default();
        let mut any = false;
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let number = path.extension().and_then(|end| end.to_str()?.parse::<u32>().ok());
            let (Some(number), Some(stem)) = (number, path.file_stem()) else { continue };
            let text = read(&path);
            if stem == "blocks" {
                left.logs.insert(number, Log::read(&text));
            } else if stem == "results" {
                any = true;
                left.names.extend(allocators(&text));
                left.refused.extend(refused(&text));
                let forks = text.lines().find_map(|line| line.strip_prefix("forks "));
                left.forks += forks.and_then(|forks| forks.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        any.then_some(left)
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn refused(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("remedy ")?.split(' ').collect();
        let [_, name, count, _, refused, error] = words[..] else { return None };
        let error = std::io::Error::from_raw_os_error(error.parse().ok()?);
        (refused != "0").then(|| format!("{name}: the kernel refused {refused} of {count} calls ({error})"))
    };
    text.lines().filter_map(line).collect()
}

/// The allocator keeps what is freed: settings of the C library's.
pub(super) fn environment_of_keep(remedies: &[(Option<u64>, Remedy)]) -> Option<(OsString, OsString)> {
    remedies.iter().any(|(_, remedy)| *remedy == Remedy::Keep).then(|| {
        let mut words = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
        if !words.is_empty() {
            words.push(':');
        }
        words.push_str("glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776");
        ("GLIBC_TUNABLES".into(), words.into())
    })
}
