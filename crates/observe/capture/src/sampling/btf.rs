//! Where a field of a structure of the running kernel lies, by the kernel's own type information
//! (`Documentation/bpf/btf.rst`).

use std::io;

const MAGIC: u16 = 0xeb9f;
const STRUCTURE: u32 = 4;
/// Bytes of a type's record without what follows it.
const HEAD: usize = 12;

/// Bytes from the start of a structure of the running kernel to one of its fields.
///
/// # Errors
/// If the kernel has no type information, or no such field in it.
pub(super) fn offset_in_kernel(structure: &str, field: &str) -> io::Result<u32> {
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux")?;
    offset(&bytes, structure, field).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the kernel's types have no {structure}.{field}"))
    })
}

fn offset(bytes: &[u8], structure: &str, field: &str) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let (types, length) = (header + word(8)? as usize, word(12)? as usize);
    let strings = header + word(16)? as usize;
    let named = |name: u32, as_is: &str| {
        let text = bytes.get(strings + name as usize..).unwrap_or_default();
        text.strip_prefix(as_is.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut at = types;
    while at < types + length {
        let (name, info) = (word(at)?, word(at + 4)?);
        let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
        if kind == STRUCTURE && named(name, structure) {
            let members = (0..count).map(|member| at + HEAD + 12 * member);
            let own =
                members.into_iter().find(|&member| word(member).is_some_and(|name| named(name, field)))?;
            // With bit fields, the upper byte is a width.
            let bits = word(own + 8)?;
            let bits = if info >> 31 == 1 { bits & 0xff_ffff } else { bits };
            return (bits % 8 == 0).then_some(bits / 8);
        }
        at += HEAD
            + match kind {
                // An integer, a variable, a tag.
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * count,
                6 | 13 => 8 * count,
                // Pointers, forward declarations, other names, qualifiers, functions, floats, tags of types.
                2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, then a structure with two fields, the second one at 40 bits.
    fn types() -> Vec<u8> {
        let strings = b"\0task\0flags\0disabled\0";
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let body = words(&[0, 1 << 24, 4, 32, 1, STRUCTURE << 24 | 2, 8, 6, 1, 0, 12, 1, 40]);
        let mut all = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        all.extend(words(&[24, 0, body.len() as u32, body.len() as u32, strings.len() as u32]));
        all.extend(body);
        all.extend(strings);
        all
    }

    #[test]
    fn a_field_is_found_by_its_names() {
        let bytes = types();
        assert_eq!(offset(&bytes, "task", "disabled"), Some(5));
        assert_eq!(offset(&bytes, "task", "flags"), Some(0));
        assert_eq!(offset(&bytes, "tas", "flags"), None);
        assert_eq!(offset(&bytes, "task", "disable"), None);
    }

    #[test]
    fn what_is_cut_or_damaged_has_no_fields() {
        let bytes = types();
        for cut in 0..bytes.len() {
            let _ = offset(&bytes[..cut], "task", "disabled");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0xff;
            let _ = offset(&bytes, "task", "disabled");
        }
    }

    #[test]
    fn the_running_kernel_says_where_a_task_counts() {
        match offset_in_kernel("task_struct", "pagefault_disabled") {
            Ok(offset) => assert!(offset > 0 && offset < 1 << 16, "{offset}"),
            Err(error) => println!("skipped: {error}"),
        }
    }
}
