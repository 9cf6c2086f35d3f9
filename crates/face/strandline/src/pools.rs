//! `strandline pool`: look into pools, check them, bring them into order.

use std::fs::{File, metadata};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use persistency::Domain;
use pmem::{MapError, Mapped, Os};
use region::{Atomicity, Header, Inspection, Unprotected, inspect, unreached};
use report::human;
use serde_json::{Value, json};
use space::{Env, Image, Space};

use crate::say;

/// What `strandline pool` does.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// What a pool is, what of it is used or seems leaked, and what a crash left in its logs
    #[command(after_help = "Example:\n  strandline pool info /mnt/pmem/books")]
    Info {
        /// The pool's file
        file: PathBuf,
        /// Print JSON (docs/pool-json.md says what is in it)
        #[arg(long)]
        json: bool,
    },
    /// Is it whole? Writes nothing; exit status 1 if it is damaged
    #[command(
        after_help = "Blocks are reported as possibly leaked if no aligned word in the root object, or in a block that is reached from it, looks like a \
                      pointer to them or into them: lower 48 bits an offset, upper 16 the pool's mark or zeros. A number that looks like one hides a \
                      leak. This changes no exit status.\n\nExample:\n  strandline pool check /mnt/pmem/books\n  \
                      strandline pool check --json /mnt/pmem/books | jq .whole"
    )]
    Check {
        /// The pool's file
        file: PathBuf,
        /// Print JSON (docs/pool-json.md says what is in it)
        #[arg(long)]
        json: bool,
    },
    /// List all blocks: offset and bytes
    #[command(after_help = "Example:\n  strandline pool dump /mnt/pmem/books | sort -k2n | tail")]
    Dump {
        /// The pool's file
        file: PathBuf,
    },
    /// Do what opening the pool would do after a crash; says first what that is
    #[command(
        after_help = "Examples:\n  strandline pool recover --dry-run /mnt/pmem/books\n  strandline pool recover /mnt/pmem/books"
    )]
    Recover {
        /// The pool's file
        file: PathBuf,
        /// Only say it
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the verb; whether a pool was found to be whole.
pub fn run(command: &PoolCommand) -> anyhow::Result<bool> {
    match command {
        PoolCommand::Info { file, json } => {
            let found = open(file)?;
            let text = if *json { json_text(file, Ok(&found)) } else { info(file, &found) };
            say(&text)?;
        }
        PoolCommand::Check { file, json } => return check(file, *json),
        PoolCommand::Dump { file } => {
            let lines = open(file)?.inspection.blocks;
            let lines = lines.iter().map(|(offset, bytes)| format!("{offset:#x} {bytes}\n"));
            say(&lines.collect::<String>())?;
        }
        PoolCommand::Recover { file, dry_run } => {
            let found = open(file)?;
            say(&format!("{}: {}\n", file.display(), pending(&found.inspection)))?;
            if !dry_run {
                let memory = pmem::Synced::new(Mapped::open(file)?);
                memory.confirm()?;
                let env = Os::new(memory);
                inspect(&env).with_context(|| format!("can't recover {}", file.display()))?;
                say("done\n")?;
            }
        }
    }
    Ok(true)
}

/// Tells whether the pool is whole.
fn check(file: &Path, json: bool) -> anyhow::Result<bool> {
    let (whole, text) = match look(file) {
        Ok(found) => {
            let text = if json {
                json_text(file, Ok(&found))
            } else {
                checked(file, &found.inspection, &found.lost)
            };
            (found.inspection.damaged_copies.is_empty(), text)
        }
        Err(error) if error.is::<region::Error>() => {
            let error = error.to_string();
            (
                false,
                if json { json_text(file, Err(&error)) } else { format!("{}: {error}\n", file.display()) },
            )
        }
        Err(error) if matches!(error.downcast_ref(), Some(MapError::Length { .. })) => {
            let error = error.to_string();
            (false, if json { json_text(file, Err(&error)) } else { format!("{error}\n") })
        }
        Err(error) => return Err(error),
    };
    say(&text)?;
    Ok(whole)
}

/// What is said of a pool that can be opened.
fn checked(file: &Path, found: &Inspection, lost: &[(u64, u64)]) -> String {
    if found.damaged_copies.is_empty() {
        return format!("{}: whole; {}; {}\n", file.display(), pending(found), leaks(lost));
    }
    let at = found.damaged_copies.iter().map(|at| format!("{at:#x}")).collect::<Vec<_>>().join(", ");
    format!(
        "{}: the header's copy at offset {at} is damaged, the other one is whole; opening or `strandline pool recover` makes it anew\n",
        file.display()
    )
}

/// What there is to know of a pool.
struct Found {
    inspection: Inspection,
    /// The blocks that nothing in it seems to lead to.
    lost: Vec<(u64, u64)>,
    /// What becomes of what is flushed in the file by whoever opens it to write.
    durability: Domain,
}

/// As `look`, with the file in each error.
fn open(file: &Path) -> anyhow::Result<Found> {
    look(file).map_err(|error| match error.downcast::<region::Error>() {
        Ok(error) => anyhow!("{}: {error}", file.display()),
        Err(other) => other,
    })
}

/// Bytes of a file with both copies of a pool's header.
const BEGINNING: u64 = 8192;

/// Looks at the file in a mapping of our own, in which recovery is tried: only what it writes is copied, and
/// the file is only read.
fn look(file: &Path) -> anyhow::Result<Found> {
    if !file.exists() {
        let name = file.display();
        bail!(
            "there is no file {name}: check its name; a program makes a pool with sl_pool_create or pool::create"
        );
    }
    if metadata(file).is_ok_and(|found| found.file_type().is_char_device()) {
        return look_at_device(file);
    }
    let length = match Mapped::open_private(file) {
        Ok(memory) => {
            let durability = memory.durability_of_file();
            return Ok(found(&Os::new(memory), durability)?);
        }
        Err(error @ MapError::Length { .. }) => error,
        Err(error) => return Err(error.into()),
    };
    // No pool has such a length; its beginning shows what it is instead. The rest may be more than memory
    // holds.
    let mut beginning = Vec::new();
    let read = File::open(file).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    read.with_context(|| format!("can't read {}", file.display()))?;
    if let MapError::Length { bytes, .. } = length
        && let Some(cut) = Header::cut(&beginning, bytes)
    {
        return Err(cut.into());
    }
    beginning.truncate(beginning.len() / 8 * 8);
    match Header::read(&Image::from_bytes(&beginning)) {
        // There is something behind a pool.
        Ok(_) | Err(region::Error::Short { .. }) => Err(length.into()),
        Err(error) => Err(error.into()),
    }
}

/// Looks at a whole DAX device, of which no process has a mapping of its own: at a copy of as much as the
/// pool has.
fn look_at_device(device: &Path) -> anyhow::Result<Found> {
    let memory = Mapped::open_read_only(device)?;
    let bytes = Header::read(&memory)?.bytes;
    let copy = Mapped::anonymous(bytes)?;
    let mut piece = vec![0; 1 << 20];
    for at in (0..bytes).step_by(piece.len()) {
        let count = (bytes - at).min(piece.len() as u64) as usize;
        memory.load(at, &mut piece[..count]);
        copy.store(at, &piece[..count]);
    }
    Ok(found(&Os::new(copy), memory.durability_of_file())?)
}

fn found(env: &impl Env, durability: Domain) -> Result<Found, region::Error> {
    let inspection = inspect(env)?;
    let lost = unreached(env, &inspection);
    Ok(Found { inspection, lost, durability })
}

/// What becomes of what regions write to this file.
fn survives(durability: Domain) -> &'static str {
    match durability {
        Domain::Dax => "flushes reach the persistent device: a region that ended survives power loss",
        Domain::Sync => {
            "an ordinary file: each region waits for a sync, and survives power loss from then on"
        }
        Domain::Volatile => {
            "the file is in memory: a region that ended survives the process, but not power loss or a restart"
        }
        Domain::Adr => "what was flushed survives power loss",
        Domain::Eadr => "what was stored survives power loss",
        Domain::Fabric | Domain::Remote => "what the device acknowledged survives power loss here",
    }
}

/// Leaks that are listed by their offsets.
const LEAKS_SHOWN: usize = 8;

/// What seems to be leaked.
fn leaks(lost: &[(u64, u64)]) -> String {
    if lost.is_empty() {
        return "a word leads to each block".to_owned();
    }
    let mut places: Vec<String> = lost.iter().take(LEAKS_SHOWN).map(|(at, _)| format!("{at:#x}")).collect();
    if lost.len() > LEAKS_SHOWN {
        places.push("...".to_owned());
    }
    let bytes = human::bytes(lost.iter().map(|(_, bytes)| bytes).sum());
    let (what, leads) = match lost.len() {
        1 => ("1 block".to_owned(), "it"),
        count => (format!("{count} blocks"), "them"),
    };
    format!(
        "possibly leaked: {what} of {bytes}, as no word that can be reached leads to {leads}: {}",
        places.join(", ")
    )
}

/// What recovery has to do.
fn pending(found: &Inspection) -> String {
    let recovered = &found.recovered;
    // It keeps nothing to recover by.
    let unprotected = found.engine == <Unprotected as Atomicity>::NAME;
    let torn = "with engine none, regions that a crash tore stay torn and are not found";
    if recovered.was_clean() && found.damaged_copies.is_empty() {
        return format!(
            "nothing to recover{}",
            if unprotected { format!(": {torn}") } else { String::new() }
        );
    }
    let mut parts = vec![if unprotected {
        torn.to_owned()
    } else {
        format!("recovery does {} ended regions again", recovered.replayed)
    }];
    if recovered.undone > 0 {
        parts.push(format!("takes {} unfinished ones back", recovered.undone));
    }
    if recovered.moved_lines > 0 {
        parts.push(format!("brings {} lines home from spare pages", recovered.moved_lines));
    }
    if recovered.torn_lines > 0 {
        parts.push(format!("drops {} half-written lines of logs", recovered.torn_lines));
    }
    if !found.damaged_copies.is_empty() {
        parts.push("makes a damaged copy of the header anew".to_owned());
    }
    parts.join(", ")
}

fn info(file: &Path, found: &Found) -> String {
    let Found { inspection: found, lost, durability } = found;
    let (header, usage) = (&found.header, &found.usage);
    let mut text = format!(
        "{}: a pool of layout {:?}, {}, engine {}, format {}\n",
        file.display(),
        header.layout,
        human::bytes(header.bytes),
        found.engine,
        region::VERSION
    );
    text += &format!("  number      {:#018x}, header written {} times\n", header.pool, header.generation);
    text += &format!(
        "  logs        {} of {}; {}\n",
        header.geometry.logs,
        human::bytes(u64::from(header.geometry.log_bytes)),
        pending(found)
    );
    text += &format!("  durability  {}: {}\n", durability.name(), survives(*durability));
    text += &format!("  root        at {:#x}\n", found.root);
    text += &format!(
        "  heap        {} in {} blocks of {}; free chunks {}, the longest piece {}\n",
        human::bytes(usage.taken),
        usage.blocks,
        human::bytes(usage.heap),
        human::bytes(usage.free_chunks),
        human::bytes(usage.longest_free)
    );
    text += &format!("  leaks       {}\n", leaks(lost));
    text += &format!("  slabs       {:.1} % of their bytes are free\n", 100.0 * usage.fragmentation());
    for (size, (slabs, taken, blocks)) in &usage.slabs {
        let chunk = u64::from(header.geometry.chunk_bytes);
        let needed = taken.div_ceil((blocks / slabs).max(1));
        text += &format!("    {:>9}  {slabs} slabs, {taken} of {blocks} blocks taken", human::bytes(*size));
        if needed < *slabs {
            text += &format!("; moved together they would free {}", human::bytes((slabs - needed) * chunk));
        }
        text += "\n";
    }
    text
}

/// What `docs/pool-json.md` describes: of a pool that can't be opened, why.
fn json_text(file: &Path, found: Result<&Found, &str>) -> String {
    let whole = found.is_ok_and(|found| found.inspection.damaged_copies.is_empty());
    let error = found.err();
    let mut value = json!({"schema": "strandline-pool-1", "file": file.display().to_string(), "whole": whole, "error": error});
    if let (Ok(found), Value::Object(fields)) = (found, &mut value)
        && let Value::Object(more) = to_json(found)
    {
        fields.extend(more);
    }
    format!("{value:#}\n")
}

fn to_json(found: &Found) -> Value {
    let Found { inspection: found, lost, durability } = found;
    let (header, usage, recovered) = (&found.header, &found.usage, &found.recovered);
    json!({
        "layout": header.layout, "bytes": header.bytes, "engine": found.engine, "format": region::VERSION,
        "durability": durability.name(), "pool": header.pool, "generation": header.generation, "root": found.root,
        "logs": header.geometry.logs, "log_bytes": header.geometry.log_bytes, "chunk_bytes": header.geometry.chunk_bytes,
        "recovery": {
            "regions_done_again": recovered.replayed, "regions_taken_back": recovered.undone,
            "torn_lines": recovered.torn_lines, "moved_lines": recovered.moved_lines, "damaged_header_copies": found.damaged_copies,
        },
        "heap": {
            "bytes": usage.heap, "taken_bytes": usage.taken, "blocks": usage.blocks, "free_chunk_bytes": usage.free_chunks,
            "longest_free_bytes": usage.longest_free, "fragmentation": usage.fragmentation(),
            "slabs": usage.slabs.iter().map(|(size, (slabs, taken, blocks))| {
                json!({"block_bytes": size, "slabs": slabs, "taken": taken, "blocks": blocks})
            }).collect::<Vec<_>>(),
        },
        "possibly_leaked": lost.iter().map(|(offset, bytes)| json!({"offset": offset, "bytes": bytes})).collect::<Vec<_>>(),
    })
}
