//! What was seen per place: a source line of a function that stores.

use event::SiteId;

/// Classes of context sizes: powers of two of bytes.
pub(super) const CLASSES: usize = 48;
/// Places distinguished; further ones share the first's account. A place takes 450 B at most, and 64 B for
/// each of its classes.
const PLACES_MAX: usize = 1 << 16;

/// Readers and earlier writers distinguished for a place.
const COUNTED_MAX: usize = 8;

/// How often, and after how many instructions, lines were used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reuse {
    /// Lines used again within the distance that counts.
    pub(super) lines: u64,
    /// Sum of their distances.
    pub(super) distance: u64,
}

impl Reuse {
    pub(super) fn add(&mut self, distance: u64) {
        self.lines += 1;
        self.distance = self.distance.saturating_add(distance);
    }

    pub(super) fn merge(&mut self, other: Reuse) {
        self.lines += other.lines;
        self.distance = self.distance.saturating_add(other.distance);
    }

    /// Mean distance.
    pub(super) fn mean(&self) -> Option<u64> {
        (self.lines > 0).then(|| self.distance / self.lines)
    }
}

/// A place's account in one context.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub(super) place: u32,
    /// Bytes written, and those of them that continued what was written before.
    pub(super) bytes: u64,
    pub(super) streak_bytes: u64,
    /// Lines written, counted again whenever bytes are overwritten.
    pub(super) lines: u64,
    pub(super) reread: Reuse,
    pub(super) rewritten: Reuse,
    /// Of these, the lines that were written again behind a fence of the thread that had written them.
    pub(super) rewritten_behind: u64,
    /// Lines that the program itself flushed or demoted after they were written.
    pub(super) sent: u64,
}

/// A place's contexts of one size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Class {
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) reread: Reuse,
    pub(super) rewritten: Reuse,
    /// Of these, the lines that were written again behind a fence of the thread that had written them.
    pub(super) rewritten_behind: u64,
    /// Lines that the program itself flushed or demoted after they were written.
    pub(super) sent: u64,
    /// Largest context.
    pub(super) size: u64,
    /// Where one of its objects was allocated.
    pub(super) allocated: Option<SiteId>,
}

/// One place.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Store instructions, or what would take as many.
    pub(super) work: u64,
    pub(super) bytes: u64,
    /// Of these, with stores that go around the caches.
    pub(super) around_bytes: u64,
    /// In contexts of at least a line, one after the other.
    pub(super) sequential_bytes: u64,
    /// Stored shortly before a fence.
    pub(super) fenced_bytes: u64,
    /// Stored so shortly before a fence that nothing can be ahead of it.
    pub(super) hurried_bytes: u64,
    /// Fewest instructions from a store to the next fence.
    pub(super) fence_distance: Option<u64>,
    /// Places that had begun the lines that this one went on with, in the same loop body, and how many lines.
    beside: Vec<(u32, u64)>,
    /// Functions in which the thread that wrote lines here soon reads them, and how many.
    pub(super) readers: Vec<(u32, u64)>,
    /// Places of the same function that had written these bytes before, and how many lines.
    before: Vec<(u32, u64)>,
    /// By the logarithm of the size; only those that occur.
    pub(super) classes: Vec<(u8, Class)>,
}

/// All places.
#[derive(Debug, Default)]
pub(super) struct Places {
    table: Vec<Place>,
}

impl Places {
    /// A place's account.
    pub(super) fn get(&mut self, place: u32) -> &mut Place {
        let at = Some(place as usize).filter(|&at| at < PLACES_MAX).unwrap_or_default();
        if at >= self.table.len() {
            self.table.resize_with(at + 1, Place::default);
        }
        &mut self.table[at]
    }

    /// `place` went on with a line that `other` had begun a moment ago.
    pub(super) fn shares_line(&mut self, place: u32, other: u32) {
        count(&mut self.get(place).beside, other);
    }

    /// For each place the first of the places that fill the same lines in one loop body: the real and the
    /// imaginary part of a number are written by two statements and have one fate.
    pub(super) fn bodies(&self) -> Vec<usize> {
        self.joined((0..self.table.len()).collect(), |place| &place.beside)
    }

    /// `place` overwrites a line that `other`, of the same function, had written.
    pub(super) fn goes_on(&mut self, place: u32, other: u32) {
        count(&mut self.get(place).before, other);
    }

    /// For each place the first of the places that write the same data: a matrix is often written by a
    /// function in several passes, and what becomes of it does not depend on the pass.
    pub(super) fn matrices(&self) -> Vec<usize> {
        self.joined(self.bodies(), |place| &place.before)
    }

    /// Joins places with those that share a quarter of their lines.
    fn joined(&self, mut first: Vec<usize>, with: impl Fn(&Place) -> &Vec<(u32, u64)>) -> Vec<usize> {
        for (place, account) in self.all() {
            let lines: u64 = account.classes.iter().map(|(_, class)| class.lines).sum();
            for &(other, _) in with(account).iter().filter(|(_, times)| times * 4 >= lines.max(1)) {
                let (Some(&a), Some(&b)) = (first.get(place), first.get(other as usize)) else { continue };
                first.iter_mut().filter(|of| **of == a.max(b)).for_each(|of| *of = a.min(b));
            }
        }
        first
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Place)> {
        self.table.iter().enumerate().filter(|(_, place)| place.work > 0)
    }

    /// A context of `size` bytes ended, with this account of one of its places.
    pub(super) fn close(&mut self, part: &Part, size: u64, allocated: Option<SiteId>) {
        let place = self.get(part.place);
        if size >= super::lines::LINE {
            place.sequential_bytes += part.streak_bytes;
        }
        let part_class = Class {
            bytes: part.bytes,
            lines: part.lines,
            reread: part.reread,
            rewritten: part.rewritten,
            rewritten_behind: part.rewritten_behind,
            sent: part.sent,
            size,
            allocated,
        };
        let number = (u64::BITS - size.saturating_sub(1).leading_zeros()).min(CLASSES as u32 - 1) as u8;
        place.add(number, &part_class);
    }
}

/// Counts one more of `who`, if there is room.
fn count(counts: &mut Vec<(u32, u64)>, who: u32) {
    if let Some((_, times)) = counts.iter_mut().find(|(known, _)| *known == who) {
        *times += 1;
    } else if counts.len() < COUNTED_MAX {
        counts.push((who, 1));
    }
}

impl Place {
    /// The thread that wrote a line here soon reads it in `function`.
    pub(super) fn read_by(&mut self, function: u32) {
        count(&mut self.readers, function);
    }

    fn add(&mut self, number: u8, other: &Class) {
        let at = self.classes.iter().position(|(class, _)| *class == number).unwrap_or_else(|| {
            self.classes.push((number, Class::default()));
            self.classes.len() - 1
        });
        let class = &mut self.classes[at].1;
        class.bytes += other.bytes;
        class.lines += other.lines;
        class.reread.merge(other.reread);
        class.rewritten.merge(other.rewritten);
        class.rewritten_behind += other.rewritten_behind;
        class.sent += other.sent;
        class.size = class.size.max(other.size);
        class.allocated = class.allocated.or(other.allocated);
    }

    /// Takes over what another place of the same loop body did.
    pub(super) fn merge(&mut self, other: &Place) {
        self.work += other.work;
        self.bytes += other.bytes;
        self.around_bytes += other.around_bytes;
        self.sequential_bytes += other.sequential_bytes;
        self.fenced_bytes += other.fenced_bytes;
        self.hurried_bytes += other.hurried_bytes;
        let nearest = self.fence_distance.into_iter().chain(other.fence_distance).min();
        self.fence_distance = nearest;
        for &(reader, lines) in &other.readers {
            match self.readers.iter_mut().find(|(known, _)| *known == reader) {
                Some((_, known)) => *known += lines,
                None => self.readers.push((reader, lines)),
            }
        }
        for (number, class) in &other.classes {
            self.add(*number, class);
        }
    }
}
