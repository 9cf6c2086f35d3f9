//! Events as lines of text, as `strandline trace dump` prints them.

use std::io::{self, Write};

use event::{Event, FenceKind, FlushKind, Op, Order, SiteTable, StrandMark, ThreadId};

/// Writes `T1 store 0x7f12 8 main (a.c:3)`.
///
/// # Errors
/// If it can't be written.
pub fn line(out: &mut dyn Write, thread: ThreadId, event: &Event, table: &SiteTable) -> io::Result<()> {
    write!(out, "T{} {}", thread.0, operation(&event.op, table))?;
    match table.site(event.site) {
        Some(site) => writeln!(out, " {site}"),
        None => writeln!(out),
    }
}

fn operation(op: &Op, table: &SiteTable) -> String {
    let name = |id| table.name(id).unwrap_or("?");
    match *op {
        Op::Load { addr, len } => format!("load {addr:#x} {len}"),
        Op::Store { addr, len } => format!("store {addr:#x} {len}"),
        Op::StoreNt { addr, len } => format!("ntstore {addr:#x} {len}"),
        Op::Flush { addr, kind } => format!("{} {addr:#x}", flush(kind)),
        Op::Demote { addr } => format!("cldemote {addr:#x}"),
        Op::Prefetch { addr } => format!("prefetch {addr:#x}"),
        Op::Context => "called-from".to_owned(),
        Op::Fence(kind) => fence(kind).to_owned(),
        Op::Acquire { var, order, seq } => format!("acquire {var:#x} {} #{seq}", memory_order(order)),
        Op::Release { var, order, seq } => format!("release {var:#x} {} #{seq}", memory_order(order)),
        Op::Lock { lock, shared: false, seq } => format!("lock {lock:#x} #{seq}"),
        Op::Lock { lock, shared: true, seq } => format!("lock-shared {lock:#x} #{seq}"),
        Op::Unlock { lock, seq } => format!("unlock {lock:#x} #{seq}"),
        Op::Spawn { child, seq } => format!("spawn T{} #{seq}", child.0),
        Op::ThreadStart { seq } => format!("thread-start #{seq}"),
        Op::ThreadEnd { seq } => format!("thread-end #{seq}"),
        Op::Join { thread, seq } => format!("join T{} #{seq}", thread.0),
        Op::Alloc { addr, len } => format!("alloc {addr:#x} {len}"),
        Op::Free { addr } => format!("free {addr:#x}"),
        Op::Map { addr, len, name: path } => format!("map {addr:#x} {len} {}", name(path)),
        Op::Unmap { addr, len } => format!("unmap {addr:#x} {len}"),
        Op::RegionBegin { region } => format!("region-begin {region}"),
        Op::RegionEnd { region } => format!("region-end {region}"),
        Op::Phase { name: phase } => format!("phase {}", name(phase)),
        Op::Strand(mark) => strand(mark).to_owned(),
        Op::FileWrite { file, offset, len } => format!("file-write {} {offset} {len}", name(file)),
        Op::FileSync { file, data_only } => format!("{} {}", sync(data_only), name(file)),
        Op::FileRangeSync { file, offset, len, data_only } => {
            format!("{} {} {offset} {len}", range_sync(data_only), name(file))
        }
        Op::FileTruncate { file, len } => format!("file-truncate {} {len}", name(file)),
        Op::FileCreate { file, folder } => format!("{} {}", create(folder), name(file)),
        Op::Rename { from, to } => format!("rename {} {}", name(from), name(to)),
        Op::Unlink { file } => format!("unlink {}", name(file)),
        Op::Link { from, to } => format!("link {} {}", name(from), name(to)),
        Op::Symlink { file, target } => format!("symlink {} {}", name(file), name(target)),
        Op::Exchange { from, to } => format!("exchange {} {}", name(from), name(to)),
        Op::FilesSync { file } => format!("files-sync {}", name(file)),
        Op::FileCollapse { file, offset, len } => format!("file-collapse {} {offset} {len}", name(file)),
        Op::FileInsert { file, offset, len } => format!("file-insert {} {offset} {len}", name(file)),
        Op::MapOffset { addr, offset } => format!("map-offset {addr:#x} {offset}"),
        Op::Process { process } => format!("process {process}"),
        Op::MapSync { addr, len } => format!("map-sync {addr:#x} {len}"),
    }
}

/// The name of a strand mark.
pub fn strand(mark: StrandMark) -> &'static str {
    match mark {
        StrandMark::Barrier => "strand-barrier",
        StrandMark::New => "strand-new",
        StrandMark::Join => "strand-join",
    }
}

/// The name of a file's sync.
pub fn sync(data_only: bool) -> &'static str {
    if data_only { "file-data-sync" } else { "file-sync" }
}

/// The name of a sync of some of a file's bytes.
pub fn range_sync(data_only: bool) -> &'static str {
    if data_only { "file-range-data-sync" } else { "file-range-sync" }
}

/// The name of a file's or folder's making.
pub fn create(folder: bool) -> &'static str {
    if folder { "folder-create" } else { "file-create" }
}

/// The name of a fence.
pub fn fence(kind: FenceKind) -> &'static str {
    match kind {
        FenceKind::Store => "sfence",
        FenceKind::Full => "mfence",
        FenceKind::Locked => "locked-fence",
    }
}

/// The name of a flush.
pub fn flush(kind: FlushKind) -> &'static str {
    match kind {
        FlushKind::Clwb => "clwb",
        FlushKind::Clflushopt => "clflushopt",
        FlushKind::Clflush => "clflush",
    }
}

/// The name of an order.
pub fn memory_order(order: Order) -> &'static str {
    match order {
        Order::Acquire => "acquire",
        Order::Release => "release",
        Order::AcqRel => "acq_rel",
        Order::SeqCst => "seq_cst",
    }
}
