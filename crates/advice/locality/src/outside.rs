//! Memory that no allocation was seen of: globals by their names, threads' stacks, and the rest.

use std::collections::HashMap;

use event::Variable;

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
    /// By address.
    variables: Vec<Variable>,
    /// Threads, the addresses above their stacks, and bytes below.
    stacks: Vec<(u32, u64, u64)>,
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

    /// Variables, and the stacks of threads: their numbers, the addresses above, and bytes.
    pub(crate) fn name(&mut self, mut variables: Vec<Variable>, stacks: Vec<(u32, u64, u64)>) {
        variables.sort_by(|a, b| (a.addr, &a.name).cmp(&(b.addr, &b.name)));
        (self.variables, self.stacks) = (variables, stacks);
    }

    /// The variable that shares a line, and where the line begins in it.
    pub(crate) fn of(&self, line: u64) -> Option<(&Variable, i64)> {
        let end = (line + 1) << 6;
        let at = self.variables.partition_point(|of| of.addr < end).checked_sub(1)?;
        let variable = &self.variables[at];
        (variable.addr + variable.bytes > line << 6)
            .then_some((variable, (line << 6).wrapping_sub(variable.addr) as i64))
    }

    /// The variable that a byte belongs to.
    pub(crate) fn at(&self, addr: u64) -> Option<&Variable> {
        let at = self.variables.partition_point(|of| of.addr <= addr).checked_sub(1)?;
        Some(&self.variables[at]).filter(|of| addr < of.addr + of.bytes)
    }

    /// Whose stack an address lies on: that of the thread that uses it, if stacks came after one another at
    /// one address.
    pub(crate) fn stack(&self, addr: u64, by: u32) -> Option<String> {
        let within = |stack: &&(u32, u64, u64)| addr < stack.1 && stack.1 - addr <= stack.2;
        let all = || self.stacks.iter().filter(within);
        let own = all().find(|stack| stack.0 == by).or_else(|| all().min_by_key(|stack| stack.1));
        match own {
            Some((thread, ..)) => Some(format!("stack of thread {thread}")),
            None => (addr >= STACK).then(|| "stack of the main thread".to_owned()),
        }
    }

    /// What was fetched of each variable and of the stacks, with their names and addresses (0 of a stack).
    pub(crate) fn structures(&self) -> Vec<(String, u64, Structure)> {
        let mut found: HashMap<(String, u64), Structure> = HashMap::new();
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_by_key(|line| *line.0);
        for (&line, of) in lines {
            let known = self.of(line).map(|(of, _)| (of.name.clone(), (of.addr, of.bytes)));
            let first = of.by_thread.first().map_or(0, |own| own.0);
            let stack = || self.stack(line << 6, first).map(|name| (name, (STACK, 0)));
            let Some((name, (start, size))) = known.or_else(stack) else {
                continue;
            };
            let all: u32 = of.by_thread.iter().map(|own| own.1).sum();
            let structure =
                found.entry((name, if start == STACK { 0 } else { start })).or_insert_with(|| Structure {
                    blocks: 1,
                    bytes: size,
                    peak: size,
                    live: size,
                    ..Structure::default()
                });
            structure.fetches += u64::from(all);
            let within = (line << 6).saturating_sub(start);
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
        let mut found: Vec<_> = found.into_iter().map(|((name, addr), of)| (name, addr, of)).collect();
        found.sort_by(|a, b| b.2.fetches.cmp(&a.2.fetches).then((&a.0, a.1).cmp(&(&b.0, b.1))));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_the_variables_that_they_hold() {
        let mut outside = Outside::default();
        let global = |name: &str, addr, bytes| Variable { name: name.to_owned(), addr, bytes, layout: None };
        outside.name(
            vec![global("global table", 0x2020, 4096), global("global counters", 0x1000, 128)],
            vec![(3, 0x7000_0000, 8192), (4, 0x7000_0000, 8192)],
        );
        let of = |line: u64| outside.of(line).map(|(variable, offset)| (variable.name.as_str(), offset));
        assert_eq!(of(0x1000 >> 6), Some(("global counters", 0)));
        assert_eq!(of(0x1080 >> 6), None);
        assert_eq!(of(0x2000 >> 6), Some(("global table", -32)));
        assert_eq!(outside.at(0x2000), None);
        assert_eq!(outside.at(0x2020).map(|of| of.bytes), Some(4096));
        assert_eq!(outside.stack(0x6fff_f000, 4).as_deref(), Some("stack of thread 4"));
        assert_eq!(outside.stack(0x6fff_f000, 9).as_deref(), Some("stack of thread 3"));
        assert_eq!(outside.stack(0x6000_0000, 4), None);
        outside.fetched(0x1040 >> 6, 1, true);
        outside.fetched(0x1040 >> 6, 2, false);
        outside.fetched((STACK + 64) >> 6, 0, true);
        let found = outside.structures();
        assert_eq!((found[0].0.as_str(), found[0].2.fetches), ("global counters", 2));
        assert_eq!((found[0].2.heat[1][32], found[0].2.threads), (1, 0b110));
        assert_eq!(found[1].0, "stack of the main thread");
    }
}
