//! Shapes of public reports, each with its fixed twin: `shapes SHAPE wrong|fixed`, in the folder `d`.
//! `shapes lock wrong|fixed FOLDER` is the recovery of `lock`.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

fn sync_folder() -> io::Result<()> {
    File::open("d")?.sync_all()
}

fn create(name: &str, text: &str, durable: bool) -> io::Result<()> {
    let mut file = File::create(name)?;
    file.write_all(text.as_bytes())?;
    if durable { file.sync_all() } else { Ok(()) }
}

fn log() -> io::Result<File> {
    OpenOptions::new().append(true).open("d/log")
}

/// CURRENT names the version; the old one is removed when the new one is in place.
fn manifest(fixed: bool) -> io::Result<()> {
    create("d/data-2", "version 2\n", true)?;
    create("d/CURRENT.tmp", "2\n", true)?;
    if fixed {
        sync_folder()?;
    }
    fs::rename("d/CURRENT.tmp", "d/CURRENT")?;
    if fixed {
        sync_folder()?;
    }
    fs::remove_file("d/data-1")?;
    println!("saved 2");
    Ok(())
}

/// The log is emptied when a checkpoint has its records.
fn checkpoint(fixed: bool) -> io::Result<()> {
    let mut log = log()?;
    for i in 1..=4 {
        log.write_all(format!("{i}\n").as_bytes())?;
        log.sync_all()?;
        println!("saved {i}");
    }
    create("d/checkpoint.tmp", "4\n", fixed)?;
    fs::rename("d/checkpoint.tmp", "d/checkpoint")?;
    if fixed {
        sync_folder()?;
    }
    log.set_len(0)?;
    log.sync_all()
}

/// The length at 0 says how many bytes from 4096 on are data.
fn length(fixed: bool) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open("d/data")?;
    for i in 1..=3u64 {
        let count = format!("{:08}", 500 * i);
        if !fixed {
            file.write_all_at(count.as_bytes(), 0)?;
        }
        file.write_all_at(&[b'x'; 500], 4096 + 500 * (i - 1))?;
        file.sync_all()?;
        if fixed {
            file.write_all_at(count.as_bytes(), 0)?;
            file.sync_all()?;
        }
    }
    Ok(())
}

/// The second sync fails. Its pages may be gone then: what is certain is a new file.
fn swallowed(fixed: bool) -> io::Result<()> {
    let mut file = log()?;
    let mut all = String::new();
    for i in 1..=3 {
        let line = format!("{i}\n");
        all += &line;
        file.write_all(line.as_bytes())?;
        if file.sync_all().is_err() && fixed {
            create("d/log.new", &all, true)?;
            fs::rename("d/log.new", "d/log")?;
            sync_folder()?;
            file = log()?;
        }
        println!("saved {i}");
    }
    Ok(())
}

/// Each file of the folder is a segment, but for the lock; one that begins with a dot is not finished.
fn lock() -> io::Result<()> {
    create("d/LOCK", "pid\n", false)?;
    create("d/.2", "segment\n", true)?;
    fs::rename("d/.2", "d/2")?;
    sync_folder()?;
    println!("saved 2");
    fs::remove_file("d/LOCK")
}

fn recover_lock(fixed: bool, folder: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || (fixed && name == "LOCK") {
            continue;
        }
        if fs::read(entry.path())? != b"segment\n" {
            return Err(io::Error::other(format!("{name} is no segment")));
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let fixed = words[2] == "fixed";
    match (words[1].as_str(), words.get(3)) {
        ("manifest", _) => manifest(fixed),
        ("checkpoint", _) => checkpoint(fixed),
        ("length", _) => length(fixed),
        ("swallowed", _) => swallowed(fixed),
        (_, None) => lock(),
        (_, Some(folder)) => recover_lock(fixed, folder),
    }
}
