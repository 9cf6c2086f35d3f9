//! The keys of records, and the records of keys. `docs/serve.md` has the table.
//!
//! A *space* is what a database holds between two flushes: a flush gives the database a new one. A *body* is
//! the elements of a hash, list, set or sorted set; its number is never used again. So a flush and the
//! removal of a key of any size change a few records; the rest is removed afterwards, by the *garbage*
//! records that name it.

/// The store's own settings.
pub const SETTINGS: &[u8] = b"\x01settings";
/// The first body number that was never handed out.
pub const BODIES: &[u8] = b"\x01bodies";
/// The spaces of all databases, four bytes each, and the first space that was never used.
pub const SPACES: &[u8] = b"\x01spaces";

/// Says that there may be records of garbage.
pub const HAS_GARBAGE: &[u8] = b"\x01garbage";
/// Says that keys may expire.
pub const HAS_EXPIRIES: &[u8] = b"\x01expiries";

const KEY: u8 = 3;
const EXPIRY: u8 = 4;
const ELEMENT: u8 = 5;
const GARBAGE_BODY: u8 = 6;
const GARBAGE_SPACE: u8 = 7;

/// What a body's records are.
const PAIR: u8 = 0;
const POSITION: u8 = 1;
const SCORE: u8 = 2;

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// All keys of a space.
pub fn space(space: u32) -> Vec<u8> {
    joined(&[&[KEY], &space.to_be_bytes()])
}

/// A key. Its hash stands before it, so that the order of keys is one in which a cursor is a number.
pub fn key(space: u32, hash: u64, key: &[u8]) -> Vec<u8> {
    joined(&[&[KEY], &space.to_be_bytes(), &hash.to_be_bytes(), key])
}

/// The hash and key in the key of a record.
pub fn key_of(record: &[u8]) -> (u64, &[u8]) {
    (number(&record[5..13]), &record[13..])
}

/// All records of keys that expire.
pub fn expiries() -> Vec<u8> {
    vec![EXPIRY]
}

/// That a key expires at this time.
pub fn expiry(at: u64, space: u32, key: &[u8]) -> Vec<u8> {
    joined(&[&[EXPIRY], &at.to_be_bytes(), &space.to_be_bytes(), key])
}

/// Time, space and key of such a record.
pub fn expiry_of(record: &[u8]) -> (u64, u32, &[u8]) {
    (number(&record[1..9]), number(&record[9..13]) as u32, &record[13..])
}

/// All records of a body.
pub fn body(body: u64) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes()])
}

/// All fields of a hash, members of a set or a sorted set.
pub fn pairs(body: u64) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[PAIR]])
}

/// A field or member.
pub fn pair(body: u64, hash: u64, name: &[u8]) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[PAIR], &hash.to_be_bytes(), name])
}

/// The hash and name of such a record.
pub fn pair_of(record: &[u8]) -> (u64, &[u8]) {
    (number(&record[10..18]), &record[18..])
}

/// All elements of a list.
pub fn positions(body: u64) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[POSITION]])
}

/// An element of a list.
pub fn position(body: u64, at: u64) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[POSITION], &at.to_be_bytes()])
}

/// All members of a sorted set, in its order.
pub fn scores(body: u64) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[SCORE]])
}

/// A member of a sorted set, in its order.
pub fn score(body: u64, score: f64, member: &[u8]) -> Vec<u8> {
    joined(&[&[ELEMENT], &body.to_be_bytes(), &[SCORE], &ordered(score).to_be_bytes(), member])
}

/// The score and member of such a record.
pub fn score_of(record: &[u8]) -> (f64, &[u8]) {
    (score_of_order(number(&record[10..18])), &record[18..])
}

/// All bodies that are to be removed.
pub fn garbage_bodies() -> Vec<u8> {
    vec![GARBAGE_BODY]
}

/// That a body is to be removed.
pub fn garbage_body(body: u64) -> Vec<u8> {
    joined(&[&[GARBAGE_BODY], &body.to_be_bytes()])
}

/// All spaces that are to be removed.
pub fn garbage_spaces() -> Vec<u8> {
    vec![GARBAGE_SPACE]
}

/// That a space is to be removed.
pub fn garbage_space(space: u32) -> Vec<u8> {
    joined(&[&[GARBAGE_SPACE], &space.to_be_bytes()])
}

/// The number in the key of a garbage record.
pub fn garbage_of(record: &[u8]) -> u64 {
    number(&record[1..])
}

/// The first key behind all that begin with `prefix`.
pub fn end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// Up to eight bytes, the highest first.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number that is ordered as scores are.
pub fn ordered(score: f64) -> u64 {
    // There is one zero.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn score_of_order(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order & !(1 << 63) } else { !order })
}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it goes away, in milliseconds since 1970; 0 for never.
    pub expires: u64,
    /// The value.
    pub value: Value,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A hash, set or sorted set.
    Held(Held),
    /// A list.
    List(List),
}

/// Which of the types whose elements have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    Sorted,
}

/// A hash, set or sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which of them.
    pub kind: Kind,
    /// The number of its body.
    pub body: u64,
    /// How many elements there are.
    pub count: u64,
}

/// A list: its elements stand at `first` and the positions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The number of its body.
    pub body: u64,
    /// The position of the first element.
    pub first: u64,
    /// How many elements there are.
    pub count: u64,
}

impl Value {
    /// The name that `TYPE` gives.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Held(held) => match held.kind {
                Kind::Hash => "hash",
                Kind::Set => "set",
                Kind::Sorted => "zset",
            },
        }
    }

    /// The number of its body, if it has one.
    pub fn body(&self) -> Option<u64> {
        match self {
            Value::Text(_) => None,
            Value::List(list) => Some(list.body),
            Value::Held(held) => Some(held.body),
        }
    }
}

impl Entry {
    /// Its bytes: the type, when it expires, and the string, or number of the body and count.
    pub fn bytes(&self) -> Vec<u8> {
        let sign = match &self.value {
            Value::Text(_) => b's',
            Value::List(_) => b'l',
            Value::Held(held) => match held.kind {
                Kind::Hash => b'h',
                Kind::Set => b'u',
                Kind::Sorted => b'z',
            },
        };
        let mut bytes = vec![sign];
        bytes.extend(self.expires.to_be_bytes());
        match &self.value {
            Value::Text(text) => bytes.extend(text),
            Value::List(list) => {
                for number in [list.body, list.first, list.count] {
                    bytes.extend(number.to_be_bytes());
                }
            }
            Value::Held(held) => {
                for number in [held.body, held.count] {
                    bytes.extend(number.to_be_bytes());
                }
            }
        }
        bytes
    }

    /// Reads it back; none if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Entry> {
        let (sign, rest) = bytes.split_first()?;
        let (expires, rest) = rest.split_at_checked(8)?;
        let word = |at: usize| rest.get(8 * at..8 * at + 8).map(number);
        let held = |kind| Some(Value::Held(Held { kind, body: word(0)?, count: word(1)? }));
        let value = match sign {
            b's' => Value::Text(rest.to_vec()),
            b'l' => Value::List(List { body: word(0)?, first: word(1)?, count: word(2)? }),
            b'h' => held(Kind::Hash)?,
            b'u' => held(Kind::Set)?,
            b'z' => held(Kind::Sorted)?,
            _ => return None,
        };
        Some(Entry { expires: number(expires), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_ordered_by_their_bytes() {
        let all = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, 0.0, 1e-300, 1.5, 1e300, f64::INFINITY];
        assert!(all.map(ordered).is_sorted());
        assert_eq!(all.map(|score| score_of_order(ordered(score))), all);
        assert_eq!(ordered(-0.0), ordered(0.0));
    }

    #[test]
    fn entries_read_back() {
        let list = Value::List(List { body: 1, first: 2, count: 3 });
        for value in [Value::Text(b"x".to_vec()), list] {
            let entry = Entry { expires: 7, value };
            assert_eq!(Entry::parse(&entry.bytes()), Some(entry));
        }
        assert_eq!(Entry::parse(b"h12345678"), None);
    }

    #[test]
    fn a_prefix_ends_behind_all_its_keys() {
        assert_eq!(end(b"ab"), b"ac");
        assert_eq!(end(b"a\xff\xff"), b"b");
    }
}
