//! Programs that were not built with `strandline cc`: sampling shows where they spend their time, and no
//! more.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use capture::{SampleKind, SampleProfile};
use report::{FunctionSample, Samples};

use crate::error::Error;

/// Functions that a report lists.
const FUNCTIONS_MAX: usize = 30;
/// Programs here are mostly launchers (a shell, env, numactl) of what is really meant, which may be
/// instrumented.
const LAUNCHERS: [&str; 4] = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"];

/// Whether sampling is all that can be done with the program. A launcher is run like an instrumented program;
/// if nothing that it starts is instrumented either, the recording says so.
pub fn only(command: &[OsString]) -> Result<bool, Error> {
    let Some(program) = command.first().and_then(|name| find(Path::new(name))) else { return Ok(false) };
    let launcher =
        program.parent().is_some_and(|folder| LAUNCHERS.iter().any(|place| folder == Path::new(place)));
    Ok(!launcher && is_elf(&program) && !capture::instrumented(&program)?)
}

/// Where a shell would find the program.
pub fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.exists().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn is_elf(program: &Path) -> bool {
    let mut magic = [0; 4];
    let read =
        std::fs::File::open(program).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
    read.is_ok() && &magic == b"\x7fELF"
}

/// The samples of a program as a report has them.
pub fn of(profile: SampleProfile) -> Samples {
    let method = match profile.kind {
        SampleKind::Cycles => "processor cycles, by the performance monitoring unit",
        SampleKind::CpuClock => "processor time, by the kernel's clock (no performance monitoring unit here)",
    };
    let total = profile.total();
    Samples { method: method.to_owned(), total, functions: functions(profile.samples) }
}

/// Samples by function.
fn functions(samples: Vec<(event::Site, u64)>) -> Vec<FunctionSample> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (site, count) in samples {
        let function =
            site.frames.last().map_or_else(|| format!("{:#x}", site.address), |f| f.function.clone());
        *sums.entry((function, site.module)).or_default() += count;
    }
    let mut functions: Vec<_> = sums
        .into_iter()
        .map(|((function, module), samples)| FunctionSample { function, module, samples })
        .collect();
    functions.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.function.cmp(&b.function)));
    functions.truncate(FUNCTIONS_MAX);
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_launchers_are_not_sampled() {
        assert!(!only(&["sh".into(), "-c".into(), "true".into()]).unwrap());
        assert!(!only(&["/no/such/program".into()]).unwrap());
    }
}
