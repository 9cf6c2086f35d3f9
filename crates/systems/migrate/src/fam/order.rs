//! The order in which a restored process touched its pages, kept for the next restore of the same image.

use std::path::Path;

use super::Error;
use super::uffd::PAGE;

const MAGIC: &[u8; 8] = b"SLFAULT1";

/// Saves an order, each page once.
///
/// # Errors
/// The file can't be written.
pub fn save(path: &Path, order: &[u64]) -> Result<(), Error> {
    let mut bytes = MAGIC.to_vec();
    let mut seen = std::collections::BTreeSet::new();
    for page in order.iter().filter(|page| seen.insert(**page)) {
        bytes.extend(page.to_le_bytes());
    }
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    // A reader sees the old order or the new one.
    let new = path.with_extension("new");
    std::fs::write(&new, &bytes)
        .and_then(|()| std::fs::rename(&new, path))
        .map_err(Error::os(format!("{}: write", path.display())))
}

/// Loads an order.
///
/// # Errors
/// The file can't be read, or is not what [`save`] wrote.
pub fn load(path: &Path) -> Result<Vec<u64>, Error> {
    let bytes = std::fs::read(path).map_err(Error::os(format!("{}: read", path.display())))?;
    let damaged = || Error::Damaged { path: path.to_owned(), what: "the recorded order of faults".into() };
    let body = bytes.len().checked_sub(4).ok_or_else(damaged)?;
    let (body, sum) = bytes.split_at(body);
    let whole = body.starts_with(MAGIC) && body.len().is_multiple_of(8);
    if !whole || crc32fast::hash(body).to_le_bytes() != sum {
        return Err(damaged());
    }
    let pages = body[8..].chunks_exact(8).map(|word| {
        let mut page = [0; 8];
        page.copy_from_slice(word);
        u64::from_le_bytes(page)
    });
    let pages: Vec<u64> = pages.collect();
    if pages.iter().any(|page| !page.is_multiple_of(PAGE)) { Err(damaged()) } else { Ok(pages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("order");
        save(&path, &[0x3000, 0x1000, 0x3000]).expect("saved");
        assert_eq!(load(&path).expect("loaded"), [0x3000, 0x1000]);
        let whole = std::fs::read(&path).expect("read");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).expect("write");
            assert!(load(&path).is_err(), "byte {at}");
            std::fs::write(&path, &whole[..at]).expect("write");
            assert!(load(&path).is_err(), "cut at {at}");
        }
    }
}
