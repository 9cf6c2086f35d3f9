//! `strandline trace`: look into trace files, and make them from other tools' output.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use event::{Capabilities, Counts, InstructionCounts, Source, Tee, ThreadId};
use report::human;
use serde_json::{Value, json};
use trace::{Compression, Info, Reader};

use crate::cli::TraceCommand;
use crate::progress::terminal;
use crate::{quiet_if_closed, say};
use session::{TraceFile, Watched};

/// Threads that `info` lists as text.
const THREADS_LISTED: usize = 16;

/// Runs the verb.
pub fn run(command: TraceCommand) -> anyhow::Result<()> {
    match command {
        TraceCommand::Info { file, json } => info(&file, json),
        TraceCommand::Dump { file, thread, from, limit, json } => {
            dump(&file, thread, from, limit.unwrap_or(u64::MAX), json)
        }
        TraceCommand::Import { file, format, output, json } => import(&file, format, &output, json),
    }
}

fn info(file: &Path, json: bool) -> anyhow::Result<()> {
    let mut reader = Reader::open(file)?;
    let mut counts = Counts::default();
    reader.replay(&mut Watched::new("reading", terminal(), &mut counts))?;
    let info = reader.info();
    let threads: Vec<(ThreadId, u64)> = reader.threads().collect();
    let text = if json {
        format!("{:#}\n", info_json(&info, &threads, &counts, &reader.header().source)?)
    } else {
        info_text(file, &info, &threads, &counts, &reader.header().source)
    };
    say(&text)
}

fn info_json(
    info: &Info,
    threads: &[(ThreadId, u64)],
    counts: &Counts,
    source: &Source,
) -> anyhow::Result<Value> {
    let mut answer = serde_json::to_value(counts)?;
    let head = json!({
        "bytes": info.bytes, "blocks": info.blocks, "threads": info.threads, "sites": info.sites,
        "events_by_thread": threads.iter().map(|(id, events)| json!({"thread": id.0, "events": events})).collect::<Vec<_>>(),
        "duration_ns": info.duration_ns,
        "truncated": info.truncated.map(|t| json!({"offset": t.offset, "lost_bytes": t.lost_bytes})),
        "producer": source.producer, "command": source.command,
        "capabilities": source.capabilities.iter_names().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>(),
        "instruction_counts": source.instructions,
        "sampling": source.sampling,
    });
    if let (Value::Object(answer), Value::Object(head)) = (&mut answer, head) {
        answer.extend(head);
    }
    Ok(answer)
}

fn info_text(
    file: &Path,
    info: &Info,
    threads: &[(ThreadId, u64)],
    counts: &Counts,
    source: &Source,
) -> String {
    let instructions = match source.instructions {
        InstructionCounts::Unknown => "not known",
        InstructionCounts::Estimated => "estimated",
        InstructionCounts::Exact => "counted",
    };
    let sampling = match source.sampling {
        Some(s) => format!("{} of every {} pieces", s.recorded, s.period),
        None => "all".to_owned(),
    };
    let mut rows = vec![
        ("file", format!("{} ({})", file.display(), human::bytes(info.bytes))),
        ("made by", source.producer.clone()),
        ("command", human::shell(&source.command)),
        ("sees", source.capabilities.words().to_lowercase()),
        ("instructions", format!("{instructions}; {}", human::grouped(counts.instructions))),
        ("recorded", sampling),
        ("events", format!("{} in {} blocks", human::grouped(counts.events), human::grouped(info.blocks))),
        ("threads", threads_text(threads)),
        ("code sites", human::grouped(info.sites)),
        ("loads", format!("{} ({})", human::grouped(counts.loads), human::bytes(counts.load_bytes))),
        ("stores", format!("{} ({})", human::grouped(counts.stores), human::bytes(counts.store_bytes))),
        ("nt stores", format!("{} ({})", human::grouped(counts.nt_stores), human::bytes(counts.nt_bytes))),
        ("flushes", human::grouped(counts.flushes)),
        ("demotions", human::grouped(counts.demotes)),
        ("fences", human::grouped(counts.fences)),
        ("synchronisation", human::grouped(counts.syncs)),
        ("allocations", format!("{}, {} freed", human::grouped(counts.allocs), human::grouped(counts.frees))),
    ];
    if counts.file_writes + counts.file_syncs + counts.file_changes > 0 {
        let text = format!(
            "{} writes ({}), {} syncs, {} other changes",
            human::grouped(counts.file_writes),
            human::bytes(counts.file_write_bytes),
            human::grouped(counts.file_syncs),
            human::grouped(counts.file_changes)
        );
        rows.push(("files", text));
    }
    if counts.strand_marks > 0 {
        rows.push(("strand marks", human::grouped(counts.strand_marks)));
    }
    if let Some(cut) = info.truncated {
        let text = format!(
            "the writer was killed or its disk was full: the trace ends at offset {}, {} after it were lost",
            cut.offset,
            human::bytes(cut.lost_bytes)
        );
        rows.insert(1, ("truncated", text));
    }
    rows.iter().map(|(name, text)| format!("{name:<16}{text}\n")).collect()
}

/// How many threads there are, and the first of them with their events: `2: T0 5,000, T1 12`.
fn threads_text(threads: &[(ThreadId, u64)]) -> String {
    let listed = threads.iter().take(THREADS_LISTED);
    let mut words: Vec<String> =
        listed.map(|(id, events)| format!("T{} {}", id.0, human::grouped(*events))).collect();
    if threads.len() > THREADS_LISTED {
        words.push("... (all with --json)".to_owned());
    }
    format!("{}: {}", threads.len(), words.join(", "))
}

fn dump(file: &Path, thread: Option<u32>, from: u64, limit: u64, json: bool) -> anyhow::Result<()> {
    let mut reader = Reader::open(file)?;
    let of_thread = |(id, _): &(ThreadId, u64)| thread.is_none_or(|number| id.0 == number);
    let events: u64 = reader.threads().filter(of_thread).map(|(_, events)| events).sum();
    if from > 0 && from >= events {
        let whose = thread.map_or_else(|| "the trace".to_owned(), |number| format!("thread {number}"));
        let events = human::grouped(events);
        crate::warn(&format!("--from {from} is beyond the end: {whose} has {events} events, counted from 0"));
    }
    let table = reader.table().clone();
    let out = BufWriter::new(std::io::stdout().lock());
    let values = json && reader.header().source.capabilities.contains(Capabilities::VALUES);
    let mut printer = Printer { out, at: 0, from, left: limit, json, values };
    if let Some(number) = thread {
        let mut batches = reader.thread(ThreadId(number))?;
        batches.seek_event(from)?;
        printer.at = from;
        while printer.left > 0
            && let Some(batch) = batches.next()?
        {
            if !printer.batch(&batch, &table)? {
                return Ok(());
            }
        }
    } else {
        let mut batches = reader.batches();
        while printer.left > 0
            && let Some(batch) = batches.next()?
        {
            if !printer.batch(&batch, &table)? {
                return Ok(());
            }
        }
    }
    quiet_if_closed(printer.out.flush())?;
    // Whoever asked for fewer events has got what is there.
    if printer.left > 0
        && let Some(warning) = session::cut_short(&reader.info())
    {
        crate::warn(&warning);
    }
    Ok(())
}

/// Prints the events of a window.
struct Printer<W> {
    out: W,
    at: u64,
    from: u64,
    left: u64,
    json: bool,
    /// The trace keeps the stores' bytes, and they are printed.
    values: bool,
}

impl<W: Write> Printer<W> {
    /// Prints what of a batch lies in the window; `false` once nobody reads any more.
    fn batch(&mut self, batch: &event::Batch<'_>, table: &event::SiteTable) -> anyhow::Result<bool> {
        let mut values = batch.values;
        for event in batch.events {
            let stored = event.op.value_len().filter(|_| self.values);
            let value = stored.and_then(|len| values.split_off(..len as usize));
            if self.at >= self.from && self.left > 0 {
                self.left -= 1;
                let (out, thread) = (&mut self.out, batch.thread);
                let printed = if self.json {
                    session::dump::json_line(out, self.at, thread, event, value, table)
                } else {
                    session::dump::text_line(out, thread, event, table)
                };
                match printed {
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(false),
                    other => other.context("standard output")?,
                }
            }
            self.at += 1;
        }
        Ok(true)
    }
}

fn import(file: &Path, format: Option<foreign::Format>, output: &Path, json: bool) -> anyhow::Result<()> {
    let standard = file == Path::new("-");
    let name = if standard { "standard input".to_owned() } else { file.display().to_string() };
    let input: Box<dyn Read> = if standard {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(file).with_context(|| format!("can't read {name}"))?)
    };
    if let (Ok(from), Ok(to)) = (std::fs::canonicalize(file), std::fs::canonicalize(output))
        && from == to
    {
        bail!("{name} is both the input and the trace to write; give another name to -o");
    }
    let mut counts = Counts::default();
    let mut trace = TraceFile::open(output, Compression::Fast)?;
    if json {
        trace.refuse_standard_streams()?;
    }
    let mut writer = Watched::new("importing", terminal(), &mut trace);
    let input = BufReader::with_capacity(1 << 20, input);
    let imported = foreign::import(input, &name, format, &mut Tee(&mut writer, &mut counts));
    drop(writer);
    if counts.events == 0 {
        trace.abandon();
        let imported = imported?;
        bail!("{name} holds no memory access; it was read as {}", imported.format.what());
    }
    let imported = imported?;
    if imported.format != foreign::Format::Lackey {
        crate::warn(&format!("{name} is {}, which sees {}", imported.format.what(), imported.format.blind()));
    }
    if json {
        let answer = json!({
            "file": output, "bytes": trace.bytes(), "events": imported.events,
            "instructions": imported.instructions, "lines": imported.lines, "cut_line": imported.cut_line,
            "format": imported.format.name(), "threads": imported.threads, "cannot_see": imported.format.blind(),
        });
        say(&format!("{answer:#}\n"))?;
    }
    Ok(())
}
