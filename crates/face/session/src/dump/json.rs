//! Events as JSON, one object per line, as `strandline trace dump --json` prints them.

use std::io::{self, Write};

use event::{Event, Op, SiteTable, ThreadId};
use serde_json::{Value, json};

use super::text::{create, fence, flush, memory_order, range_sync, strand, sync};

/// Writes the object of event number `at`; `value` are the bytes that it stored, if the trace keeps them.
///
/// # Errors
/// If it can't be written.
pub fn line(
    out: &mut dyn Write,
    at: u64,
    thread: ThreadId,
    event: &Event,
    value: Option<&[u8]>,
    table: &SiteTable,
) -> io::Result<()> {
    let mut object = operation(&event.op, table);
    object["event"] = at.into();
    object["thread"] = thread.0.into();
    object["instructions"] = event.instructions.into();
    object["site"] = event.site.0.into();
    object["label"] = table.site(event.site).map(ToString::to_string).into();
    if let Some(bytes) = value {
        object["value"] = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    }
    writeln!(out, "{object}")
}

/// The operation's name (`op`), the same as in text, and its operands.
#[must_use]
pub fn operation(op: &Op, table: &SiteTable) -> Value {
    let name = |id| table.name(id);
    match *op {
        Op::Load { addr, len } => json!({"op": "load", "addr": addr, "len": len}),
        Op::Store { addr, len } => json!({"op": "store", "addr": addr, "len": len}),
        Op::StoreNt { addr, len } => json!({"op": "ntstore", "addr": addr, "len": len}),
        Op::Flush { addr, kind } => json!({"op": flush(kind), "addr": addr}),
        Op::Demote { addr } => json!({"op": "cldemote", "addr": addr}),
        Op::Prefetch { addr } => json!({"op": "prefetch", "addr": addr}),
        Op::Context => json!({"op": "called-from"}),
        Op::Fence(kind) => json!({"op": fence(kind)}),
        Op::Acquire { var, order, seq } => {
            json!({"op": "acquire", "addr": var, "order": memory_order(order), "seq": seq})
        }
        Op::Release { var, order, seq } => {
            json!({"op": "release", "addr": var, "order": memory_order(order), "seq": seq})
        }
        Op::Lock { lock, shared, seq } => {
            json!({"op": if shared { "lock-shared" } else { "lock" }, "addr": lock, "seq": seq})
        }
        Op::Unlock { lock, seq } => json!({"op": "unlock", "addr": lock, "seq": seq}),
        Op::Spawn { child, seq } => json!({"op": "spawn", "other": child.0, "seq": seq}),
        Op::ThreadStart { seq } => json!({"op": "thread-start", "seq": seq}),
        Op::ThreadEnd { seq } => json!({"op": "thread-end", "seq": seq}),
        Op::Join { thread, seq } => json!({"op": "join", "other": thread.0, "seq": seq}),
        Op::Alloc { addr, len } => json!({"op": "alloc", "addr": addr, "len": len}),
        Op::Free { addr } => json!({"op": "free", "addr": addr}),
        Op::Map { addr, len, name: path } => {
            json!({"op": "map", "addr": addr, "len": len, "name": name(path)})
        }
        Op::Unmap { addr, len } => json!({"op": "unmap", "addr": addr, "len": len}),
        Op::RegionBegin { region } => json!({"op": "region-begin", "region": region}),
        Op::RegionEnd { region } => json!({"op": "region-end", "region": region}),
        Op::Phase { name: phase } => json!({"op": "phase", "name": name(phase)}),
        Op::Strand(mark) => json!({"op": strand(mark)}),
        Op::FileWrite { file, offset, len } => {
            json!({"op": "file-write", "name": name(file), "offset": offset, "len": len})
        }
        Op::FileSync { file, data_only } => json!({"op": sync(data_only), "name": name(file)}),
        Op::FileRangeSync { file, offset, len, data_only } => {
            json!({"op": range_sync(data_only), "name": name(file), "offset": offset, "len": len})
        }
        Op::FileTruncate { file, len } => json!({"op": "file-truncate", "name": name(file), "len": len}),
        Op::FileCreate { file, folder } => json!({"op": create(folder), "name": name(file)}),
        Op::Rename { from, to } => json!({"op": "rename", "name": name(from), "to": name(to)}),
        Op::Unlink { file } => json!({"op": "unlink", "name": name(file)}),
        Op::Link { from, to } => json!({"op": "link", "name": name(from), "to": name(to)}),
        Op::Symlink { file, target } => {
            json!({"op": "symlink", "name": name(file), "target": name(target)})
        }
        Op::Exchange { from, to } => json!({"op": "exchange", "name": name(from), "to": name(to)}),
        Op::FilesSync { file } => json!({"op": "files-sync", "name": name(file)}),
        Op::FileCollapse { file, offset, len } => {
            json!({"op": "file-collapse", "name": name(file), "offset": offset, "len": len})
        }
        Op::FileInsert { file, offset, len } => {
            json!({"op": "file-insert", "name": name(file), "offset": offset, "len": len})
        }
        Op::Process { process } => json!({"op": "process", "process": process}),
        Op::MapOffset { addr, offset } => json!({"op": "map-offset", "addr": addr, "offset": offset}),
        Op::MapSync { addr, len } => json!({"op": "map-sync", "addr": addr, "len": len}),
    }
}
