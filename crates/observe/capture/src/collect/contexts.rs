//! Call stacks: which calls of a thread are under way, as functions report where they begin and end, and a
//! site for each such chain.
//!
//! A chain is a node of a tree: the chain of the caller, and where it called. A function that calls itself,
//! directly or by others, does not make the chain longer: the call that is there already stands for all of
//! them. So there are as many chains as a program has ways without a circle, and at most [`CHAINS_MAX`].

use event::map::Map;
use event::{Frame, Site, SiteId};

use super::code::{Code, Vocabulary};

/// Chains, at most; what comes deeper then counts as its caller's.
const CHAINS_MAX: usize = 1 << 14;
/// Calls under way that are remembered, of a thread.
const DEEPEST: usize = 1 << 12;
/// Frames of a chain's site.
const FRAMES_MAX: usize = 128;

/// Number of a chain; 0: nothing is known of who called.
pub type Chain = u32;

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// An address in its frame; those of the functions that it calls are lower.
    frame: u64,
    /// The chain with it.
    chain: Chain,
    /// An address in its code.
    pc: u64,
}

/// A thread's calls under way, the last one at the end.
#[derive(Debug, Default)]
pub struct CallStack {
    calls: Vec<Call>,
}

/// A frame that lies on a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveFrame {
    /// The address above the frame and its return address.
    pub top: u64,
    /// An address in the code of its function.
    pub function: u64,
}

impl CallStack {
    /// The chain that the thread is in.
    pub fn chain(&self) -> Chain {
        self.calls.last().map_or(0, |call| call.chain)
    }

    /// Calls whose frames are not above `frame` are over: they returned, or were left by a jump or an
    /// exception.
    pub fn leave(&mut self, frame: u64) {
        while self.calls.pop_if(|call| call.frame <= frame).is_some() {}
    }

    /// Some records are missing: nothing is known.
    pub fn forget(&mut self) {
        self.calls.clear();
    }

    /// The frames that lie on the stack, the innermost first.
    pub fn frames(&self) -> impl Iterator<Item = LiveFrame> {
        // What is known is the hook's frame, two words below the caller's.
        self.calls.iter().rev().map(|call| LiveFrame { top: call.frame + 16, function: call.pc })
    }
}

/// A chain of calls.
#[derive(Clone, Debug)]
struct Node {
    parent: Chain,
    /// Process, where the call returns to, and an address in the calling function, 0 if not known.
    from: (usize, u64, u64),
    /// Once it was asked for.
    site: Option<SiteId>,
}

/// All chains.
#[derive(Debug)]
pub struct Contexts {
    nodes: Vec<Node>,
    known: Map<(Chain, u64, u64), Chain>,
}

impl Default for Contexts {
    fn default() -> Self {
        let none = Node { parent: 0, from: (0, 0, 0), site: Some(SiteId::UNKNOWN) };
        Contexts { nodes: vec![none], known: Map::default() }
    }
}

impl Contexts {
    /// A function with code at `pc` has begun, in `process`, that returns to `back`.
    pub fn enter(&mut self, stack: &mut CallStack, process: usize, [pc, back, frame]: [u64; 3]) {
        stack.leave(frame);
        let caller = stack.calls.last().map_or(0, |call| call.pc);
        let chain = self.chain(stack.chain(), (process, back, caller));
        if stack.calls.len() < DEEPEST {
            stack.calls.push(Call { frame, chain, pc });
        }
    }

    /// The chain with one call more.
    fn chain(&mut self, parent: Chain, from: (usize, u64, u64)) -> Chain {
        // Processes of one program have the same chains; addresses of several programs seldom meet.
        let key = (parent, from.1 ^ (from.0 as u64) << 56, from.2);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let mut above = parent;
        let mut chain = None;
        while above != 0 && chain.is_none() {
            let node = &self.nodes[above as usize];
            (chain, above) = ((node.from == from).then_some(above), node.parent);
        }
        let chain = chain.unwrap_or_else(|| {
            if self.nodes.len() >= CHAINS_MAX {
                return parent;
            }
            self.nodes.push(Node { parent, from, site: None });
            self.nodes.len() as Chain - 1
        });
        self.known.insert(key, chain);
        chain
    }

    /// The site whose frames are the calls of a chain, the last one first.
    pub fn site<C: Code>(
        &mut self,
        chain: Chain,
        pids: impl Fn(usize) -> u32,
        code: &mut C,
        vocabulary: &mut Vocabulary,
    ) -> SiteId {
        if let Some(site) = self.nodes.get(chain as usize).and_then(|node| node.site) {
            return site;
        }
        let mut whole = Site::default();
        let mut at = chain;
        while at != 0 && whole.frames.len() < FRAMES_MAX {
            let Node { parent, from: (process, back, caller), .. } = self.nodes[at as usize].clone();
            let place = code.place(pids(process), back);
            let site = code.site(place.at(place.address().wrapping_sub(1)));
            if whole.module.is_empty() {
                (whole.module, whole.address) = (site.module.clone(), site.address);
            }
            let function = site.frames.last().map(|frame| frame.function.clone());
            whole.frames.extend(site.frames);
            // Code that reports nothing, such as the C library's `qsort`, may stand between the two.
            if caller != 0
                && let Some(frame) = outermost(code, pids(process), caller)
                && function.as_ref() != Some(&frame.function)
            {
                whole.frames.push(Frame { line: 0, ..frame });
            }
            at = parent;
        }
        whole.frames.truncate(FRAMES_MAX);
        let id = vocabulary.chain(whole);
        self.nodes[chain as usize].site = Some(id);
        id
    }
}

/// The function that the code at an address was compiled into.
fn outermost<C: Code>(code: &mut C, pid: u32, address: u64) -> Option<Frame> {
    let place = code.place(pid, address);
    code.site(place.at(place.address().wrapping_sub(1))).frames.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_a_jump_left_are_over_and_recursion_makes_no_longer_chains() {
        let (mut contexts, mut stack) = (Contexts::default(), CallStack::default());
        contexts.enter(&mut stack, 0, [9, 1, 1000]);
        let outer = stack.chain();
        contexts.enter(&mut stack, 0, [8, 2, 900]);
        let called = stack.chain();
        (0..5000).for_each(|deep| contexts.enter(&mut stack, 0, [8, 3, 800 - deep % 800]));
        let deep = stack.chain();
        contexts.enter(&mut stack, 0, [8, 3, 700]);
        assert_eq!(stack.chain(), deep);
        assert!(![0, outer, called].contains(&deep) && contexts.nodes.len() == 4, "{contexts:?}");
        assert_eq!(stack.frames().last(), Some(LiveFrame { top: 1016, function: 9 }));
        // An exception came to a function whose frame is there still.
        contexts.enter(&mut stack, 0, [7, 4, 900]);
        stack.leave(900);
        assert_eq!(stack.chain(), outer);
        stack.leave(1000);
        assert_eq!(stack.chain(), 0);
    }
}
