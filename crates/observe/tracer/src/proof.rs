//! What calls do if they succeed, and how the files show it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use event::{SiteId, ThreadId};

use crate::calls::{Before, Call, Deed};
use crate::filter::TMPFILE;
use crate::look;

/// Bytes that are compared at once.
const PIECE: usize = 64 << 10;

/// What a call does if it succeeds, and how that shows.
#[derive(Debug)]
pub struct Expected {
    pub thread: ThreadId,
    pub site: SiteId,
    pub deed: Deed,
    pub proof: Proof,
}

#[derive(Debug)]
pub enum Proof {
    /// The file has the bytes of the write; its length was this.
    Bytes(Rc<File>, u64),
    /// Something is at the path.
    Present(String),
    /// Nothing is at the path any more.
    Absent(String),
    /// The file at the path has this length.
    Length(String, u64),
}

/// What is known of a call before it runs.
pub enum Outlook {
    /// Its end has to be waited for.
    Unclear,
    /// It changes no file, whatever it returns.
    Nothing,
    /// This, if it succeeds.
    Shows(Deed, Proof),
}

/// How many bytes of a write are in the file, whose length was `before`.
pub fn written(file: &File, before: u64, offset: u64, bytes: &[u8]) -> usize {
    let end = offset + bytes.len() as u64;
    if end > before && file.metadata().is_ok_and(|about| about.len() >= end) {
        return bytes.len();
    }
    let mut now = vec![0; PIECE.min(bytes.len())];
    let mut same = 0;
    for wanted in bytes.chunks(PIECE) {
        let now = &mut now[..wanted.len()];
        let read = file.read_at(now, offset + same as u64).unwrap_or(0);
        let alike = match wanted == &now[..read] {
            true => read,
            false => wanted.iter().zip(&now[..read]).take_while(|(one, other)| one == other).count(),
        };
        same += alike;
        if alike < wanted.len() {
            break;
        }
    }
    same
}

/// Of a call that names paths.
pub fn named(call: &Call, before: &Before) -> Outlook {
    let [_, second, third, _, fifth, _] = call.arguments;
    let plain = |path: &&String| path.starts_with('/') && !look::is_foreign(path);
    let Some(first) = before.paths.first().filter(plain) else { return Outlook::Unclear };
    let other = before.paths.get(1).filter(plain);
    let removed = |deed, path: &String| match look::is_there(path) {
        true => Outlook::Shows(deed, Proof::Absent(path.clone())),
        false => Outlook::Nothing,
    };
    let made = |deed, path: &String| match look::is_there(path) {
        true => Outlook::Nothing,
        false => Outlook::Shows(deed, Proof::Present(path.clone())),
    };
    let shortened =
        |len| Outlook::Shows(Deed::Truncate(first.clone(), len), Proof::Length(first.clone(), len));
    match call.number {
        libc::SYS_open | libc::SYS_openat | libc::SYS_creat => {
            let flags = match call.number {
                libc::SYS_open => second as i32,
                libc::SYS_openat => third as i32,
                _ => libc::O_CREAT | libc::O_TRUNC,
            };
            if flags & (TMPFILE | libc::O_PATH) != 0 {
                return Outlook::Unclear;
            }
            match before.len {
                // A link that leads nowhere: its target is made.
                None if look::is_there(first) => Outlook::Unclear,
                None if flags & libc::O_CREAT != 0 => made(Deed::Create(first.clone(), false), first),
                Some(old) if old > 0 && flags & libc::O_TRUNC != 0 => shortened(0),
                _ => Outlook::Nothing,
            }
        }
        libc::SYS_truncate | libc::SYS_ftruncate if before.len.is_some() => shortened(second),
        libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => {
            removed(Deed::Unlink(first.clone()), first)
        }
        libc::SYS_mkdir | libc::SYS_mkdirat => made(Deed::Create(first.clone(), true), first),
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => match other {
            Some(to) if call.number != libc::SYS_renameat2 || fifth == 0 => {
                removed(Deed::Rename(first.clone(), to.clone()), first)
            }
            _ => Outlook::Unclear,
        },
        libc::SYS_link | libc::SYS_linkat => match other {
            Some(to) => made(Deed::Link(first.clone(), to.clone()), to),
            None => Outlook::Unclear,
        },
        _ => Outlook::Unclear,
    }
}
