//! What goes wrong.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a call was refused or failed. Nothing that was committed is lost by any of them.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The NVM is none of this library's.
    #[error(
        "NVM offset 0: this is no virtualised NVM (it begins with {found:#018x}); give the directory that nv_init made"
    )]
    NotOurs {
        /// The first word.
        found: u64,
    },
    /// A format that this library does not read.
    #[error(
        "NVM offset 8: format version {found}, this library reads version {known}; recover it with the version that wrote it"
    )]
    Version {
        /// What the header says.
        found: u64,
        /// What is known.
        known: u64,
    },
    /// Bytes are not as they were written.
    #[error(
        "NVM offset {offset:#x}: {what} is damaged (found {found:#x}); nothing was erased, restore the NVM from a copy or salvage its files yourself"
    )]
    Damaged {
        /// Where.
        offset: u64,
        /// What.
        what: &'static str,
        /// The value.
        found: u64,
    },
    /// The NVM is shorter than its header says.
    #[error("the NVM has {there} bytes and its header needs {needed}: the file was cut")]
    Cut {
        /// What the header needs.
        needed: u64,
        /// What there is.
        there: u64,
    },
    /// Sizes that no NVM can have.
    #[error("{what} of {given} is out of range: {range}")]
    Size {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// What is possible.
        range: &'static str,
    },
    /// A backing file is in use in a way that excludes this one.
    #[error("{} is mapped {how} by process {pid} already; free it there first, or allocate it shared in both", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u64,
        /// `private`, `shared` or `atomic`.
        how: &'static str,
    },
    /// A path that no record has room for.
    #[error("{}: a path has at most {max} bytes", .path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The most.
        max: usize,
    },
    /// No file record, process slot or the like is left.
    #[error("no more {what}: there are {max} and all are in use")]
    TooMany {
        /// What ran out.
        what: &'static str,
        /// How many there are.
        max: u64,
    },
    /// A write outside of what was allocated.
    #[error("{len} bytes at {address:#x} are not inside one allocated region")]
    Bounds {
        /// Where: an address, or an offset of a region.
        address: u64,
        /// How many.
        len: u64,
    },
    /// No such transaction.
    #[error("transaction {tid} is not open: it was never begun, or has ended")]
    NotOpen {
        /// Its number.
        tid: u64,
    },
    /// A transaction that the library ended.
    #[error("transaction {tid} was aborted: it was open for more than {seconds} s; begin it again, shorter")]
    Aborted {
        /// Its number.
        tid: u64,
        /// The limit.
        seconds: u64,
    },
    /// One transaction, several shared regions.
    #[error("transaction {tid} writes to {} already: all writes of a transaction go to private regions, or to one shared region", .path.display())]
    Mixed {
        /// Its number.
        tid: u64,
        /// Where its first write went.
        path: PathBuf,
    },
    /// The mode of the region has no such call.
    #[error("{}: {what}", .path.display())]
    Mode {
        /// The region's file.
        path: PathBuf,
        /// What to do instead.
        what: &'static str,
    },
    /// The log can't take so much at once.
    #[error(
        "the log is full: {needed} bytes do not fit into this process's share of {share}; make the log larger, or sync more often"
    )]
    LogFull {
        /// Bytes to be logged.
        needed: u64,
        /// Bytes of the share.
        share: u64,
    },
    /// The backing store refused.
    #[error("can't {action} {}: {source}; nothing is lost, the data stay in NVM: {remedy}", .path.display())]
    Backing {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What helps.
        remedy: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Regions, open transactions or other processes are in the way.
    #[error("{what}")]
    Busy {
        /// What is in the way and what to do.
        what: &'static str,
    },
    /// The NVM itself can't be had.
    #[error(transparent)]
    Map(#[from] pmem::MapError),
    /// A file of the NVM's directory can't be used.
    #[error("can't {action} {}: {source}", .path.display())]
    Directory {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The memory is neither persistent nor in memory.
    #[error("{}: flushed data do not reach this disk; put the directory on a DAX file system or on tmpfs, or assert that it is persistent (force)", .path.display())]
    NotPersistent {
        /// The NVM.
        path: PathBuf,
    },
    /// The process was forked.
    #[error("this process is a child of the one that called init; call init here first")]
    Forked,
}

/// The result of most calls.
pub type Result<T> = std::result::Result<T, Error>;
