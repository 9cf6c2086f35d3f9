//! Where `%n` of `printf` and its relatives puts what was printed so far.

use crate::arguments::List;
use crate::window;

/// Conversions that store, at most, of one call.
pub const MOST: usize = 16;
/// Arguments that are looked at, at most.
const ARGUMENTS: usize = 64;

/// What an argument is, as far as finding the next one goes.
#[derive(Clone, Copy)]
enum Kind {
    Word,
    Double,
    LongDouble,
    /// A place for a count of so many bytes.
    Count(usize),
}

/// A character of a format, which may be wide.
pub trait Character: Copy {
    /// Its number.
    fn number(self) -> u32;
}

impl Character for u8 {
    fn number(self) -> u32 {
        self.into()
    }
}

impl Character for libc::wchar_t {
    fn number(self) -> u32 {
        self as u32
    }
}

/// A format that is read character by character.
struct Format<C>(*const C);

impl<C: Character> Format<C> {
    fn peek(&self) -> u8 {
        // SAFETY: the program's format has an end, behind which nobody reads. What is not ASCII matters to none.
        u8::try_from(unsafe { self.0.read() }.number()).unwrap_or(b'?')
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        if byte != 0 {
            self.0 = self.0.wrapping_add(1);
        }
        byte
    }

    /// A number, if one is there.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while self.peek().is_ascii_digit() {
            let digit = usize::from(self.next() - b'0');
            number = Some(number.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit));
        }
        number
    }

    /// A number that a dollar follows: an argument's.
    fn position(&mut self) -> Option<usize> {
        let before = self.0;
        let number = self.number();
        if number.is_some() && self.peek() == b'$' {
            self.next();
            return number;
        }
        self.0 = before;
        None
    }
}

/// The kinds of a format's arguments, and how many there are.
struct Kinds {
    kinds: [Kind; ARGUMENTS],
    count: usize,
    next: usize,
}

impl Kinds {
    fn put(&mut self, position: Option<usize>, kind: Kind) {
        let index = match position {
            Some(position) => position.wrapping_sub(1),
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        if let Some(place) = self.kinds.get_mut(index) {
            *place = kind;
            self.count = self.count.max(index + 1);
        }
    }
}

/// A width or a precision.
fn amount<C: Character>(format: &mut Format<C>, kinds: &mut Kinds) {
    if format.peek() == b'*' {
        format.next();
        let position = format.position();
        kinds.put(position, Kind::Word);
    } else {
        format.number();
    }
}

/// One conversion, behind its percent sign.
fn conversion<C: Character>(format: &mut Format<C>, kinds: &mut Kinds) -> bool {
    let position = format.position();
    while matches!(format.peek(), b'-' | b'+' | b' ' | b'#' | b'0' | b'\'' | b'I') {
        format.next();
    }
    amount(format, kinds);
    if format.peek() == b'.' {
        format.next();
        amount(format, kinds);
    }
    let (mut bytes, mut quad) = (4, false);
    loop {
        match format.peek() {
            b'h' => bytes /= 2,
            b'l' | b'j' | b'z' | b'Z' | b't' | b'q' => bytes = 8,
            b'L' => (bytes, quad) = (8, true),
            b'w' => {
                format.next();
                if format.peek() == b'f' {
                    format.next();
                }
                bytes = format.number().unwrap_or(32) / 8;
                continue;
            }
            _ => break,
        }
        format.next();
    }
    let kind = match format.next() {
        0 | b'%' | b'm' => return false,
        b'n' => Kind::Count(bytes.max(1)),
        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' if quad => Kind::LongDouble,
        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => Kind::Double,
        _ => Kind::Word,
    };
    kinds.put(position, kind);
    matches!(kind, Kind::Count(_))
}

/// Places in the window that a call will store counts in; the others are empty.
///
/// # Safety
/// The format has an end, and the list has its arguments.
pub unsafe fn counts<C: Character>(format: *const C, arguments: *const List) -> [(usize, usize); MOST] {
    let mut places = [(0, 0); MOST];
    if format.is_null() {
        return places;
    }
    let mut kinds = Kinds { kinds: [Kind::Word; ARGUMENTS], count: 0, next: 0 };
    let (mut rest, mut any) = (Format(format), false);
    loop {
        match rest.next() {
            0 => break,
            b'%' => any |= conversion(&mut rest, &mut kinds),
            _ => {}
        }
    }
    if !any {
        return places;
    }
    // SAFETY: the caller's; a copy, because reading takes from it.
    let mut list = unsafe { *arguments };
    let mut free = places.iter_mut();
    for kind in &kinds.kinds[..kinds.count] {
        // SAFETY: the caller's.
        let word = unsafe {
            match kind {
                Kind::Double => list.skip_double(),
                Kind::LongDouble => list.skip_long_double(),
                Kind::Word | Kind::Count(_) => list.next_word(),
            }
        };
        if let Kind::Count(bytes) = kind
            && window::contains(word)
            && let Some(place) = free.next()
        {
            *place = (word, *bytes);
        }
    }
    places
}
