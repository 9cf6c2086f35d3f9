//! One expression as bits: a bit per position, a step per byte. Counted positions keep the starts of their
//! runs, which is exact for all bounds.

use std::collections::VecDeque;

use crate::byteset::ByteSet;
use crate::look::LookSet;
use crate::positions::{Conditional, Count, Positions};

/// The automaton of one expression.
#[derive(Clone, Debug)]
pub struct Nfa {
    words: usize,
    /// The class of each byte, and per class the positions that take it.
    classes: Vec<u8>,
    takes: Vec<u64>,
    /// Where a match may begin under no condition.
    first: Vec<u64>,
    first_if: Vec<Conditional>,
    /// Positions that the next one may follow, and that may follow themselves.
    shifts: Vec<u64>,
    holds: Vec<u64>,
    /// Positions with other followers, and those.
    jumps: Vec<u64>,
    targets: Vec<Vec<u64>>,
    /// Positions with followers under conditions, and those.
    conditional: Vec<u64>,
    targets_if: Vec<Vec<Conditional>>,
    last: Vec<u64>,
    last_if: Vec<Conditional>,
    empty: Vec<LookSet>,
    counted: Vec<(u32, ByteSet, Count)>,
    uncounted: Vec<u64>,
}

/// Where a run stands between two bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Positions that are complete.
    pub active: Vec<u64>,
    /// Per counted position the offsets at which its runs began, the oldest first.
    runs: Vec<VecDeque<u64>>,
    enabled: Vec<u64>,
}

impl State {
    /// Whether nothing is under way.
    pub fn is_dead(&self) -> bool {
        self.active.iter().all(|&word| word == 0) && self.runs.iter().all(VecDeque::is_empty)
    }

    /// Ends what is under way.
    pub fn clear(&mut self) {
        self.active.fill(0);
        self.runs.iter_mut().for_each(VecDeque::clear);
    }
}

impl Nfa {
    /// The automaton of `positions`.
    pub fn of(positions: &Positions) -> Nfa {
        let words = positions.len().div_ceil(64).max(1);
        let blank = || vec![0u64; words];
        let (classes, representatives) = byte_classes(positions.sets.iter());
        let mut takes = vec![0; representatives.len() * words];
        for (position, set) in positions.sets.iter().enumerate() {
            for (class, &byte) in representatives.iter().enumerate() {
                if set.has(byte) {
                    takes[class * words + position / 64] |= 1 << (position % 64);
                }
            }
        }
        let mut nfa = Nfa {
            words,
            classes,
            takes,
            first: blank(),
            first_if: conditional(&positions.first),
            shifts: blank(),
            holds: blank(),
            jumps: blank(),
            targets: vec![Vec::new(); positions.len()],
            conditional: blank(),
            targets_if: positions.follow.iter().map(|follow| conditional(follow)).collect(),
            last: blank(),
            last_if: conditional(&positions.last),
            empty: positions.empty.clone(),
            counted: Vec::new(),
            uncounted: blank(),
        };
        set_all(&mut nfa.first, &positions.first);
        set_all(&mut nfa.last, &positions.last);
        for (position, follow) in positions.follow.iter().enumerate() {
            nfa.set_followers(position, follow);
            match positions.counts[position] {
                Some(count) => nfa.counted.push((position as u32, positions.sets[position], count)),
                None => set(&mut nfa.uncounted, position),
            }
        }
        nfa
    }

    fn set_followers(&mut self, position: usize, follow: &[Conditional]) {
        let mut others = Vec::new();
        for &(target, looks) in follow {
            let target = target as usize;
            match (looks.is_none(), target) {
                (false, _) => set(&mut self.conditional, position),
                (true, _) if target == position => set(&mut self.holds, position),
                (true, _) if target == position + 1 => set(&mut self.shifts, position),
                (true, _) => {
                    others.resize(self.words, 0);
                    set(&mut others, target);
                }
            }
        }
        if !others.is_empty() {
            set(&mut self.jumps, position);
            self.targets[position] = others;
        }
    }

    /// A state in which nothing is under way.
    pub fn start(&self) -> State {
        State {
            active: vec![0; self.words],
            runs: vec![VecDeque::new(); self.counted.len()],
            enabled: vec![0; self.words],
        }
    }

    /// Words of the bits of a state.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Whether a state is its bits alone.
    pub fn is_finite(&self) -> bool {
        self.counted.is_empty()
    }

    /// At the boundary `at` between the bytes `before` and `after`: whether a match ends here. Then takes
    /// `after`. A match may begin here if `begins`.
    pub fn step(
        &self,
        state: &mut State,
        at: u64,
        before: Option<u8>,
        after: Option<u8>,
        begins: bool,
    ) -> bool {
        let ends = self.ends(state, before, after, begins);
        let Some(byte) = after else {
            state.clear();
            return ends;
        };
        self.enable(state, before, after, begins);
        let takes = &self.takes[usize::from(self.classes[usize::from(byte)]) * self.words..];
        let free = takes.iter().zip(&self.uncounted).map(|(takes, uncounted)| takes & uncounted);
        for ((active, enabled), free) in state.active.iter_mut().zip(&state.enabled).zip(free) {
            *active = enabled & free;
        }
        for ((position, set_of, count), runs) in self.counted.iter().zip(&mut state.runs) {
            if !set_of.has(byte) {
                runs.clear();
                continue;
            }
            let position = *position as usize;
            if state.enabled[position / 64] >> (position % 64) & 1 == 1 {
                begin_run(runs, *count, at);
            }
            if let Some(max) = count.max {
                while runs.front().is_some_and(|start| at + 1 - start > u64::from(max)) {
                    runs.pop_front();
                }
            }
            if runs.front().is_some_and(|start| at + 1 - start >= u64::from(count.min)) {
                set(&mut state.active, position);
            }
        }
        ends
    }

    fn ends(&self, state: &State, before: Option<u8>, after: Option<u8>, begins: bool) -> bool {
        let active = &state.active;
        active.iter().zip(&self.last).any(|(active, last)| active & last != 0)
            || self
                .last_if
                .iter()
                .any(|&(position, looks)| is_set(active, position as usize) && looks.hold(before, after))
            || begins && self.empty.iter().any(|looks| looks.hold(before, after))
    }

    /// Which positions may take the next byte.
    fn enable(&self, state: &mut State, before: Option<u8>, after: Option<u8>, begins: bool) {
        let State { active, enabled, .. } = state;
        let mut carry = 0;
        for word in 0..self.words {
            let shifted = active[word] & self.shifts[word];
            enabled[word] = shifted << 1 | carry | active[word] & self.holds[word];
            carry = shifted >> 63;
            if begins {
                enabled[word] |= self.first[word];
            }
        }
        for (word, &bits) in active.iter().enumerate() {
            for position in ones(bits & self.jumps[word]) {
                let targets = &self.targets[word * 64 + position];
                enabled.iter_mut().zip(targets).for_each(|(enabled, targets)| *enabled |= targets);
            }
            for position in ones(bits & self.conditional[word]) {
                for &(target, looks) in &self.targets_if[word * 64 + position] {
                    if looks.hold(before, after) {
                        set(enabled, target as usize);
                    }
                }
            }
        }
        if begins {
            for &(position, looks) in &self.first_if {
                if looks.hold(before, after) {
                    set(enabled, position as usize);
                }
            }
        }
    }
}

/// Notes a run that begins at `at`, without those that can't matter any more.
fn begin_run(runs: &mut VecDeque<u64>, count: Count, at: u64) {
    match count {
        Count { max: None, .. } if !runs.is_empty() => {}
        Count { min: 0 | 1, max: Some(_) } => {
            runs.clear();
            runs.push_back(at);
        }
        _ => runs.push_back(at),
    }
}

/// Which bytes no set distinguishes: the class of each byte, and a byte of each class.
pub fn byte_classes<'a>(sets: impl Iterator<Item = &'a ByteSet>) -> (Vec<u8>, Vec<u8>) {
    let mut classes = vec![0u16; 256];
    let mut count = 1u16;
    for set in sets {
        let mut split: Vec<Option<u16>> = vec![None; usize::from(count)];
        let mut sizes = vec![(0u16, 0u16); usize::from(count)];
        for byte in 0..=255u8 {
            let size = &mut sizes[usize::from(classes[usize::from(byte)])];
            if set.has(byte) { size.0 += 1 } else { size.1 += 1 }
        }
        for byte in 0..=255u8 {
            let class = &mut classes[usize::from(byte)];
            let (inside, outside) = sizes[usize::from(*class)];
            if set.has(byte) && inside > 0 && outside > 0 {
                *class = *split[usize::from(*class)].get_or_insert_with(|| {
                    count += 1;
                    count - 1
                });
            }
        }
    }
    let mut representatives = vec![0; usize::from(count)];
    for byte in (0..=255u8).rev() {
        representatives[usize::from(classes[usize::from(byte)])] = byte;
    }
    (classes.into_iter().map(|class| class as u8).collect(), representatives)
}

fn conditional(list: &[Conditional]) -> Vec<Conditional> {
    list.iter().copied().filter(|(_, looks)| !looks.is_none()).collect()
}

fn set_all(bits: &mut [u64], list: &[Conditional]) {
    list.iter().filter(|(_, looks)| looks.is_none()).for_each(|&(position, _)| set(bits, position as usize));
}

fn set(bits: &mut [u64], position: usize) {
    bits[position / 64] |= 1 << (position % 64);
}

fn is_set(bits: &[u64], position: usize) -> bool {
    bits[position / 64] >> (position % 64) & 1 == 1
}

fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit
        })
    })
}
