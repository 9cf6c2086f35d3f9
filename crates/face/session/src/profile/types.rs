//! Names of data, from debug information: globals, variables on threads' stacks, the types that allocations
//! are of.

use std::collections::HashMap;
use std::path::Path;

use capture::Outcome;
use capture::symbols::{Debug, Layouts, Resolver, Types, globals};
use event::{Layout, SiteTable, Variable};
use locality::{Names, Watcher};

/// Says what data is called.
pub(super) fn name(watcher: &mut Watcher, sites: &SiteTable, outcome: &Outcome) {
    let debug: Vec<Option<Debug>> = outcome.files.iter().map(|(path, _)| Debug::open(path)).collect();
    let files: Vec<(&Path, u64, Option<Layouts<'_>>)> = outcome
        .files
        .iter()
        .zip(&debug)
        .map(|((path, bias), debug)| (path.as_path(), *bias, debug.as_ref().and_then(Layouts::of)))
        .collect();
    let mut variables = Vec::new();
    for (path, bias, layouts) in &files {
        let of = |(name, address, bytes): (String, u64, u64)| Variable {
            name: format!("global {name}"),
            addr: address.wrapping_add(*bias),
            bytes,
            layout: layouts.as_ref().and_then(|layouts| layouts.global(address)),
        };
        variables.extend(globals(path).into_iter().map(of));
        variables.extend(layouts.iter().flat_map(|layouts| on_stacks(layouts, *bias, outcome)));
    }
    let stacks = outcome.stacks.iter().map(|stack| (stack.thread.0, stack.top, stack.bytes)).collect();
    let mut types = Types::default();
    let mut known: HashMap<u32, Layout> = HashMap::new();
    for (id, bytes) in watcher.allocation_sites() {
        let Some(site) = sites.site(id) else { continue };
        let own = |(path, ..): &&(&Path, u64, Option<Layouts<'_>>)| {
            path.file_name().is_some_and(|name| name.to_string_lossy() == site.module)
        };
        let Some(layouts) = files.iter().find(own).and_then(|file| file.2.as_ref()) else { continue };
        let found = types.layout(&site.frames, layouts);
        if let Some(layout) = found.filter(|layout| fits(layout, bytes)) {
            known.insert(id.0, layout);
        }
    }
    let mut resolver = Resolver::default();
    let mut threads = HashMap::new();
    for stack in &outcome.stacks {
        let own = |(path, bias, _): &(&Path, u64, Option<Layouts<'_>>)| {
            let site = resolver.site(path, stack.function.wrapping_sub(*bias));
            Some(site.frames.last()?.function.clone()).filter(|name| !name.starts_with("0x"))
        };
        if let Some(name) = files.iter().find_map(own) {
            threads.insert(stack.thread.0, name);
        }
    }
    watcher.set_names(Names { variables, stacks, types: known, threads });
}

/// Whether blocks of so many bytes can be of a type: whole elements, or one with something of no fixed length
/// behind it.
fn fits(layout: &Layout, bytes: u64) -> bool {
    layout.bytes > 1
        && bytes >= layout.bytes
        && (bytes.is_multiple_of(layout.bytes) || bytes < 2 * layout.bytes)
}

/// Variables in the frames of the functions that threads run. Stacks that came after one another at one
/// address share names.
fn on_stacks(layouts: &Layouts<'_>, bias: u64, outcome: &Outcome) -> Vec<Variable> {
    let mut found: Vec<(Variable, Vec<u32>)> = Vec::new();
    for stack in outcome.stacks.iter().chain(&outcome.frames) {
        for (name, offset, bytes, layout) in layouts.frame(stack.function.wrapping_sub(bias)) {
            let addr = stack.top.wrapping_add_signed(offset);
            let same = found.iter_mut().find(|(of, _)| of.addr == addr && of.name == name);
            match same {
                Some((_, threads)) => threads.push(stack.thread.0),
                None => found.push((Variable { name, addr, bytes, layout }, vec![stack.thread.0])),
            }
        }
    }
    let named = |(of, threads): (Variable, Vec<u32>)| {
        let first: Vec<String> = threads.iter().take(4).map(u32::to_string).collect();
        let more = if threads.len() > first.len() { ", …" } else { "" };
        let s = if threads.len() > 1 { "s" } else { "" };
        Variable {
            name: format!("variable {} on the stack of thread{s} {}{more}", of.name, first.join(", ")),
            ..of
        }
    };
    found.into_iter().map(named).collect()
}
