//! Words that carry a check: a crash keeps or loses such a word whole, and a damaged byte in it is found.
//!
//! | bits | what |
//! |---|---|
//! | 0..52 | the value |
//! | 52..56 | which kind of word it is |
//! | 56..64 | the check: each byte before, rotated by its place, all of them xored |
//!
//! A word of zero is valid and means "nothing", so that new memory is an empty structure. Rotation keeps
//! bytes apart that are
//! swapped; any change of one byte changes the check.

use crate::error::{Error, Result};

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The index of the next log object, plus 1.
    Link = 1,
    /// A log page's owner and the next page.
    LogPage = 2,
    /// A cache page's contents and state.
    Tag = 3,
    /// A file record's state.
    Record = 4,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Link => "a link of a committed list",
            Kind::LogPage => "a log page's object",
            Kind::Tag => "a cache page's object",
            Kind::Record => "a file record",
        }
    }
}

const VALUE: u64 = (1 << 52) - 1;

const fn check(low: u64) -> u64 {
    let bytes = low.to_le_bytes();
    let (mut sum, mut at) = (0xA5_u8, 0);
    while at < 7 {
        sum ^= bytes[at].rotate_left(at as u32);
        at += 1;
    }
    sum as u64
}

/// The word that says `value`.
///
/// # Panics
/// If the value has more than 52 bits.
pub(crate) const fn seal(kind: Kind, value: u64) -> u64 {
    assert!(value <= VALUE, "a sealed value has at most 52 bits");
    let low = value | (kind as u64) << 52;
    low | check(low) << 56
}

/// What a word at `offset` says; `None` if it is nothing.
///
/// # Errors
/// If it is damaged.
pub(crate) fn unseal(kind: Kind, offset: u64, word: u64) -> Result<Option<u64>> {
    if word == 0 {
        return Ok(None);
    }
    let low = word & (u64::MAX >> 8);
    if check(low) != word >> 56 || low >> 52 != kind as u64 {
        return Err(Error::Damaged { offset, what: kind.name(), found: word });
    }
    Ok(Some(low & VALUE))
}

/// What a cache page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Anybody's; the page number is the next free page plus 1.
    Free,
    /// As the file has it.
    Clean,
    /// Newer than the file: recovery writes it.
    Dirty,
    /// A process has taken it and has not put anything whole into it yet.
    Held,
}

/// A cache page's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub state: State,
    pub slot: u8,
    pub file: u16,
    pub page: u32,
}

impl Tag {
    pub(crate) const FREE: Tag = Tag { state: State::Free, slot: 0, file: 0, page: 0 };

    pub(crate) fn word(self) -> u64 {
        if self == Tag::FREE {
            return 0;
        }
        let state = self.state as u64;
        let value = u64::from(self.page)
            | u64::from(self.file & 0xFFF) << 32
            | state << 44
            | u64::from(self.slot) << 46;
        seal(Kind::Tag, value)
    }

    pub(crate) fn of(offset: u64, word: u64) -> Result<Tag> {
        let Some(value) = unseal(Kind::Tag, offset, word)? else { return Ok(Tag::FREE) };
        let state = match value >> 44 & 3 {
            0 => State::Free,
            1 => State::Clean,
            2 => State::Dirty,
            _ => State::Held,
        };
        Ok(Tag {
            state,
            slot: (value >> 46 & 63) as u8,
            file: (value >> 32 & 0xFFF) as u16,
            page: value as u32,
        })
    }
}

/// A log page's object: who has it, and which page of the transaction, or of the free list, follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPage {
    /// The slot of the process, `None` if the page is free.
    pub owner: Option<u8>,
    /// Whether its transaction is one of a shared region.
    pub shared: bool,
    /// The next page.
    pub next: Option<u32>,
}

impl LogPage {
    pub(crate) fn word(self) -> u64 {
        if self == LogPage::default() {
            return 0;
        }
        let owner = self.owner.map_or(0, |slot| u64::from(slot) + 1);
        let next = self.next.map_or(0, |next| u64::from(next) + 1);
        seal(Kind::LogPage, next | owner << 33 | u64::from(self.shared) << 41)
    }

    pub(crate) fn of(offset: u64, word: u64) -> Result<LogPage> {
        let Some(value) = unseal(Kind::LogPage, offset, word)? else { return Ok(LogPage::default()) };
        let next = value & ((1 << 33) - 1);
        let owner = value >> 33 & 0xFF;
        let wrong = Error::Damaged { offset, what: Kind::LogPage.name(), found: word };
        if owner > 64 || next > u64::from(u32::MAX) + 1 {
            return Err(wrong);
        }
        Ok(LogPage {
            owner: owner.checked_sub(1).map(|slot| slot as u8),
            shared: value >> 41 & 1 == 1,
            next: next.checked_sub(1).map(|next| next as u32),
        })
    }
}

/// The word of a link.
pub(crate) fn link(to: Option<u32>) -> u64 {
    to.map_or(0, |to| seal(Kind::Link, u64::from(to) + 1))
}

/// Where a link leads.
pub(crate) fn linked(offset: u64, word: u64) -> Result<Option<u32>> {
    let to = unseal(Kind::Link, offset, word)?;
    let wrong = || Error::Damaged { offset, what: Kind::Link.name(), found: word };
    to.map(|to| to.checked_sub(1).and_then(|to| u32::try_from(to).ok()).ok_or_else(wrong)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_were_made_of() {
        for state in [State::Clean, State::Dirty, State::Held, State::Free] {
            let tag = Tag { state, slot: 63, file: 0xABC, page: u32::MAX };
            assert_eq!(Tag::of(0, tag.word()).expect("whole"), tag);
        }
        for owner in [None, Some(0), Some(63)] {
            let page = LogPage { owner, shared: owner.is_some(), next: Some(u32::MAX) };
            assert_eq!(LogPage::of(0, page.word()).expect("whole"), page);
        }
        for to in [None, Some(0), Some(u32::MAX - 1)] {
            assert_eq!(linked(0, link(to)).expect("whole"), to);
        }
    }

    #[test]
    fn a_damaged_byte_is_found() {
        let words = [link(Some(77)), Tag { state: State::Dirty, slot: 3, file: 9, page: 12345 }.word()];
        for word in words {
            for byte in 0..8 {
                for flip in 1..=255_u64 {
                    let damaged = word ^ flip << (8 * byte);
                    assert!(linked(0, damaged).is_err() && Tag::of(0, damaged).is_err(), "{damaged:#x}");
                }
            }
        }
    }

    #[test]
    fn kinds_are_not_taken_for_each_other() {
        assert!(Tag::of(0, link(Some(3))).is_err());
        assert!(linked(0, Tag { state: State::Dirty, slot: 3, file: 9, page: 1 }.word()).is_err());
    }
}
