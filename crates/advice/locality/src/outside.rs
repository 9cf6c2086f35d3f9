//! Memory that no allocation was seen of: globals by their names, the main thread's stack, and the rest.

use std::collections::HashMap;

use crate::heap::{HEAT, Structure};

const LINES_MAX: usize = 1 << 16;
/// Threads whose fetches are kept apart.
const THREADS: usize = 8;
/// The main thread's stack lies above this on x86-64 and aarch64 with addresses of 47 bits and more.
const STACK: u64 = 0x7ff0_0000_0000;

/// Fetches of one line.
#[derive(Clone, Debug, Default)]
struct Line {
    stores: u32,
    by_thread: Vec<(u32, u32)>,
}

/// Lines that were fetched and lie in no block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    lines: HashMap<u64, Line>,
    globals: Vec<(String, u64, u64)>,
}

impl Outside {
    pub(crate) fn fetched(&mut self, line: u64, thread: u32, store: bool) {
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&line) {
            return;
        }
        let of = self.lines.entry(line).or_default();
        of.stores += u32::from(store);
        let at = of.by_thread.iter().position(|own| own.0 == thread);
        match at {
            Some(at) => of.by_thread[at].1 += 1,
            None if of.by_thread.len() < 64 => of.by_thread.push((thread, 1)),
            None => {}
        }
    }

    /// Names, addresses and bytes of variables, by address.
    pub(crate) fn name(&mut self, globals: Vec<(String, u64, u64)>) {
        self.globals = globals;
    }

    /// The variable that shares a line, and where the line begins in it.
    pub(crate) fn of(&self, line: u64) -> Option<(&str, i64)> {
        let end = (line + 1) << 6;
        let at = self.globals.partition_point(|of| of.1 < end).checked_sub(1)?;
        let (name, addr, len) = &self.globals[at];
        (addr + len > line << 6).then_some((name, (line << 6).wrapping_sub(*addr) as i64))
    }

    /// What was fetched of each variable and of the stack, by name.
    pub(crate) fn structures(&self) -> Vec<(String, Structure)> {
        let mut found: HashMap<String, Structure> = HashMap::new();
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_by_key(|line| *line.0);
        for (&line, of) in lines {
            let known = self.of(line).map(|(name, _)| (format!("global {name}"), self.size(name)));
            let Some((name, (start, size))) = known.or_else(|| {
                (line << 6 >= STACK).then(|| ("stack of the main thread".to_owned(), (STACK, 0)))
            }) else {
                continue;
            };
            let all: u32 = of.by_thread.iter().map(|own| own.1).sum();
            let structure = found.entry(name).or_insert_with(|| Structure {
                blocks: 1,
                bytes: size,
                peak: size,
                live: size,
                ..Structure::default()
            });
            structure.fetches += u64::from(all);
            let within = (line << 6).max(start) - start;
            let part =
                if size == 0 { 0 } else { (within as u128 * HEAT as u128 / u128::from(size)) as usize };
            let part = part.min(HEAT - 1);
            structure.heat[1][part] += of.stores;
            structure.heat[0][part] += all - of.stores;
            for &(thread, count) in &of.by_thread {
                structure.threads |= 1 << thread.min(63);
                let known = structure.by_thread.iter().position(|own| own.0 == thread);
                if known.is_none() && structure.by_thread.len() < THREADS {
                    structure.by_thread.push((thread, [0; HEAT]));
                }
                if let Some(own) = structure.by_thread.iter_mut().find(|own| own.0 == thread) {
                    own.1[part] += count;
                }
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|a, b| b.1.fetches.cmp(&a.1.fetches).then(a.0.cmp(&b.0)));
        found
    }

    fn size(&self, name: &str) -> (u64, u64) {
        self.globals.iter().find(|of| of.0 == name).map_or((0, 0), |of| (of.1, of.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_the_variables_that_they_hold() {
        let mut outside = Outside::default();
        outside.name(vec![("counters".to_owned(), 0x1000, 128), ("table".to_owned(), 0x2020, 4096)]);
        assert_eq!(outside.of(0x1000 >> 6), Some(("counters", 0)));
        assert_eq!(outside.of(0x1080 >> 6), None);
        assert_eq!(outside.of(0x2000 >> 6), Some(("table", -32)));
        outside.fetched(0x1040 >> 6, 1, true);
        outside.fetched(0x1040 >> 6, 2, false);
        outside.fetched((STACK + 64) >> 6, 0, true);
        let found = outside.structures();
        assert_eq!((found[0].0.as_str(), found[0].1.fetches), ("global counters", 2));
        assert_eq!((found[0].1.heat[1][32], found[0].1.threads), (1, 0b110));
        assert_eq!(found[1].0, "stack of the main thread");
    }
}
