//! A crash image as a string.

use std::fmt;
use std::str::FromStr;

use crate::explore::Cut;
use crate::history::Item;
use crate::{History, Platform};

/// One image of one history, as a string that can be pasted: `adr-p17-a0-b3-c2.1-h9f3a0c11`.
///
/// Platform; the item before which the crash falls; how many items other threads are ahead; the barriers that nobody has passed; cells
/// that lost something with the number of their choice; a check sum of the history up to there. It fits each run that makes the same stores,
/// flushes and fences at the same places of the files in the same order; what the stored values are does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub(crate) platform: Platform,
    pub(crate) cut: Cut,
    pub(crate) choices: Vec<(u32, u32)>,
    check: u32,
}

/// Why a token can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no token.
    #[error("`{0}` is no token of a crash image; one looks like adr-p17-a0-b3-c2.1-h9f3a0c11")]
    Malformed(String),
    /// It is one of another platform.
    #[error("the token is of platform {0}, the run was recorded for {1}")]
    Platform(Platform, Platform),
    /// It is one of another run.
    #[error(
        "the token is of another run: stores, flushes or fences up to the crash are not the same (repeat the recording of the run that gave the token)"
    )]
    Elsewhere,
    /// A number in it is too large for the run.
    #[error("`{part}` of the token is out of range: {limit}")]
    OutOfRange {
        /// The part, as the token has it.
        part: String,
        /// What there is.
        limit: String,
    },
}

impl TokenError {
    pub(crate) fn out_of_range(field: char, value: impl fmt::Display, limit: String) -> Self {
        TokenError::OutOfRange { part: format!("{field}{value}"), limit }
    }
}

impl Token {
    /// The platform of the image's history.
    #[must_use]
    pub fn platform(&self) -> Platform {
        self.platform
    }

    pub(crate) fn new(history: &History, cut: Cut, choices: Vec<(u32, u32)>) -> Self {
        let check = check_sum(history, &cut);
        Token { platform: history.platform, cut, choices, check }
    }

    pub(crate) fn fits(&self, history: &History) -> Result<(), TokenError> {
        if self.platform != history.platform {
            return Err(TokenError::Platform(self.platform, history.platform));
        }
        let (items, barriers) = (history.items.len(), history.barriers.len());
        if self.cut.point > items {
            return Err(TokenError::out_of_range('p', self.cut.point, format!("the run has {items} steps")));
        }
        if let Some(at) = self.cut.avoid.iter().find(|&&at| at as usize >= barriers) {
            return Err(TokenError::out_of_range(
                'b',
                at,
                format!("the run has {barriers} fences that order something"),
            ));
        }
        if check_sum(history, &self.cut) == self.check { Ok(()) } else { Err(TokenError::Elsewhere) }
    }
}

/// FNV-1a over what the items before the end of the cut do, and where.
fn check_sum(history: &History, cut: &Cut) -> u32 {
    let mut sum = 0x811C_9DC5u32;
    let mut add = |number: u64| {
        for byte in number.to_le_bytes() {
            sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    };
    let end = cut.point.saturating_add(cut.ahead).min(history.items.len());
    for item in &history.items[..end] {
        match *item {
            Item::Atom(at) => {
                let atom = &history.atoms[at as usize];
                add(atom.place.0 << 8 | u64::from(atom.mask));
            }
            Item::Barrier(at) => add(1 << 62 | history.barriers[at as usize].demands.len() as u64),
            Item::Mark(_) => add(2 << 62),
            Item::Bulk(at) => {
                let bulk = history.bulks.get(at);
                add(bulk.place.0);
                add(bulk.len);
            }
            Item::Flush(at) => add(3 << 62 | history.flushes[at as usize].line.0),
        }
    }
    sum
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let platform = self.platform.name().replace('-', "_");
        write!(f, "{platform}-p{}-a{}-b", self.cut.point, self.cut.ahead)?;
        let list = |f: &mut fmt::Formatter<'_>, parts: Vec<String>| f.write_str(&parts.join("_"));
        list(f, self.cut.avoid.iter().map(u32::to_string).collect())?;
        f.write_str("-c")?;
        list(f, self.choices.iter().map(|(cell, choice)| format!("{cell}.{choice}")).collect())?;
        write!(f, "-h{:08x}", self.check)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        parse(text).ok_or_else(|| TokenError::Malformed(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Token> {
    let mut parts = text.trim().split('-');
    // Dashes are between the parts.
    let platform = parts.next()?.replace('_', "-").parse().ok()?;
    let mut field = |letter: char| parts.next()?.strip_prefix(letter);
    let point = field('p')?.parse().ok()?;
    let ahead = field('a')?.parse().ok()?;
    let numbers = |list: &str| -> Option<Vec<u32>> { split(list).map(|part| part.parse().ok()).collect() };
    let avoid = numbers(field('b')?)?;
    let choice = |part: &str| {
        let (cell, choice) = part.split_once('.')?;
        Some((cell.parse().ok()?, choice.parse().ok()?))
    };
    let choices = split(field('c')?).map(choice).collect::<Option<Vec<_>>>()?;
    let check = u32::from_str_radix(field('h')?, 16).ok()?;
    let token = Token { platform, cut: Cut { point, ahead, avoid }, choices, check };
    parts.next().is_none().then_some(token)
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split('_').filter(|part| !part.is_empty())
}
