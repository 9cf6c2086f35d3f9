//! Protocol buffers, as far as CRIU's images need them, and the frames in which they lie in files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use migrate::{Error, Result};

use crate::names::COMMON;

/// A message on its way into a file.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number.
    #[must_use]
    pub fn num(mut self, field: u32, value: impl Into<u64>) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value.into());
        self
    }

    /// A number with a sign, of type `int32` or `int64`.
    #[must_use]
    pub fn int(self, field: u32, value: i64) -> Self {
        self.num(field, value as u64)
    }

    /// A number with a sign, of type `sint32` or `sint64`.
    #[must_use]
    pub fn zigzag(self, field: u32, value: i64) -> Self {
        self.num(field, (value << 1 ^ value >> 63) as u64)
    }

    /// Numbers, one field for each.
    #[must_use]
    pub fn nums(self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        values.into_iter().fold(self, |message, value| message.num(field, value))
    }

    /// Bytes or a text.
    #[must_use]
    pub fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// A message inside.
    #[must_use]
    pub fn message(self, field: u32, inner: Message) -> Self {
        self.bytes(field, inner.0)
    }
}

/// A file of messages that is being written.
#[derive(Debug)]
pub struct ImageFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl ImageFile {
    /// With its magic number; `common` says whether the one of all images stands before it.
    #[must_use]
    pub fn new(path: PathBuf, magic: u32, common: bool) -> Self {
        let mut bytes = Vec::new();
        if common {
            bytes.extend(COMMON.to_le_bytes());
        }
        bytes.extend(magic.to_le_bytes());
        Self { path, bytes }
    }

    /// Adds a message.
    pub fn push(&mut self, message: &Message) {
        self.bytes.extend((message.0.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&message.0);
    }

    /// Adds bytes that follow a message.
    pub fn push_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<()> {
        let written = fs::File::create(&self.path).and_then(|mut file| {
            file.write_all(&self.bytes)?;
            file.sync_all()
        });
        written.map_err(|source| Error::File { path: self.path, what: "cannot be written", source })
    }
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A message out of a file.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Fields<'a> {
    /// Out of its bytes; none if they are no message.
    #[must_use]
    pub fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = take_varint(&mut bytes)?;
            let field = u32::try_from(key >> 3).ok().filter(|field| *field > 0)?;
            let value = match key & 7 {
                0 => Value::Number(take_varint(&mut bytes)?),
                1 => Value::Number(u64::from_le_bytes(*bytes.split_off(..8)?.as_array()?)),
                2 => {
                    let len = usize::try_from(take_varint(&mut bytes)?).ok()?;
                    Value::Bytes(bytes.split_off(..len)?)
                }
                5 => Value::Number(u32::from_le_bytes(*bytes.split_off(..4)?.as_array()?).into()),
                _ => return None,
            };
            found.push((field, value));
        }
        Some(Self(found))
    }

    /// The number of a field; the last one counts.
    #[must_use]
    pub fn get(&self, field: u32) -> Option<u64> {
        self.0.iter().rev().find_map(|(number, value)| match value {
            Value::Number(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    /// The number of a field, 0 if it is not there.
    #[must_use]
    pub fn num(&self, field: u32) -> u64 {
        self.get(field).unwrap_or(0)
    }

    /// The number of a field of type `sint32` or `sint64`.
    #[must_use]
    pub fn zigzag(&self, field: u32) -> i64 {
        let value = self.num(field);
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    /// All numbers of a field, packed or not.
    #[must_use]
    pub fn nums(&self, field: u32) -> Vec<u64> {
        let mut found = Vec::new();
        for (_, value) in self.0.iter().filter(|(number, _)| *number == field) {
            match *value {
                Value::Number(value) => found.push(value),
                Value::Bytes(mut packed) => {
                    while let Some(value) = take_varint(&mut packed) {
                        found.push(value);
                    }
                }
            }
        }
        found
    }

    /// All byte strings of a field.
    pub fn all_bytes(&self, field: u32) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(*bytes),
            _ => None,
        })
    }

    /// The text of a field, empty if it is not there.
    #[must_use]
    pub fn text(&self, field: u32) -> String {
        self.all_bytes(field)
            .last()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .unwrap_or_default()
    }

    /// The message of a field, empty if it is not there or is none.
    #[must_use]
    pub fn message(&self, field: u32) -> Fields<'a> {
        self.all_bytes(field).last().and_then(Fields::parse).unwrap_or_default()
    }

    /// Whether the field is there.
    #[must_use]
    pub fn has(&self, field: u32) -> bool {
        self.0.iter().any(|(number, _)| *number == field)
    }

    /// All messages of a field.
    pub fn messages(&self, field: u32) -> impl Iterator<Item = Fields<'a>> {
        self.all_bytes(field).filter_map(Fields::parse)
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A file of messages, read.
#[derive(Clone, Debug)]
pub struct Frames {
    path: PathBuf,
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// Reads a file whose magic number is `magic`.
    ///
    /// # Errors
    /// If it cannot be read, or is another file.
    pub fn open(path: &Path, magic: u32) -> Result<Self> {
        let bytes = fs::read(path).map_err(|source| Error::File {
            path: path.to_owned(),
            what: "a file of CRIU's images cannot be read",
            source,
        })?;
        Self::of(path, bytes, magic)
    }

    /// The same out of memory; `path` is for messages.
    ///
    /// # Errors
    /// If it is another file.
    pub fn of(path: &Path, bytes: Vec<u8>, magic: u32) -> Result<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..at + 4)?.as_array()?));
        let at = match (word(0), word(4)) {
            (Some(first), _) if first == magic => 4,
            (Some(COMMON), Some(second)) if second == magic => 8,
            _ => {
                let what = format!("no magic number {magic:#x} at its start");
                return Err(damaged(path, 0, what));
            }
        };
        Ok(Self { path: path.to_owned(), bytes, at })
    }

    /// The bytes of the next message; none at the end.
    ///
    /// # Errors
    /// If it is cut short.
    #[allow(clippy::should_implement_trait)] // lends its bytes, which an iterator can't
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let Some(len) = self.bytes.get(self.at..self.at + 4).and_then(|four| four.as_array()) else {
            return Err(damaged(&self.path, self.at, "the length of a message is cut short".to_owned()));
        };
        let len = u32::from_le_bytes(*len) as usize;
        self.at += 4;
        self.raw(len).map(Some)
    }

    /// So many bytes that follow a message.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn raw(&mut self, len: usize) -> Result<&[u8]> {
        let start = self.at;
        let Some(found) = self.bytes.get(start..start.saturating_add(len)) else {
            let what = format!("{len} bytes are to follow, and {} do", self.bytes.len() - start);
            return Err(damaged(&self.path, start, what));
        };
        self.at += len;
        Ok(found)
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the next message is.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }
}

/// The error of a damaged file.
#[must_use]
pub fn damaged(path: &Path, offset: usize, what: String) -> Error {
    let remedy = "dump the process again, or take another image";
    Error::Damaged { path: path.to_owned(), offset: offset as u64, what, remedy }
}

/// A message out of its bytes.
///
/// # Errors
/// If they are none.
pub fn parse<'a>(path: &Path, at: usize, bytes: &'a [u8]) -> Result<Fields<'a>> {
    Fields::parse(bytes).ok_or_else(|| damaged(path, at, "it is no protocol-buffer message".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Message::new().num(1, 300_u64);
        let message =
            Message::new().num(1, 0_u64).zigzag(2, -3).int(3, -1).bytes(4, "hello").message(5, inner);
        let message = message.nums(6, [1, u64::MAX]);
        let fields = Fields::parse(&message.0).expect("whole");
        assert_eq!((fields.get(1), fields.zigzag(2), fields.num(3) as i64), (Some(0), -3, -1));
        assert_eq!((fields.text(4).as_str(), fields.message(5).num(1)), ("hello", 300));
        assert_eq!(fields.nums(6), [1, u64::MAX]);
        assert!(fields.get(9).is_none() && !fields.has(9));
        assert!(Fields::parse(&message.0[..message.0.len() - 1]).is_none(), "cut short");
        assert!(Fields::parse(&[0x08]).is_none() && Fields::parse(&[0x0b]).is_none());
    }

    #[test]
    fn frames_say_where_they_are_damaged() {
        let path = Path::new("x.img");
        let mut file = ImageFile::new(path.to_owned(), 7, true);
        file.push(&Message::new().num(1, 5_u64));
        file.push_raw(b"raw");
        let bytes = file.bytes;
        let mut frames = Frames::of(path, bytes.clone(), 7).expect("whole");
        assert_eq!(frames.next().expect("whole"), Some(&[8, 5][..]));
        assert_eq!(frames.raw(3).expect("there"), b"raw");
        assert_eq!(frames.next().expect("the end"), None);
        assert!(Frames::of(path, bytes.clone(), 8).is_err());
        let mut short = Frames::of(path, bytes[..13].to_vec(), 7).expect("a head");
        let error = short.next().expect_err("cut short").to_string();
        assert!(error.contains("x.img: damaged at byte 12"), "{error}");
    }
}
