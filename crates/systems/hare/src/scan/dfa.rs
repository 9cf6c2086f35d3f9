//! Several expressions without counters as one automaton, made state by state while text asks for it.

use std::collections::HashMap;
use std::sync::Arc;

use super::nfa::{Nfa, State, byte_classes};
use crate::byteset::ByteSet;

/// States before the automaton begins anew.
const STATES: usize = 2048;
/// Bytes per state below which a new beginning did not pay.
const WORTH: u64 = 16;

const UNKNOWN: u32 = u32::MAX;
/// Marks a transition at which matches end.
const ENDS: u32 = 1 << 31;

/// An expression and its automaton.
pub type Member = (u32, Arc<Nfa>);

/// The automaton, as far as it is made.
pub struct Dfa {
    members: Vec<Member>,
    looks: bool,
    classes: Vec<u8>,
    representatives: Vec<u8>,
    /// Entries per state: one per class, and one for the end of the text.
    stride: usize,
    table: Vec<u32>,
    /// The members whose matches end, by entry of the table.
    ends: HashMap<u32, Arc<[u32]>>,
    states: Vec<Arc<[u64]>>,
    known: HashMap<Arc<[u64]>, u32>,
    current: u32,
    bytes: u64,
    scratch: Vec<State>,
}

impl Dfa {
    /// The automaton of `members`, which have no counters. `sets` are all that they tell apart.
    pub fn new<'a>(members: Vec<Member>, looks: bool, sets: impl Iterator<Item = &'a ByteSet>) -> Dfa {
        let mut word = ByteSet::range(b'0', b'9').or(&ByteSet::range(b'a', b'z'));
        word = word.or(&ByteSet::range(b'A', b'Z')).or(&ByteSet::one(b'_'));
        let of_looks = [ByteSet::one(b'\n'), ByteSet::one(b'\r'), word];
        let mut all: Vec<ByteSet> = sets.copied().collect();
        if looks {
            all.extend(of_looks);
        }
        let (classes, representatives) = byte_classes(all.iter());
        let stride = representatives.len() + 1;
        let scratch = members.iter().map(|(_, nfa)| nfa.start()).collect();
        let mut dfa = Dfa {
            members,
            looks,
            classes,
            representatives,
            stride,
            table: Vec::new(),
            ends: HashMap::new(),
            states: Vec::new(),
            known: HashMap::new(),
            current: 0,
            bytes: 0,
            scratch,
        };
        let words = dfa.members.iter().map(|(_, nfa)| nfa.words()).sum::<usize>();
        let start: Arc<[u64]> = vec![0; words + 1].into();
        dfa.current = dfa.state(start);
        dfa
    }

    /// Its expressions.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The members' bits at the current state.
    pub fn split_state(&self) -> Vec<State> {
        let mut states: Vec<State> = self.members.iter().map(|(_, nfa)| nfa.start()).collect();
        unpack(&self.states[self.current as usize / self.stride], &mut states);
        states
    }

    /// Goes on from these bits and the byte before.
    pub fn resume(&mut self, states: &[State], before: Option<u8>) {
        let key = self.pack(states, before);
        self.current = self.state(key);
    }

    /// Takes `text`, which begins at `offset`, and reports (expression, end) of matches that end before the
    /// byte that is taken. Returns how far it came: not to the end where the automaton has too many states
    /// to pay.
    pub fn run(&mut self, text: &[u8], offset: u64, mut report: impl FnMut(u32, u64)) -> usize {
        let mut current = self.current as usize;
        let mut at = 0;
        while at < text.len() {
            // Over known transitions at which nothing ends.
            let rest = &text[at..];
            let mut taken = 0;
            for &byte in rest {
                let next = self.table[current + usize::from(self.classes[usize::from(byte)])];
                if next & ENDS != 0 {
                    break;
                }
                current = next as usize;
                taken += 1;
            }
            at += taken;
            let Some(&byte) = text.get(at) else { break };
            let class = usize::from(self.classes[usize::from(byte)]);
            if self.table[current + class] == UNKNOWN {
                if self.states.len() >= STATES {
                    let worth = self.bytes + at as u64 >= WORTH * STATES as u64;
                    self.current = current as u32;
                    if !worth {
                        self.bytes = 0;
                        return at;
                    }
                    current = self.begin_anew();
                    // The bytes before count for the states before.
                    self.bytes = 0u64.wrapping_sub(at as u64);
                }
                self.make(current, class, Some(byte));
            }
            let entry = current + class;
            let next = self.table[entry];
            if next & ENDS != 0
                && let Some(ends) = self.ends.get(&(entry as u32))
            {
                ends.iter().for_each(|&expression| report(expression, offset + at as u64));
            }
            current = (next & !ENDS) as usize;
            at += 1;
        }
        self.current = current as u32;
        self.bytes = self.bytes.wrapping_add(text.len() as u64);
        text.len()
    }

    /// The end of the text, at `offset`.
    pub fn finish(&mut self, offset: u64, mut report: impl FnMut(u32, u64)) {
        let (current, class) = (self.current as usize, self.stride - 1);
        if self.table[current + class] == UNKNOWN {
            self.make(current, class, None);
        }
        if let Some(ends) = self.ends.get(&((current + class) as u32)) {
            ends.iter().for_each(|&expression| report(expression, offset));
        }
    }

    /// Makes one transition.
    fn make(&mut self, current: usize, class: usize, after: Option<u8>) {
        let key = Arc::clone(&self.states[current / self.stride]);
        let before = unpack(&key, &mut self.scratch);
        let after = after.map(|_| self.representatives[class]);
        let mut ends = Vec::new();
        let mut states = std::mem::take(&mut self.scratch);
        for ((expression, nfa), state) in self.members.iter().zip(&mut states) {
            if nfa.step(state, 0, before, after, true) {
                ends.push(*expression);
            }
        }
        let next = match after {
            Some(_) => {
                let key = self.pack(&states, after);
                self.state(key)
            }
            None => 0,
        };
        self.scratch = states;
        let entry = current + class;
        self.table[entry] = next;
        if !ends.is_empty() {
            self.table[entry] |= ENDS;
            self.ends.insert(entry as u32, ends.into());
        }
    }

    /// Forgets all states but the current one.
    fn begin_anew(&mut self) -> usize {
        let key = Arc::clone(&self.states[self.current as usize / self.stride]);
        self.table.clear();
        self.ends.clear();
        self.states.clear();
        self.known.clear();
        self.state(key) as usize
    }

    fn state(&mut self, key: Arc<[u64]>) -> u32 {
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let state = self.table.len() as u32;
        self.table.resize(self.table.len() + self.stride, UNKNOWN);
        self.states.push(Arc::clone(&key));
        self.known.insert(key, state);
        state
    }

    /// The bits of all members, and what is to be known of the byte before.
    fn pack(&self, states: &[State], before: Option<u8>) -> Arc<[u64]> {
        let kind = match before {
            None => 0,
            Some(_) if !self.looks => 4,
            Some(b'\n') => 1,
            Some(b'\r') => 2,
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' => 3,
            Some(_) => 4,
        };
        states.iter().flat_map(|state| state.active.iter().copied()).chain([kind]).collect()
    }
}

/// The bits of each member; returns a byte of the kind of the one before.
fn unpack(key: &[u64], states: &mut [State]) -> Option<u8> {
    let mut words = key.iter().copied();
    for word in states.iter_mut().flat_map(|state| &mut state.active) {
        *word = words.next().unwrap_or(0);
    }
    match words.next() {
        Some(1) => Some(b'\n'),
        Some(2) => Some(b'\r'),
        Some(3) => Some(b'a'),
        Some(4) => Some(b' '),
        _ => None,
    }
}
