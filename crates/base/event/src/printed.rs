//! What a program printed, as regions: each call that prints is a region whose number leads to a name, the text.

use crate::{NameId, SiteTable};

/// The bit that sets such regions apart from a program's own.
const PRINTED: u64 = 1 << 63;

/// The name that stands for printed bytes.
#[must_use]
pub fn printed_name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("printed:{text}"),
        Err(_) => bytes.iter().fold("printed-hex:".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}

/// The region that stands for the printing of what a name says.
#[must_use]
pub fn printed_region(name: NameId) -> u64 {
    PRINTED | u64::from(name.0)
}

/// The bytes that a region's end says were printed; `None` if it is a region of the program's own.
#[must_use]
pub fn printed(region: u64, table: &SiteTable) -> Option<Vec<u8>> {
    let name = (region & PRINTED != 0).then(|| table.name(NameId(region as u32)))??;
    if let Some(text) = name.strip_prefix("printed:") {
        return Some(text.as_bytes().to_vec());
    }
    let digits = name.strip_prefix("printed-hex:")?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::{printed, printed_name, printed_region};
    use crate::{NameId, SiteTable};

    #[test]
    fn any_bytes_come_back() {
        let mut table = SiteTable::default();
        for (at, bytes) in [&b"saved 1\n"[..], b"", b"\xff\x00a", b"printed-hex:zz"].iter().enumerate() {
            let name = NameId(at as u32 + 1);
            table.define_name(name, printed_name(bytes));
            assert_eq!(printed(printed_region(name), &table).as_deref(), Some(*bytes));
        }
        assert_eq!(printed(1, &table), None, "a region of the program's own");
        table.define_name(NameId(9), "printed-hex:zz".to_owned());
        assert_eq!(printed(printed_region(NameId(9)), &table), None, "no digits");
    }
}
