//! What a program printed or acknowledged, as regions: each call that does so is a region whose number leads to a
//! name, the text.

use crate::{NameId, SiteTable};

/// The bit that sets such regions apart from a program's own.
const PRINTED: u64 = 1 << 63;

/// The name that stands for printed bytes.
#[must_use]
pub fn printed_name(bytes: &[u8]) -> String {
    named("printed", bytes)
}

/// The name that stands for bytes that were acknowledged elsewhere than on standard output.
#[must_use]
pub fn acked_name(bytes: &[u8]) -> String {
    named("acked", bytes)
}

/// The region that stands for the printing of what a name says.
#[must_use]
pub fn printed_region(name: NameId) -> u64 {
    PRINTED | u64::from(name.0)
}

/// The bytes that a region's end says were printed; `None` if it is a region of the program's own.
#[must_use]
pub fn printed(region: u64, table: &SiteTable) -> Option<Vec<u8>> {
    bytes(region, table, "printed")
}

/// The bytes that a region's end says were acknowledged elsewhere; `None` if it is another region.
#[must_use]
pub fn acked(region: u64, table: &SiteTable) -> Option<Vec<u8>> {
    bytes(region, table, "acked")
}

fn named(kind: &str, bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{kind}:{text}"),
        Err(_) => bytes.iter().fold(format!("{kind}-hex:"), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn bytes(region: u64, table: &SiteTable, kind: &str) -> Option<Vec<u8>> {
    let name = (region & PRINTED != 0).then(|| table.name(NameId(region as u32)))??;
    let rest = name.strip_prefix(kind)?;
    if let Some(text) = rest.strip_prefix(':') {
        return Some(text.as_bytes().to_vec());
    }
    let digits = rest.strip_prefix("-hex:")?.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::{acked, acked_name, printed, printed_name, printed_region};
    use crate::{NameId, SiteTable};

    #[test]
    fn any_bytes_come_back() {
        let mut table = SiteTable::default();
        for (at, bytes) in [&b"saved 1\n"[..], b"", b"\xff\x00a", b"printed-hex:zz"].iter().enumerate() {
            let (print, ack) = (NameId(2 * at as u32 + 1), NameId(2 * at as u32 + 2));
            table.define_name(print, printed_name(bytes));
            table.define_name(ack, acked_name(bytes));
            assert_eq!(printed(printed_region(print), &table).as_deref(), Some(*bytes));
            assert_eq!(acked(printed_region(ack), &table).as_deref(), Some(*bytes));
            assert_eq!(printed(printed_region(ack), &table), None, "acknowledged, not printed");
            assert_eq!(acked(printed_region(print), &table), None, "printed, not acknowledged");
        }
        assert_eq!(printed(1, &table), None, "a region of the program's own");
        for wrong in ["printed-hex:zz", "printed-hex:1", "printed-hex:+1", "printed-hex:é"] {
            table.define_name(NameId(99), wrong.to_owned());
            assert_eq!(printed(printed_region(NameId(99)), &table), None, "no digits: {wrong}");
        }
    }

    /// Random bytes and random names: what was printed comes back, and no name makes decoding panic.
    #[test]
    fn random_bytes_come_back_and_random_names_do_no_harm() {
        let seed = 0x5EED_0043_u64;
        println!("seed {seed:#x}");
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let len = next() % 24;
            let bytes: Vec<u8> = (0..len).map(|_| (next() >> 16) as u8).collect();
            let mut table = SiteTable::default();
            table.define_name(NameId(1), printed_name(&bytes));
            assert_eq!(printed(printed_region(NameId(1)), &table).as_deref(), Some(&bytes[..]));
            let kind = ["printed", "acked", "printed-hex:", "acked-hex:", "note:"][(next() % 5) as usize];
            table.define_name(NameId(2), format!("{kind}{}", String::from_utf8_lossy(&bytes)));
            let region = next() << 32 | 2;
            let both = (printed(region, &table), acked(region, &table));
            assert!(both.0.is_none() || both.1.is_none(), "one name means both: {kind} {bytes:?}");
        }
    }
}
