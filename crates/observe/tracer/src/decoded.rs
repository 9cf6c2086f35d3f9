//! What any registers are taken for.

use nix::unistd::getpid;

use crate::aio;
use crate::calls::{Call, Deed, said, unaligned};
use crate::opened::Descriptors;

/// What a system call with this number, these arguments and this result is taken for, were it this process's
/// own: its addresses are those of this memory, its descriptors are this process's. Nothing is called, and no
/// file is changed.
///
/// Whatever the numbers are, it ends: a program may call with any.
#[must_use]
pub fn decoded(number: i64, arguments: [u64; 6], result: u64) -> Vec<String> {
    let (pid, call) = (getpid(), Call { number, arguments });
    let mut found = vec![format!("{} {} {:?}", call.name(), call.alone(), call.written_to())];
    found.extend(call.sync(pid).map(|synced| format!("{synced:?}")));
    let before = call.before(pid);
    found.push(format!("{before:?}"));
    let deeds = call.after(pid, &before, result, &mut Descriptors::default()).unwrap_or_default();
    found.extend(deeds.into_iter().chain(unaligned(&call, pid)).map(described));
    let [_, buffer, count, events, ..] = arguments;
    if number == libc::SYS_io_submit {
        let requests = aio::requests(pid, buffer, count);
        found.extend(requests.iter().map(|(address, request)| format!("{address:#x} {request:?}")));
    }
    if number == libc::SYS_io_getevents {
        found.extend(aio::events(pid, events, result).iter().map(|event| format!("{event:?}")));
    }
    if call.written_to().is_some() {
        found.push(format!("{:?}", said(&call, pid, result)));
    }
    found
}

fn described(deed: Deed) -> String {
    match deed {
        Deed::Write(path, offset, bytes) => format!("{} B at {offset} of {path}", bytes.len()),
        other => format!("{other:?}"),
    }
}
