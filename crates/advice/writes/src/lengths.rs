//! Lengths among the writes between two syncs of a file.

use event::SiteId;

use crate::ranges::Ranges;

/// Short writes that are kept between two syncs.
const KEPT: usize = 4_096;
/// The least number that is taken for a length.
const LEAST: u64 = 4;

/// A write that may be a length.
#[derive(Clone, Copy, Debug)]
struct Short {
    offset: u64,
    len: u64,
    /// Its value in both byte orders.
    values: [u64; 2],
    site: SiteId,
}

/// The writes of a file since its last sync.
#[derive(Clone, Debug, Default)]
pub struct Window {
    short: Vec<Short>,
    written: Ranges,
    /// The last write that is none of the short ones.
    last: Option<SiteId>,
}

/// A length, and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The write of the length.
    pub site: SiteId,
    /// A write of what it covers.
    pub covered: Option<SiteId>,
    /// Where it stands.
    pub offset: u64,
    /// Bytes that it covers.
    pub bytes: u64,
}

impl Window {
    /// A write.
    pub fn write(&mut self, offset: u64, bytes: &[u8], site: SiteId) {
        let len = bytes.len() as u64;
        self.written.insert(offset, offset + len);
        let values = match bytes.len() {
            4 => bytes
                .try_into()
                .ok()
                .map(|word| [u64::from(u32::from_le_bytes(word)), u64::from(u32::from_be_bytes(word))]),
            8 => bytes.try_into().ok().map(|word| [u64::from_le_bytes(word), u64::from_be_bytes(word)]),
            _ => None,
        };
        match values.filter(|_| self.short.len() < KEPT) {
            Some(values) => {
                self.short.retain(|short| short.offset != offset);
                self.short.push(Short { offset, len, values, site });
            }
            None => self.last = Some(site),
        }
    }

    /// The sync: what stood in the window with a length, and nothing remains.
    pub fn sync(&mut self) -> Option<Length> {
        let window = std::mem::take(self);
        let Window { short, written, last } = window;
        short.iter().find_map(|length| {
            let rest = {
                let mut rest = written.clone();
                rest.remove(length.offset, length.offset + length.len);
                rest
            };
            rest.iter().filter(|&(from, _)| from >= length.offset + length.len).find_map(|(from, to)| {
                let behind = length.offset + length.len;
                // As many bytes as there are, as there are behind the length, or up to the file's end.
                let counts = [to - from, to - behind, to];
                let covers = length.values.iter().any(|value| *value >= LEAST && counts.contains(value));
                let mut others =
                    short.iter().filter(|other| (from..to).contains(&other.offset)).map(|other| other.site);
                let covered = others.next_back().or(last);
                covers.then_some(Length {
                    site: length.site,
                    covered,
                    offset: length.offset,
                    bytes: to - from,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Window;
    use event::SiteId;

    fn found(writes: &[(u64, &[u8])]) -> bool {
        let mut window = Window::default();
        for (number, (offset, bytes)) in (1..).zip(writes) {
            window.write(*offset, bytes, SiteId(number));
        }
        window.sync().is_some()
    }

    #[test]
    fn a_bare_length_in_the_window_of_its_bytes_is_found() {
        let payload = [7_u8; 100];
        assert!(found(&[(0, &100_u32.to_le_bytes()), (4, &payload)]), "a record");
        assert!(found(&[(4, &payload), (0, &100_u32.to_be_bytes())]), "the other way round");
        assert!(found(&[(0, &1124_u64.to_le_bytes()), (1024, &payload)]), "the file's end");
        assert!(found(&[(0, &1116_u64.to_le_bytes()), (1024, &payload)]), "all bytes behind it");
        assert!(!found(&[(0, &99_u32.to_le_bytes()), (4, &payload)]), "another number");
        assert!(!found(&[(4, &payload)]), "no length");
        assert!(!found(&[(0, &100_u32.to_le_bytes())]), "the bytes were synced before");
        let mut record = 100_u32.to_le_bytes().to_vec();
        record.extend([0; 4]);
        record.extend(payload);
        assert!(!found(&[(0, &record)]), "one write, with room for a checksum");
    }
}
