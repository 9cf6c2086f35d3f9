//! Files of kinds: which site's allocations go to which memory. The library in the program reads the same.

use std::path::Path;

use crate::error::Error;
use crate::plan::PlanFault;

/// Names of kinds, ours and memkind's.
const KINDS: [&str; 10] = [
    "fast",
    "slow",
    "interleave",
    "MEMKIND_DEFAULT",
    "MEMKIND_REGULAR",
    "MEMKIND_LOWEST_LATENCY_LOCAL",
    "MEMKIND_DAX_KMEM",
    "MEMKIND_DAX_KMEM_ALL",
    "MEMKIND_HIGHEST_CAPACITY",
    "MEMKIND_INTERLEAVE",
];

/// Looks whether the library in the program will understand a file.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let fault = match words[..] {
            [] => continue,
            [key, ..] if u64::from_str_radix(key, 16).is_err() => {
                format!("`{key}` is no site: 16 digits as in plan.kinds")
            }
            [_] => "a kind is missing: fast, slow or interleave".to_owned(),
            [_, kind, ..] if !KINDS.contains(&kind) => {
                format!("no kind `{kind}`: use one of {}", KINDS.join(", "))
            }
            [_, _, share] if !share.parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share)) => {
                format!("`{share}` is no share: 0 to 1")
            }
            [_, _] | [_, _, _] => continue,
            _ => "more words than a site, a kind and a share".to_owned(),
        };
        return Err(PlanFault::Kinds { file: path.display().to_string(), line: number, fault }.into());
    }
    Ok(())
}
