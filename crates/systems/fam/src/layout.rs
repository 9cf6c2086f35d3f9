//! Where each page lies in the lazy-page file: regions of addresses, cut into I/O vectors.

use super::uffd::PAGE;

/// The longest vector: what the source of this design writes at a time.
pub const VECTOR: u64 = 2 << 20;
/// Regions from this size on lie in the file as they lie in memory, modulo a large page.
const ALIGNED: u64 = 2 * VECTOR;

/// A range of addresses whose pages the source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Region {
    /// First address, a multiple of a page.
    pub start: u64,
    /// Bytes, a multiple of a page.
    pub bytes: u64,
}

/// Contiguous addresses that are written, acknowledged and checked as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// First address.
    pub start: u64,
    /// Bytes, at most [`VECTOR`].
    pub bytes: u64,
    /// Where in the file.
    pub offset: u64,
}

impl Vector {
    /// Exclusive end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Regions in order of addresses, and their vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    regions: Vec<Region>,
    vectors: Vec<Vector>,
    end: u64,
}

impl Layout {
    /// Lays regions out from an offset on. Neighbours are joined; vectors end at multiples of [`VECTOR`].
    #[must_use]
    pub fn new(regions: &[Region], from: u64) -> Layout {
        let mut sorted: Vec<Region> = regions.iter().copied().filter(|region| region.bytes > 0).collect();
        sorted.sort_unstable_by_key(|region| region.start);
        let mut joined: Vec<Region> = Vec::with_capacity(sorted.len());
        for region in sorted {
            match joined.last_mut() {
                Some(last) if last.start + last.bytes >= region.start => {
                    last.bytes = last.bytes.max(region.start + region.bytes - last.start);
                }
                _ => joined.push(region),
            }
        }
        let (mut vectors, mut offset) = (Vec::new(), from.next_multiple_of(PAGE));
        for region in &joined {
            if region.bytes >= ALIGNED {
                offset = offset.next_multiple_of(VECTOR) + region.start % VECTOR;
            }
            let (mut at, end) = (region.start, region.start + region.bytes);
            while at < end {
                let next = ((at / VECTOR + 1) * VECTOR).min(end);
                vectors.push(Vector { start: at, bytes: next - at, offset });
                offset += next - at;
                at = next;
            }
        }
        Layout { regions: joined, vectors, end: offset }
    }

    /// The same for what a process has later. What it had before stays where it is; the rest goes behind the end.
    #[must_use]
    pub fn again(&self, regions: &[Region]) -> Layout {
        let fresh = Layout::new(regions, 0);
        let (mut vectors, mut tail) = (Vec::new(), self.end);
        for region in &fresh.regions {
            let (mut at, end) = (region.start, region.start + region.bytes);
            while at < end {
                let after = self.vectors.partition_point(|vector| vector.start <= at);
                let known =
                    after.checked_sub(1).map(|index| self.vectors[index]).filter(|known| at < known.end());
                let (past, offset) = match known {
                    Some(known) => (known.end().min(end), known.offset + (at - known.start)),
                    None => {
                        let next = self.vectors.get(after).map_or(end, |next| next.start);
                        let past = next.min(end).min((at / VECTOR + 1) * VECTOR);
                        tail += past - at;
                        (past, tail - (past - at))
                    }
                };
                vectors.push(Vector { start: at, bytes: past - at, offset });
                at = past;
            }
        }
        Layout { regions: fresh.regions, vectors, end: tail }
    }

    /// The same from what a file says; none if its vectors are not in order, overlap or leave the file.
    #[must_use]
    pub fn from_vectors(vectors: Vec<Vector>, first: u64, end: u64) -> Option<Layout> {
        let mut by_offset: Vec<(u64, u64)> =
            vectors.iter().map(|vector| (vector.offset, vector.bytes)).collect();
        by_offset.sort_unstable();
        let apart = by_offset.windows(2).all(|pair| pair[0].0.saturating_add(pair[0].1) <= pair[1].0);
        if !apart {
            return None;
        }
        let mut address = 0;
        let mut regions: Vec<Region> = Vec::new();
        for vector in &vectors {
            let whole = vector.bytes > 0 && vector.bytes <= VECTOR && vector.bytes.is_multiple_of(PAGE);
            let fits = vector.start >= address
                && vector.offset >= first
                && vector.start.is_multiple_of(PAGE)
                && vector.offset.is_multiple_of(PAGE)
                && vector.start.checked_add(vector.bytes).is_some()
                && vector.offset.checked_add(vector.bytes).is_some_and(|past| past <= end);
            if !whole || !fits {
                return None;
            }
            match regions.last_mut() {
                Some(last) if last.start + last.bytes == vector.start => last.bytes += vector.bytes,
                _ => regions.push(Region { start: vector.start, bytes: vector.bytes }),
            }
            address = vector.end();
        }
        let end = by_offset.last().map_or(first, |(offset, bytes)| offset + bytes);
        Some(Layout { regions, vectors, end })
    }

    /// Regions by address.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Vectors by address.
    #[must_use]
    pub fn vectors(&self) -> &[Vector] {
        &self.vectors
    }

    /// Bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.bytes).sum()
    }

    /// Exclusive end in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of the vector that holds an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<usize> {
        let after = self.vectors.partition_point(|vector| vector.start <= address);
        let index = after.checked_sub(1)?;
        (address < self.vectors[index].end()).then_some(index)
    }

    /// Where in the file an address lies.
    #[must_use]
    pub fn offset(&self, address: u64) -> Option<u64> {
        let vector = &self.vectors[self.find(address)?];
        Some(vector.offset + (address - vector.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_cover_regions_once_and_stay_short() {
        let regions = [
            Region { start: 0x7000_0000_3000, bytes: 9 << 20 },
            Region { start: 0x1000, bytes: 0x2000 },
            Region { start: 0x3000, bytes: 0x1000 },
        ];
        let layout = Layout::new(&regions, 100);
        assert_eq!(layout.regions().len(), 2, "neighbours are one");
        assert_eq!(layout.bytes(), (9 << 20) + 0x3000);
        assert_eq!(layout.vectors().iter().map(|vector| vector.bytes).sum::<u64>(), layout.bytes());
        assert!(layout.vectors().iter().all(|vector| vector.bytes <= VECTOR));
        let large = layout.vectors()[layout.find(0x7000_0000_3000).expect("there")];
        assert_eq!(large.offset % VECTOR, large.start % VECTOR, "as in memory, modulo a large page");
        assert_eq!(layout.find(0x4000), None);
        assert_eq!(layout.find(0xfff), None);
        assert_eq!(layout.offset(0x2008), layout.offset(0x1000).map(|offset| offset + 0x1008));
        let again = Layout::from_vectors(layout.vectors().to_vec(), 100, layout.end());
        assert_eq!(again.as_ref(), Some(&layout));
    }

    #[test]
    fn what_a_process_had_before_stays_where_it_is() {
        let before = Layout::new(&[Region { start: 0x10000, bytes: 0x8000 }], 0x1000);
        let now = [Region { start: 0xe000, bytes: 0x4000 }, Region { start: 0x16000, bytes: 0x5000 }];
        let layout = before.again(&now);
        assert_eq!(layout.bytes(), 0x9000);
        assert_eq!(layout.offset(0x10000), before.offset(0x10000));
        assert_eq!(layout.offset(0x17008), before.offset(0x17008));
        assert_eq!((layout.offset(0xe000), layout.offset(0x18000)), (Some(0x9000), Some(0xb000)));
        assert_eq!(layout.offset(0x12000), None, "dropped meanwhile");
        let read = Layout::from_vectors(layout.vectors().to_vec(), 0x1000, layout.end());
        assert_eq!(read.as_ref(), Some(&layout));
    }

    #[test]
    fn vectors_that_overlap_or_leave_the_file_are_refused() {
        let vector = |start, offset| Vector { start, bytes: PAGE, offset };
        assert!(Layout::from_vectors(vec![vector(0x1000, 0), vector(0x1000, PAGE)], 0, 1 << 20).is_none());
        assert!(Layout::from_vectors(vec![vector(0x1000, 0), vector(0x2000, 0)], 0, 1 << 20).is_none());
        assert!(Layout::from_vectors(vec![vector(0x1000, PAGE)], 0, PAGE).is_none());
        assert!(Layout::from_vectors(vec![vector(0x1001, 0)], 0, 1 << 20).is_none());
        assert!(Layout::from_vectors(vec![vector(u64::MAX / PAGE * PAGE, 0)], 0, 1 << 20).is_none());
    }
}
