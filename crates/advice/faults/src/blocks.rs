//! The preloaded library's log of large blocks.

/// What happened to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Begins { start: u64, end: u64, key: u64, resident: u64, logged: u64 },
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
                ("+", 5..=7) => {
                    let (start, len) = (hex(2)?, hex(3)?);
                    let (end, resident) = (start.checked_add(len)?, hex(5).unwrap_or(0));
                    let began = words.get(6).map_or(Some(time), |began| began.parse().ok())?;
                    let begins = Change::Begins { start, end, key: hex(4)?, resident, logged: time };
                    Some((time, began.min(time), begins))
                }
                ("-", 4) => Some((time, time, Change::Ends { start: hex(2)?, end: hex(3)? })),
                _ => None,
            }
        };
        let mut changes: Vec<(u64, u64, Change)> = text.lines().filter_map(line).collect();
        changes.sort_by_key(|(time, _, _)| *time);
        // A block lives from when the call began that allocates it, unless another thread gave its memory
        // back since.
        let from = |at: usize| {
            let (time, began, change) = changes[at];
            let Change::Begins { start, end, .. } = change else { return time };
            let since = changes[..at].iter().rev().take_while(|(time, _, _)| *time > began);
            let mut ends = since.filter_map(|(time, _, change)| match *change {
                Change::Ends { start: from, end: to } if from < end && start < to => Some(*time),
                _ => None,
            });
            ends.next().unwrap_or(began)
        };
        let mut all: Vec<(u64, Change)> = (0..changes.len()).map(|at| (from(at), changes[at].2)).collect();
        all.sort_by_key(|(time, _)| *time);
        Log(all)
    }

    /// What a child of `fork` has of it: all until then.
    #[must_use]
    pub fn until(&self, time: u64) -> Log {
        Log(self.0.iter().copied().take_while(|(at, _)| *at <= time).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Vec<(u64, bool)> {
        Log::read(text)
            .0
            .iter()
            .map(|(time, change)| (*time, matches!(change, Change::Begins { .. })))
            .collect()
    }

    #[test]
    fn a_block_lives_from_the_call_on() {
        assert_eq!(order("+ 20 10000 4000 a 0 12\n- 30 10000 14000"), [(12, true), (30, false)]);
    }

    /// Another thread gives memory back that the call, which had begun, gets.
    #[test]
    fn memory_is_not_had_before_it_is_given_back() {
        let log = "+ 5 10000 4000 a 0 4\n- 15 10000 14000\n- 16 50000 54000\n+ 20 10000 4000 b 0 12";
        assert_eq!(order(log), [(4, true), (15, false), (15, true), (16, false)]);
    }
}
