//! Lines that prefetch instructions asked for.

const ASKED: usize = 256;
/// Accesses after which nobody knows whether the line is still there.
const OLD: u64 = 1 << 16;

/// A thread's last ones, by line: the line plus 1, when, and by which code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    lines: Box<[(u64, u64, u32)]>,
}

impl Asked {
    fn slot(line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % ASKED
    }

    pub(crate) fn ask(&mut self, line: u64, now: u64, site: u32) {
        if self.lines.is_empty() {
            self.lines = vec![(0, 0, 0); ASKED].into_boxed_slice();
        }
        self.lines[Self::slot(line)] = (line + 1, now, site);
    }

    /// How many accesses before now a line was asked for, and by which code; it is then forgotten.
    pub(crate) fn before(&mut self, line: u64, now: u64) -> Option<(u64, u32)> {
        let slot = self.lines.get_mut(Self::slot(line))?;
        let (known, when, site) = *slot;
        (known == line + 1 && now - when < OLD).then(|| {
            *slot = (0, 0, 0);
            (now - when, site)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_once() {
        let mut asked = Asked::default();
        assert_eq!(asked.before(3, 9), None);
        asked.ask(3, 10, 7);
        assert_eq!(asked.before(4, 15), None);
        assert_eq!(asked.before(3, 15), Some((5, 7)));
        assert_eq!(asked.before(3, 15), None);
    }
}
