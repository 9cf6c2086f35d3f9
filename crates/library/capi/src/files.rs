//! Files as pools.

use std::fs;
use std::io::Read;
use std::path::Path;

use pmem::{MapError, Os, Synced};
use region::{Header, Recovered};
use space::Space;

use crate::engines::{ENGINES, Engine, OpenPool};
use crate::error::{Code, Failure};
use observed::Observed;

/// Bytes at the beginning of a new pool that are made present at once: the first sync of blocks that were
/// only reserved costs a journal's commit.
const PREPARED: u64 = 4 << 20;

/// Bytes of a file with both copies of a pool's header.
const BEGINNING: u64 = 8192;

/// How to open a pool, of `struct sl_pool_options`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How<'a> {
    /// The engine's name; none: the usual one, or the one that the pool has.
    pub(crate) engine: Option<&'a str>,
    /// Whether the memory is taken for persistent.
    pub(crate) force: bool,
    /// Whether the file grows when there is no room.
    pub(crate) grows: bool,
    /// Whether it is opened to look only.
    pub(crate) read_only: bool,
}

fn named(name: &str) -> Result<&'static Engine, Failure> {
    ENGINES.iter().find(|engine| engine.name == name).ok_or_else(|| {
        let names: Vec<_> = ENGINES.iter().map(|engine| engine.name).collect();
        Failure::new(Code::Argument, format!("there is no engine {name:?}; there are {}", names.join(", ")))
    })
}

/// Makes a file with a pool of so many bytes, or a pool at the beginning of a whole DAX device. If that
/// fails, no file is left.
pub(crate) fn create(
    path: &Path,
    layout: &str,
    bytes: u64,
    root_bytes: u64,
    how: How<'_>,
    site: u64,
) -> Result<Box<dyn OpenPool>, Failure> {
    if how.read_only {
        return Err(Failure::new(Code::Argument, "a new pool can't be made to read only").of_file(path));
    }
    let engine = named(how.engine.unwrap_or(ENGINES[0].name))?;
    let memory = Synced::new(pmem::Options::new().force(how.force).create_or_take(path, bytes)?);
    let made = prepared(memory, path, site).and_then(|memory| {
        let made = (engine.create)(Box::new(Os::new(memory)), layout, bytes, root_bytes, how.grows);
        made.map_err(|error| Failure::from(error).of_file(path))
    });
    if made.is_err() && path.is_file() {
        // The first error is the one to tell; what can't be removed is a file of zeros.
        _ = fs::remove_file(path);
    }
    made
}

fn prepared(memory: Synced, path: &Path, site: u64) -> Result<Observed, Failure> {
    memory.prefault(0, memory.len().min(PREPARED))?;
    Ok(Observed::new(memory, path, true, site))
}

/// Opens the pool in a file, after recovery if that is needed.
pub(crate) fn open(
    path: &Path,
    layout: &str,
    how: How<'_>,
    site: u64,
) -> Result<(Box<dyn OpenPool>, Recovered), Failure> {
    let of_file = |error: region::Error| Failure::from(error).of_file(path);
    let wanted = how.engine.map(named).transpose()?;
    let options = pmem::Options::new().force(how.force);
    let opened = if how.read_only { options.open_private(path) } else { options.open(path) };
    let memory = opened.map_err(|error| match error {
        MapError::Length { bytes, .. } => match cut(path, bytes) {
            Some(cut) => of_file(cut),
            None => Failure { code: Code::NoPool, ..Failure::from(error) },
        },
        other => Failure::from(other),
    })?;
    let header = Header::read(&memory).map_err(of_file)?;
    let engine = ENGINES.iter().find(|engine| engine.number == header.engine);
    let unknown = || of_file(region::Error::UnknownEngine { offset: 12, number: header.engine });
    let engine = wanted.or(engine).ok_or_else(unknown)?;
    let memory = Synced::new(memory);
    if how.read_only {
        let memory = Observed::to_read(memory, path, site);
        return (engine.open_read_only)(Box::new(Os::new(memory)), layout).map_err(of_file);
    }
    memory.confirm()?;
    let memory = Observed::new(memory, path, false, site);
    (engine.open)(Box::new(Os::new(memory)), layout, how.grows).map_err(of_file)
}

/// That a pool's file of so many bytes was cut, if so.
fn cut(path: &Path, bytes: u64) -> Option<region::Error> {
    let mut beginning = Vec::new();
    fs::File::open(path).ok()?.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    Header::cut(&beginning, bytes)
}
