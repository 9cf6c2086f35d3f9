//! Whether a run knew which boot of the system it was in.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::samples;

/// Larger files are not looked into.
const LENGTH_MAX: u64 = 256 << 20;
/// What a program has in it that asks for the boot id.
const ASKS: [&[u8]; 2] = [b"random/boot_id", b"sd_id128_get_boot"];

/// A warning if the program can ask for the boot id, or these files that it left hold it: of a run whose
/// recovery was given the same one.
pub fn warning(program: Option<&OsStr>, files: &[String]) -> Option<String> {
    let asks = program.is_some_and(|name| {
        let text = samples::find(Path::new(name)).map(|path| read(&path)).unwrap_or_default();
        ASKS.iter().any(|word| contains(&text, word))
    });
    let forms = forms(&fs::read_to_string(reboot::BOOT_ID).unwrap_or_default());
    let holds = |name: &String| {
        let bytes = read(Path::new(name));
        forms.iter().any(|form| contains(&bytes, form))
    };
    (asks || files.iter().any(holds)).then(|| {
        "the program asks for the kernel's boot id, and recovery was given the one of the run, as if there \
         had been no reboot: it may trust what no crash leaves"
            .to_owned()
    })
}

/// The ways in which a file can hold a boot id: as text, without its dashes, as bytes.
fn forms(id: &str) -> Vec<Vec<u8>> {
    let text = id.trim();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let Ok(value) = u128::from_str_radix(&digits, 16) else { return Vec::new() };
    vec![text.into(), digits.into(), value.to_be_bytes().into(), value.to_le_bytes().into()]
}

/// A file's bytes; none if it is no file of reasonable length.
fn read(path: &Path) -> Vec<u8> {
    let small = fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= LENGTH_MAX);
    small.then(|| fs::read(path).ok()).flatten().unwrap_or_default()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == part[0]) {
        rest = &rest[at..];
        if rest.starts_with(part) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_found_as_text_and_as_bytes() {
        let forms = forms("7fc01671-7871-43f4-832f-804afa706f86\n");
        let held = |bytes: &[u8]| forms.iter().any(|form| contains(bytes, form));
        assert!(held(b"boot 7fc01671-7871-43f4-832f-804afa706f86 pool"));
        assert!(held(b"7fc01671787143f4832f804afa706f86"));
        assert!(held(b"\x7f\x7f\xc0\x16\x71\x78\x71\x43\xf4\x83\x2f\x80\x4a\xfa\x70\x6f\x86"));
        assert!(!held(b"7fc01671-7871-43f4-832f-804afa706f87"));
        assert!(super::forms("").is_empty());
    }
}
