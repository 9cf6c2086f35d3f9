//! Events and tables as Arrow: record batches that are made once and handed over without a copy.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ::trace::TraceError;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use event::{Batch, Capabilities, Event, FenceKind, FlushKind, Op, Sink, SinkError, ThreadId};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sweep::Data;

use crate::error::refused;

/// Operations, by the names that `strandline trace dump` has for them; the most frequent first. What is not listed is `other`.
const NAMES: [&str; 51] = [
    "load",
    "store",
    "ntstore",
    "clwb",
    "clflushopt",
    "clflush",
    "cldemote",
    "sfence",
    "mfence",
    "locked-fence",
    "acquire",
    "release",
    "lock",
    "lock-shared",
    "unlock",
    "spawn",
    "thread-start",
    "thread-end",
    "join",
    "alloc",
    "free",
    "map",
    "map-offset",
    "map-sync",
    "unmap",
    "region-begin",
    "region-end",
    "phase",
    "process",
    "strand-barrier",
    "strand-new",
    "strand-join",
    "file-write",
    "file-sync",
    "file-data-sync",
    "file-range-sync",
    "file-range-data-sync",
    "file-truncate",
    "file-create",
    "folder-create",
    "rename",
    "unlink",
    "link",
    "symlink",
    "exchange",
    "files-sync",
    "file-collapse",
    "file-insert",
    "prefetch",
    "context",
    "other",
];
/// Events of a record batch, about.
const ROWS: usize = 1 << 19;
/// Batches that wait to be taken.
const AHEAD: usize = 4;

/// Hands batches over by the PyCapsule interface.
pub fn capsule<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
}

/// The columns of events.
pub fn schema() -> SchemaRef {
    let op = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("thread", DataType::UInt32, false),
        Field::new("time_ns", DataType::UInt64, false),
        Field::new("op", op, false),
        Field::new("addr", DataType::UInt64, false),
        Field::new("len", DataType::UInt32, false),
        Field::new("site", DataType::UInt32, false),
        Field::new("instructions", DataType::UInt32, false),
    ]))
}

/// Columns under way, zero beyond `rows`.
struct Columns {
    rows: usize,
    thread: Vec<u32>,
    time: Vec<u64>,
    op: Vec<u8>,
    addr: Vec<u64>,
    len: Vec<u32>,
    site: Vec<u32>,
    instructions: Vec<u32>,
}

impl Columns {
    fn with_room(room: usize) -> Columns {
        // Pages of zeros, which cost nothing before they are written.
        Columns {
            rows: 0,
            thread: vec![0; room],
            time: vec![0; room],
            op: vec![0; room],
            addr: vec![0; room],
            len: vec![0; room],
            site: vec![0; room],
            instructions: vec![0; room],
        }
    }

    fn resize(&mut self, rows: usize) {
        self.op.resize(rows, 0);
        self.time.resize(rows, 0);
        self.addr.resize(rows, 0);
        for column in [&mut self.thread, &mut self.len, &mut self.site, &mut self.instructions] {
            column.resize(rows, 0);
        }
    }

    fn add(&mut self, thread: u32, time: u64, events: &[Event]) {
        let (at, end) = (self.rows, self.rows + events.len());
        if end > self.op.len() {
            self.resize(end.max(2 * at));
        }
        self.rows = end;
        self.part().split(at).1.add(thread, time, events);
    }

    /// All that there is room for.
    fn part(&mut self) -> Part<'_> {
        Part {
            thread: &mut self.thread,
            time: &mut self.time,
            op: &mut self.op,
            addr: &mut self.addr,
            len: &mut self.len,
            site: &mut self.site,
            instructions: &mut self.instructions,
        }
    }

    fn batch(mut self, schema: &SchemaRef, names: &ArrayRef) -> Result<RecordBatch, ArrowError> {
        self.resize(self.rows);
        let op = DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(self.op), Arc::clone(names))?;
        RecordBatch::try_new(
            Arc::clone(schema),
            vec![
                Arc::new(UInt32Array::from(self.thread)),
                Arc::new(UInt64Array::from(self.time)),
                Arc::new(op),
                Arc::new(UInt64Array::from(self.addr)),
                Arc::new(UInt32Array::from(self.len)),
                Arc::new(UInt32Array::from(self.site)),
                Arc::new(UInt32Array::from(self.instructions)),
            ],
        )
    }
}

/// Rows that are to be filled, from the first on.
struct Part<'a> {
    thread: &'a mut [u32],
    time: &'a mut [u64],
    op: &'a mut [u8],
    addr: &'a mut [u64],
    len: &'a mut [u32],
    site: &'a mut [u32],
    instructions: &'a mut [u32],
}

impl<'a> Part<'a> {
    /// The first rows, and the others.
    fn split(self, at: usize) -> (Part<'a>, Part<'a>) {
        let (thread, time) = (self.thread.split_at_mut(at), self.time.split_at_mut(at));
        let (op, addr, len) =
            (self.op.split_at_mut(at), self.addr.split_at_mut(at), self.len.split_at_mut(at));
        let (site, instructions) = (self.site.split_at_mut(at), self.instructions.split_at_mut(at));
        let part = |thread, time, op, addr, len, site, instructions| Part {
            thread,
            time,
            op,
            addr,
            len,
            site,
            instructions,
        };
        (
            part(thread.0, time.0, op.0, addr.0, len.0, site.0, instructions.0),
            part(thread.1, time.1, op.1, addr.1, len.1, site.1, instructions.1),
        )
    }

    /// Fills rows with a batch. With fences there are few events in each: what is done once per batch counts.
    fn add(&mut self, thread: u32, time: u64, events: &[Event]) {
        let rows = events.len();
        self.thread[..rows].fill(thread);
        self.time[..rows].fill(time);
        let places = self.op[..rows].iter_mut().zip(&mut self.addr[..rows]).zip(&mut self.len[..rows]);
        let places = places.zip(&mut self.site[..rows]).zip(&mut self.instructions[..rows]);
        for (((((op, addr), len), site), instructions), event) in places.zip(events) {
            (*op, *addr, *len) = coded(&event.op);
            (*site, *instructions) = (event.site.0, event.instructions);
        }
    }

    /// Fills all rows with a thread's events from this one on.
    fn fill(mut self, path: &Path, thread: ThreadId, from: u64) -> Result<(), TraceError> {
        let mut reader = ::trace::Reader::open(path)?;
        let mut batches = reader.thread(thread)?;
        batches.seek_event(from)?;
        while let Some(batch) = batches.next()? {
            let rows = batch.events.len().min(self.op.len());
            self.add(thread.0, batch.time_ns, &batch.events[..rows]);
            self = self.split(rows).1;
            if self.op.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// The name's number, address and bytes of an operation; what an operation lacks is 0.
#[inline]
fn coded(op: &Op) -> (u8, u64, u32) {
    match *op {
        Op::Load { addr, len } => (0, addr, len),
        Op::Store { addr, len } => (1, addr, len),
        Op::StoreNt { addr, len } => (2, addr, len),
        Op::Flush { addr, kind } => match kind {
            FlushKind::Clwb => (3, addr, 0),
            FlushKind::Clflushopt => (4, addr, 0),
            FlushKind::Clflush => (5, addr, 0),
        },
        Op::Demote { addr } => (6, addr, 0),
        Op::Fence(kind) => match kind {
            FenceKind::Store => (7, 0, 0),
            FenceKind::Full => (8, 0, 0),
            FenceKind::Locked => (9, 0, 0),
        },
        Op::Acquire { var, .. } => (10, var, 0),
        Op::Release { var, .. } => (11, var, 0),
        Op::Lock { lock, shared, .. } => (12 + u8::from(shared), lock, 0),
        Op::Unlock { lock, .. } => (14, lock, 0),
        Op::Free { addr } => (20, addr, 0),
        _ => others(op),
    }
}

#[cold]
fn others(op: &Op) -> (u8, u64, u32) {
    let words = session::dump::operation(op, &event::SiteTable::default());
    let name = words["op"].as_str().unwrap_or_default();
    let code = NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len() - 1);
    let len = words["len"].as_u64().unwrap_or(0);
    (
        u8::try_from(code).unwrap_or(u8::MAX),
        words["addr"].as_u64().unwrap_or(0),
        u32::try_from(len).unwrap_or(u32::MAX),
    )
}

/// Makes columns of the events that come.
struct Rows {
    columns: Columns,
    schema: SchemaRef,
    names: ArrayRef,
    out: SyncSender<Result<RecordBatch, ArrowError>>,
    thread: Option<u32>,
    /// Events of a record batch, about.
    rows: usize,
}

impl Rows {
    fn new(
        rows: usize,
        room: usize,
        thread: Option<u32>,
        out: SyncSender<Result<RecordBatch, ArrowError>>,
    ) -> Rows {
        let names = Arc::new(StringArray::from(NAMES.to_vec()));
        Rows { columns: Columns::with_room(room), schema: schema(), names, out, thread, rows }
    }

    fn send(&mut self) -> Result<(), SinkError> {
        let room = if self.rows == usize::MAX { 0 } else { self.columns.op.len() };
        let columns = std::mem::replace(&mut self.columns, Columns::with_room(room));
        let batch = columns.batch(&self.schema, &self.names);
        self.out.send(batch).map_err(|_| SinkError::Other("nobody reads on".to_owned()))
    }
}

impl Sink for Rows {
    fn name(&self) -> &'static str {
        "table"
    }
    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if self.thread.is_some_and(|wanted| wanted != batch.thread.0) {
            return Ok(());
        }
        self.columns.add(batch.thread.0, batch.time_ns, batch.events);
        if self.columns.rows >= self.rows { self.send() } else { Ok(()) }
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        if self.columns.rows == 0 { Ok(()) } else { self.send() }
    }
}

/// Batches that a thread decodes while they are read.
struct Decoding {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Iterator for Decoding {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Decoding {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The events of a trace, of all threads or one, in the trace's order.
pub fn events(path: &Path, thread: Option<u32>) -> PyResult<impl RecordBatchReader + Send + use<>> {
    let mut reader = ::trace::Reader::open(path).map_err(refused)?;
    let (out, batches) = sync_channel(AHEAD);
    let mut rows = Rows::new(ROWS, ROWS + (1 << 16), thread, out.clone());
    let schema = Arc::clone(&rows.schema);
    std::thread::Builder::new().name("strandline trace".to_owned()).spawn(move || {
        let replayed = catch_unwind(AssertUnwindSafe(|| reader.replay(&mut rows)));
        // Nobody reads on, or a corrupt file: then the reader has to know, which else took it for the end.
        let error = match replayed {
            Ok(Ok(())) => return,
            Ok(Err(error)) => ArrowError::ExternalError(Box::new(error)),
            Err(_) => ArrowError::ParseError("the trace can't be decoded".to_owned()),
        };
        let _ = out.send(Err(error));
    })?;
    Ok(Decoding { schema, batches })
}

/// The same in one batch, which pandas takes over without a copy.
pub fn whole(path: &Path, thread: Option<u32>) -> PyResult<Ready> {
    let mut reader = ::trace::Reader::open(path).map_err(refused)?;
    let wanted = |number: &u32| thread.is_none_or(|thread| thread == *number);
    let threads: Vec<_> = reader.threads().filter(|(number, _)| wanted(&number.0)).collect();
    let events: u64 = threads.iter().map(|(_, events)| events).sum();
    let room = usize::try_from(events).unwrap_or(0);
    if let [(thread, events)] = threads[..] {
        let names: ArrayRef = Arc::new(StringArray::from(NAMES.to_vec()));
        let columns = of_one_thread(path, thread, events).map_err(refused)?;
        let batch = columns.batch(&schema(), &names);
        return Ok(RecordBatchIterator::new(vec![batch], schema()));
    }
    let (out, batches) = sync_channel(1);
    let mut rows = Rows::new(usize::MAX, room, thread, out);
    let schema = Arc::clone(&rows.schema);
    reader.replay(&mut rows).map_err(refused)?;
    let batch = batches.try_recv().ok();
    Ok(RecordBatchIterator::new(batch.into_iter().collect::<Vec<_>>(), schema))
}

/// The events of one thread, which need not be merged: each core decodes some.
fn of_one_thread(path: &Path, thread: ThreadId, events: u64) -> Result<Columns, TraceError> {
    let rows = usize::try_from(events).unwrap_or(0);
    let mut columns = Columns::with_room(rows);
    columns.rows = rows;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.div_ceil(cores).max(ROWS);
    std::thread::scope(|scope| {
        let (mut rest, mut from, mut running) = (columns.part(), 0, Vec::new());
        while !rest.op.is_empty() {
            let size = share.min(rest.op.len());
            let (part, others) = rest.split(size);
            rest = others;
            running.push(scope.spawn(move || part.fill(path, thread, from)));
            from += size as u64;
        }
        // A panic goes on in the thread that waits, and Python raises it.
        let ended = running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Result<(), TraceError>>()
    })?;
    Ok(columns)
}

/// Batches that are there.
pub type Ready = RecordBatchIterator<Vec<Result<RecordBatch, ArrowError>>>;

/// A sweep's table.
pub fn table(table: &sweep::Table) -> PyResult<Ready> {
    let columns = table.columns.iter().map(|column| match &column.data {
        Data::Int(values) => (&column.name, Arc::new(Int64Array::from(values.clone())) as ArrayRef),
        Data::Float(values) => (&column.name, Arc::new(Float64Array::from(values.clone())) as ArrayRef),
        Data::Text(values) => (&column.name, Arc::new(StringArray::from(values.clone())) as ArrayRef),
    });
    one_batch(columns.map(|(name, array)| (name.as_str(), array)))
}

/// One batch of named columns.
pub fn one_batch<'a>(columns: impl Iterator<Item = (&'a str, ArrayRef)>) -> PyResult<Ready> {
    let columns: Vec<(&str, ArrayRef)> = columns.collect();
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(refused)?;
    Ok(RecordBatchIterator::new(vec![Ok(batch)], schema))
}
