//! What a line of a trace says.

/// A line that was understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// An access, if it is one.
    pub(crate) access: Option<Access>,
    /// Instructions that it stands for, its own access included.
    pub(crate) instructions: u32,
    /// Address of the code, 0 if unknown.
    pub(crate) code: u64,
    /// Function and program of the code, if it says.
    pub(crate) names: Option<(String, String)>,
    /// The tool's number of the thread.
    pub(crate) thread: u64,
    /// Events per event that was kept, if it was sampled.
    pub(crate) period: u64,
}

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) store: bool,
    pub(crate) addr: u64,
    pub(crate) len: u32,
}

impl Line {
    /// One that says nothing.
    pub(crate) fn remark() -> Line {
        Line::default()
    }

    pub(crate) fn access(store: bool, addr: u64, len: u32) -> Line {
        Line { access: Some(Access { store, addr, len }), ..Line::default() }
    }
}

/// `0x1f`, `1f`.
pub(crate) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    (!digits.is_empty() && !digits.starts_with('+')).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// `0x1f` and nothing else.
pub(crate) fn prefixed(text: &str) -> Option<u64> {
    text.starts_with("0x").then(|| hex(text))?
}

/// `12`.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Bytes of an access: more than nothing, and not more than what one instruction can move.
pub(crate) fn size(text: &str) -> Option<u32> {
    decimal(text).and_then(|size| u32::try_from(size).ok()).filter(|size| (1..=1 << 20).contains(size))
}
