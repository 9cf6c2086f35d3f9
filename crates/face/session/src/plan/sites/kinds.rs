//! Files of kinds: which site's allocations go to which memory. The library in the program reads the same.

use std::path::Path;

use abi::kinds::{KINDS, Kind};

use crate::error::Error;
use crate::plan::PlanFault;

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
            [_, kind, ..] if Kind::named(kind).is_none() => {
                format!("no kind `{kind}`: use one of {}", KINDS.map(|(name, _)| name).join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_the_library_understands_is_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("all.kinds");
        let text: String = KINDS.iter().map(|(name, _)| format!("00000000000000ab {name} 0.5\n")).collect();
        std::fs::write(&path, text).expect("a file");
        assert!(check(&path).is_ok());
        std::fs::write(&path, "00000000000000ab MEMKIND_HBW\n").expect("a file");
        assert!(check(&path).is_err());
    }
}
