//! `strandline vnvm`: look into virtualised NVM, check it, recover it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use report::human;
use serde_json::{Value, json};
use vnvm::{Error, Info, Recovered, inspect_directory, recover_directory};

use crate::say;

/// What `strandline vnvm` does.
#[derive(Debug, Subcommand)]
pub enum VnvmCommand {
    /// What is in the NVM: sizes, files, processes, and what has not reached its file yet
    #[command(after_help = "Example:\n  strandline vnvm info /mnt/pmem/vnvm")]
    Info(Directory),
    /// Is it whole? Reads all that recovery would read and writes nothing; exit status 1 if it is damaged
    #[command(
        after_help = "Cached pages carry no check of their own: damage in their bytes is not found. While processes use the NVM, what they change at the moment \
                      may look damaged.\n\nExample:\n  strandline vnvm check /mnt/pmem/vnvm\n  strandline vnvm check --json /mnt/pmem/vnvm | jq .whole"
    )]
    Check(Directory),
    /// Bring what was committed to its files after a crash, and remove the NVM
    ///
    /// Only when no process uses it. It can be repeated after any crash or error.
    #[command(after_help = "Example:\n  strandline vnvm recover /mnt/pmem/vnvm")]
    Recover {
        /// Where it is
        #[command(flatten)]
        directory: Directory,
        /// The NVM is persistent although the system does not say so
        #[arg(long)]
        force: bool,
    },
}

/// Which NVM, and how to report.
#[derive(Debug, Args)]
pub struct Directory {
    /// The NVM's directory, as nv_init has it
    dir: PathBuf,
    /// Print JSON (docs/vnvm.md says what is in it)
    #[arg(long)]
    json: bool,
}

/// Runs the verb; whether the NVM was found to be whole.
pub fn run(command: &VnvmCommand) -> anyhow::Result<bool> {
    match command {
        VnvmCommand::Info(directory) => {
            let (info, live) = inspect(&directory.dir)?;
            say(&text(directory, &Ok((info, live))))?;
            Ok(true)
        }
        VnvmCommand::Check(directory) => {
            let found = inspect_directory(&directory.dir);
            let found = match found {
                Err(error @ (Error::Damaged { .. } | Error::NotOurs { .. } | Error::Cut { .. })) => {
                    Err(error.to_string())
                }
                other => Ok(other.with_context(|| directory.dir.display().to_string())?),
            };
            say(&text(directory, &found))?;
            Ok(found.is_ok())
        }
        VnvmCommand::Recover { directory, force } => {
            let path = &directory.dir;
            let done = recover_directory(path, *force).with_context(|| path.display().to_string())?;
            say(&recovered(directory, done))?;
            Ok(true)
        }
    }
}

fn inspect(path: &Path) -> anyhow::Result<(Option<Info>, u64)> {
    inspect_directory(path).with_context(|| path.display().to_string())
}

fn recovered(directory: &Directory, done: Recovered) -> String {
    let Recovered { pages, transactions, files, found } = done;
    if directory.json {
        let value = json!({
            "schema": 1,
            "recovered": found,
            "pages": pages,
            "transactions": transactions,
            "files": files,
        });
        return format!("{value}\n");
    }
    if !found {
        return format!("{}: nothing to recover\n", directory.dir.display());
    }
    format!(
        "{}: {pages} cache pages and {transactions} transactions are in {files} files; the NVM is removed\n",
        directory.dir.display()
    )
}

type Found = Result<(Option<Info>, u64), String>;

fn text(directory: &Directory, found: &Found) -> String {
    if directory.json {
        return format!("{}\n", value(found));
    }
    let name = directory.dir.display();
    match found {
        Err(damage) => format!("{name}: damaged: {damage}\n"),
        Ok((None, _)) => format!("{name}: empty\n"),
        Ok((Some(info), live)) => format!("{name}: whole, {live} living processes\n{}", lines(info)),
    }
}

fn lines(info: &Info) -> String {
    let sizes = info.sizes;
    let bytes = |pages: u64, page: u64| human::bytes(pages * page);
    let mut text = format!(
        "log    {} of {} in use\ncache  {}: {} dirty, {} clean, {} free; pages of {}\n",
        bytes(info.log_used, sizes.log_page),
        bytes(u64::from(sizes.log_pages), sizes.log_page),
        bytes(u64::from(sizes.cache_pages), sizes.cache_page),
        bytes(info.dirty, sizes.cache_page),
        bytes(info.clean, sizes.cache_page),
        bytes(info.free, sizes.cache_page),
        human::bytes(sizes.cache_page),
    );
    for file in &info.files {
        text.push_str(&format!(
            "file   {} {}, {}, {} dirty pages, processes {:?}\n",
            file.path.display(),
            file.mode.name(),
            human::bytes(file.bytes),
            file.dirty,
            file.users,
        ));
    }
    for list in &info.lists {
        let whose = match (list.slot, list.file) {
            (Some(slot), _) => format!("process {slot} (pid {})", list.pid),
            (None, file) => format!("shared region {}", file.unwrap_or_default()),
        };
        let (transactions, pages) = (list.transactions, list.pages);
        text.push_str(&format!("list   {whose}: {transactions} committed transactions, {pages} log pages\n"));
    }
    text
}

fn value(found: &Found) -> Value {
    let (info, live) = match found {
        Err(damage) => return json!({ "schema": 1, "whole": false, "damage": damage }),
        Ok((None, _)) => return json!({ "schema": 1, "whole": true, "empty": true }),
        Ok((Some(info), live)) => (info, live),
    };
    let sizes = info.sizes;
    let file = |file: &vnvm::FileInfo| {
        json!({
            "file": file.file,
            "path": file.path,
            "mode": file.mode.name(),
            "bytes": file.bytes,
            "processes": file.users,
            "dirty_pages": file.dirty,
        })
    };
    let list = |list: &vnvm::ListInfo| {
        json!({
            "process": list.slot,
            "pid": list.pid,
            "file": list.file,
            "transactions": list.transactions,
            "log_pages": list.pages,
        })
    };
    json!({
        "schema": 1,
        "whole": true,
        "empty": false,
        "living": live,
        "log": { "page_bytes": sizes.log_page, "pages": sizes.log_pages, "used": info.log_used },
        "cache": {
            "page_bytes": sizes.cache_page,
            "pages": sizes.cache_pages,
            "dirty": info.dirty,
            "clean": info.clean,
            "free": info.free,
        },
        "files": info.files.iter().map(file).collect::<Vec<_>>(),
        "lists": info.lists.iter().map(list).collect::<Vec<_>>(),
    })
}
