//! One process's view of its pages in the NVM cache: which page of which file is where, and two lists in the
//! order of use.
//!
//! | event | action |
//! |---|---|
//! | redo misses, below the share | a page from the free list, filled from the file, entry applied → head of dirty |
//! | redo misses, share reached | the tail of clean, filled again → head of dirty |
//! | redo hits | entry applied → head of dirty |
//! | write-back | the tail of dirty → file, synced, no longer dirty → head of clean |
//! | over the share | tails of clean → free list |
//!
//! Recovery needs none of this but the state in each page's object, so map and lists are in ordinary memory.

use std::collections::HashMap;

/// No page.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    file: u16,
    dirty: bool,
    /// Write-back has a copy of it under way.
    writing: bool,
    /// It changed since.
    changed: bool,
    page: u32,
    before: u32,
    after: u32,
}

const EMPTY: Node =
    Node { file: 0, dirty: false, writing: false, changed: false, page: 0, before: NONE, after: NONE };

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    count: u32,
}

const NO_LIST: List = List { head: NONE, tail: NONE, count: 0 };

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    nodes: HashMap<u32, Node>,
    map: HashMap<(u16, u32), u32>,
    dirty: List,
    clean: List,
    /// Write-back is at work, from the higher threshold until the lower one.
    pub active: bool,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache { nodes: HashMap::new(), map: HashMap::new(), dirty: NO_LIST, clean: NO_LIST, active: false }
    }

    pub(crate) fn dirty(&self) -> u32 {
        self.dirty.count
    }

    pub(crate) fn clean(&self) -> u32 {
        self.clean.count
    }

    /// Where a page of a file is, and whether it is dirty.
    pub(crate) fn find(&self, file: u16, page: u32) -> Option<(u32, bool)> {
        let index = *self.map.get(&(file, page))?;
        Some((index, self.nodes.get(&index)?.dirty))
    }

    /// Puts a page in that is dirty.
    pub(crate) fn insert(&mut self, index: u32, file: u16, page: u32) {
        self.map.insert((file, page), index);
        self.nodes.insert(index, Node { file, page, dirty: true, ..EMPTY });
        self.link(index);
    }

    /// An entry was applied to the page: head of dirty.
    pub(crate) fn touch(&mut self, index: u32) {
        self.unlink(index);
        if let Some(node) = self.nodes.get_mut(&index) {
            node.dirty = true;
            node.changed = true;
        }
        self.link(index);
    }

    /// Takes the clean page that was used longest ago.
    pub(crate) fn take_clean(&mut self) -> Option<u32> {
        let index = Some(self.clean.tail).filter(|index| *index != NONE)?;
        self.unlink(index);
        let node = self.nodes.remove(&index)?;
        self.map.remove(&(node.file, node.page));
        Some(index)
    }

    /// Up to `count` dirty pages, those used longest ago first: index, file, page. They are being written
    /// from here on.
    pub(crate) fn begin_writing(&mut self, count: usize) -> Vec<(u32, u16, u32)> {
        let mut chosen = Vec::new();
        let mut at = self.dirty.tail;
        while at != NONE && chosen.len() < count {
            let Some(node) = self.nodes.get_mut(&at) else { break };
            node.writing = true;
            node.changed = false;
            chosen.push((at, node.file, node.page));
            at = node.before;
        }
        chosen
    }

    /// The page was written, or not. Whether it is clean now: then [`Cache::cleaned`] follows.
    pub(crate) fn end_writing(&mut self, index: u32, written: bool) -> bool {
        let Some(node) = self.nodes.get_mut(&index) else { return false };
        node.writing = false;
        written && !node.changed
    }

    /// The page's object says clean, durably: head of clean.
    pub(crate) fn cleaned(&mut self, index: u32) {
        self.unlink(index);
        if let Some(node) = self.nodes.get_mut(&index) {
            node.dirty = false;
        }
        self.link(index);
    }

    /// Takes all clean pages of a file out.
    pub(crate) fn take_file(&mut self, file: u16) -> Vec<u32> {
        let of_file = self.nodes.iter().filter(|(_, node)| node.file == file && !node.dirty);
        let mut indices: Vec<u32> = of_file.map(|(index, _)| *index).collect();
        indices.sort_unstable();
        for &index in &indices {
            self.unlink(index);
            if let Some(node) = self.nodes.remove(&index) {
                self.map.remove(&(node.file, node.page));
            }
        }
        indices
    }

    fn list(&mut self, dirty: bool) -> &mut List {
        if dirty { &mut self.dirty } else { &mut self.clean }
    }

    /// Puts a page at the head of the list of its state.
    fn link(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(&index) else { return };
        let dirty = node.dirty;
        let list = if dirty { &mut self.dirty } else { &mut self.clean };
        node.before = NONE;
        node.after = list.head;
        let old = std::mem::replace(&mut list.head, index);
        list.count += 1;
        match self.nodes.get_mut(&old) {
            Some(next) => next.before = index,
            None => self.list(dirty).tail = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(&Node { before, after, dirty, .. }) = self.nodes.get(&index) else { return };
        match self.nodes.get_mut(&before) {
            Some(node) => node.after = after,
            None => self.list(dirty).head = after,
        }
        match self.nodes.get_mut(&after) {
            Some(node) => node.before = before,
            None => self.list(dirty).tail = before,
        }
        self.list(dirty).count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_round() {
        let mut cache = Cache::new();
        (0..4).for_each(|page| cache.insert(10 + page, 1, page));
        assert_eq!((cache.dirty(), cache.clean(), cache.take_clean()), (4, 0, None));
        cache.touch(10);
        let chosen = cache.begin_writing(2);
        assert_eq!(chosen, [(11, 1, 1), (12, 1, 2)], "used longest ago");
        cache.touch(12);
        assert!(cache.end_writing(11, true) && !cache.end_writing(12, true), "12 has changed since");
        cache.cleaned(11);
        assert_eq!((cache.dirty(), cache.clean(), cache.find(1, 1)), (3, 1, Some((11, false))));
        assert_eq!((cache.take_clean(), cache.find(1, 1), cache.clean()), (Some(11), None, 0));
        assert_eq!(cache.begin_writing(9).len(), 3);
    }
}
