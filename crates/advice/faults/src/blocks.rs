//! The preloaded library's log of large blocks.

/// What happened to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Begins { start: u64, end: u64, key: u64, resident: u64 },
    Ends { start: u64, end: u64 },
}

/// The log of a process: which large block lived when.
#[derive(Clone, Debug, Default)]
pub struct Log(pub(crate) Vec<(u64, Change)>);

impl Log {
    /// From the library's lines; damaged ones, as at the end of a killed process's log, are left out.
    #[must_use]
    pub fn read(text: &str) -> Log {
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |at: usize| u64::from_str_radix(words.get(at)?, 16).ok();
            let time = words.get(1)?.parse().ok()?;
            match (*words.first()?, words.len()) {
                ("+", 5 | 6) => {
                    let (start, len) = (hex(2)?, hex(3)?);
                    let (end, resident) = (start.checked_add(len)?, hex(5).unwrap_or(0));
                    Some((time, Change::Begins { start, end, key: hex(4)?, resident }))
                }
                ("-", 4) => Some((time, Change::Ends { start: hex(2)?, end: hex(3)? })),
                _ => None,
            }
        };
        let mut changes: Vec<_> = text.lines().filter_map(line).collect();
        changes.sort_by_key(|(time, _)| *time);
        Log(changes)
    }

    /// What a child of `fork` has of it: all until then.
    #[must_use]
    pub fn until(&self, time: u64) -> Log {
        Log(self.0.iter().copied().take_while(|(at, _)| *at <= time).collect())
    }
}
