//! What of a type is used: fields by their names, where debug information has them, by the accesses that were
//! kept.

use std::collections::HashMap;

use event::{Layout, Variable};

use crate::tape::NO_BLOCK;
use crate::watcher::Watcher;

/// Elements of an array without fields that are listed one by one.
const ELEMENTS_MAX: u64 = 64;

/// Use of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldUse {
    /// Its name; that of an element (`[3]`) in an array of numbers.
    pub name: String,
    /// Bytes before it in its type.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Loads and stores of it, of those that were kept.
    pub loads: u64,
    /// The latter.
    pub stores: u64,
    /// Threads, as bits (the last for all from 63).
    pub threads: u64,
}

/// A data structure: the blocks of an allocation site, or a variable by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Site(u32),
    Variable(u64),
}

/// The use of all fields that have names.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    all: HashMap<Of, (Layout, Vec<FieldUse>)>,
    /// Of which structure most accesses of a code site are, and of which of its fields (by their numbers)
    /// they are.
    sites: HashMap<u32, HashMap<Of, (u64, Vec<bool>)>>,
}

impl Uses {
    pub(crate) fn of(watcher: &Watcher) -> Self {
        let mut uses = Uses::default();
        for access in watcher.tape.all() {
            let (of, layout, offset, bytes) = if access.block == NO_BLOCK {
                let Some(variable) = watcher.outside.at(access.addr) else { continue };
                let Variable { addr, bytes, layout: Some(layout), .. } = variable else { continue };
                (Of::Variable(*addr), layout, access.addr - addr, *bytes)
            } else {
                let Some(layout) = watcher.types.get(&access.block) else { continue };
                let block = watcher.heap.sites.get(&access.block).map_or(0, |of| of.bytes / of.blocks.max(1));
                (Of::Site(access.block), layout, u64::from(access.offset), block)
            };
            if access.offset == u32::MAX || access.prefetch {
                continue;
            }
            let (_, fields) = uses.all.entry(of).or_insert_with(|| (layout.clone(), unused(layout, bytes)));
            let (seen, own) = uses.sites.entry(access.site).or_default().entry(of).or_default();
            *seen += 1;
            own.resize(fields.len(), false);
            let within = if layout.fields.is_empty() { offset } else { offset % layout.bytes };
            let end = within + u64::from(access.len);
            let whole = !layout.fields.is_empty() && u64::from(access.len) >= layout.bytes;
            let touched = |field: &FieldUse| field.offset < end && field.offset + field.bytes > within;
            for (field, own) in fields.iter_mut().zip(own).filter(|(field, _)| whole || touched(field)) {
                *(if access.store { &mut field.stores } else { &mut field.loads }) += 1;
                field.threads |= 1 << access.thread.min(63);
                *own = true;
            }
        }
        uses
    }

    /// Of the blocks of an allocation site: their type and its fields, or elements.
    #[must_use]
    pub fn of_site(&self, site: u32) -> Option<(&Layout, &[FieldUse])> {
        self.all.get(&Of::Site(site)).map(|(layout, fields)| (layout, fields.as_slice()))
    }

    /// Of the variable at an address.
    #[must_use]
    pub fn of_variable(&self, addr: u64) -> Option<(&Layout, &[FieldUse])> {
        self.all.get(&Of::Variable(addr)).map(|(layout, fields)| (layout, fields.as_slice()))
    }

    /// The type that most accesses of a code site go to, its fields, and which of them the code uses.
    pub(crate) fn by_code(&self, site: u32) -> Option<(&Layout, &[FieldUse], &[bool])> {
        let all = self.sites.get(&site)?;
        let (of, (_, own)) = all.iter().max_by_key(|(of, (seen, _))| {
            let order = match of {
                Of::Site(site) => u64::from(*site),
                Of::Variable(addr) => *addr,
            };
            (*seen, std::cmp::Reverse(order))
        })?;
        let (layout, fields) = self.all.get(of)?;
        (!layout.fields.is_empty()).then_some((layout, fields.as_slice(), own.as_slice()))
    }
}

/// The fields of a type, or the elements of a small array of it, none used.
fn unused(layout: &Layout, bytes: u64) -> Vec<FieldUse> {
    let field = |name: String, offset, bytes| FieldUse { name, offset, bytes, ..FieldUse::default() };
    if !layout.fields.is_empty() {
        return layout.fields.iter().map(|of| field(of.name.clone(), of.offset, of.bytes)).collect();
    }
    let count = bytes / layout.bytes.max(1);
    if !(2..=ELEMENTS_MAX).contains(&count) {
        return Vec::new();
    }
    (0..count).map(|at| field(format!("[{at}]"), at * layout.bytes, layout.bytes)).collect()
}
