//! Conditions on a boundary between two bytes: anchors and word boundaries.

/// A set of conditions that must all hold at one boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookSet(u16);

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Look {
    /// The start of the text: `^`, `\A`.
    Start = 1,
    /// The end of the text: `$`, `\z`.
    End = 2,
    /// The start of a line: `(?m)^`.
    StartLine = 4,
    /// The end of a line: `(?m)$`.
    EndLine = 8,
    /// The start of a line that may end in CR LF.
    StartCrlf = 16,
    /// The end of a line that may end in CR LF.
    EndCrlf = 32,
    /// A word boundary: `\b`.
    Word = 64,
    /// No word boundary: `\B`.
    NotWord = 128,
    /// The start of a word: `\b{start}`.
    WordStart = 256,
    /// The end of a word: `\b{end}`.
    WordEnd = 512,
    /// No word character before: `\b{start-half}`.
    WordStartHalf = 1024,
    /// No word character after: `\b{end-half}`.
    WordEndHalf = 2048,
}

/// All conditions, in the order of their bits, with the names that `explain` prints.
pub const LOOKS: [(Look, &str); 12] = [
    (Look::Start, "text start"),
    (Look::End, "text end"),
    (Look::StartLine, "line start"),
    (Look::EndLine, "line end"),
    (Look::StartCrlf, "line start (CRLF)"),
    (Look::EndCrlf, "line end (CRLF)"),
    (Look::Word, "word boundary"),
    (Look::NotWord, "no word boundary"),
    (Look::WordStart, "word start"),
    (Look::WordEnd, "word end"),
    (Look::WordStartHalf, "no word before"),
    (Look::WordEndHalf, "no word after"),
];

impl Look {
    /// Whether the condition holds between `before` and `after`; `None` is beyond the text.
    pub fn holds(self, before: Option<u8>, after: Option<u8>) -> bool {
        let word = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        let (left, right) = (word(before), word(after));
        match self {
            Look::Start => before.is_none(),
            Look::End => after.is_none(),
            Look::StartLine => matches!(before, None | Some(b'\n')),
            Look::EndLine => matches!(after, None | Some(b'\n')),
            Look::StartCrlf => {
                matches!(before, None | Some(b'\n')) || before == Some(b'\r') && after != Some(b'\n')
            }
            Look::EndCrlf => {
                matches!(after, None | Some(b'\r')) || after == Some(b'\n') && before != Some(b'\r')
            }
            Look::Word => left != right,
            Look::NotWord => left == right,
            Look::WordStart => !left && right,
            Look::WordEnd => left && !right,
            Look::WordStartHalf => !left,
            Look::WordEndHalf => !right,
        }
    }
}

impl LookSet {
    /// No condition.
    pub const NONE: LookSet = LookSet(0);

    /// One condition.
    pub fn one(look: Look) -> LookSet {
        LookSet(look as u16)
    }

    /// The conditions of both.
    #[must_use]
    pub fn and(self, other: LookSet) -> LookSet {
        LookSet(self.0 | other.0)
    }

    /// Whether there is no condition.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether `look` is among them.
    pub fn has(self, look: Look) -> bool {
        self.0 & look as u16 != 0
    }

    /// Whether every condition of `other` is among these.
    pub fn includes(self, other: LookSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// The conditions as bits, in the order of [`LOOKS`].
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether all hold between `before` and `after`.
    pub fn hold(self, before: Option<u8>, after: Option<u8>) -> bool {
        self.0 == 0
            || LOOKS.iter().filter(|(look, _)| self.has(*look)).all(|(look, _)| look.holds(before, after))
    }
}

impl std::fmt::Display for LookSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> =
            LOOKS.iter().filter(|(look, _)| self.has(*look)).map(|(_, name)| *name).collect();
        f.write_str(&names.join(" and "))
    }
}
