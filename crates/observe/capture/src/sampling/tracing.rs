//! Tracing's file system: numbers and layouts of tracepoints.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;

/// Where tracing's file system may be.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// One fault of so many is reported where there are many: a prime, so that no pattern of a program beats with it.
pub const EVERY: u64 = 17;

/// The tracepoint's number.
pub(super) fn tracepoint() -> Option<u64> {
    tracing(&["events/exceptions/page_fault_user/id"])?.trim().parse().ok()
}

/// Files of tracing's file system, one behind the other. Where nobody has mounted tracing's file system, a short-lived child of root's mounts it in a mount
/// namespace of its own, reads them and is gone; nobody else sees the mount.
pub(super) fn tracing(files: &[&str]) -> Option<String> {
    let read = |place: &&str| {
        let texts = files.iter().map(|file| std::fs::read_to_string(PathBuf::from(place).join(file)).ok());
        texts.collect::<Option<String>>()
    };
    TRACING.iter().find_map(read).or_else(|| {
        let mut child = std::process::Command::new("/bin/sh");
        let files = files.join(" ");
        let script = format!("mount -t tracefs nodev {0} && cd {0} && cat {files}", TRACING[0]);
        child.args(["-c", &script]).stderr(std::process::Stdio::null());
        // SAFETY: two system calls that touch no memory of ours, in the child between fork and exec.
        unsafe {
            child.pre_exec(|| {
                if libc::unshare(libc::CLONE_NEWNS) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                let flags = libc::MS_REC | libc::MS_PRIVATE;
                let nothing = std::ptr::null();
                // Nothing that is mounted here reaches other namespaces.
                if libc::mount(nothing, c"/".as_ptr(), nothing, flags, nothing.cast()) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let output = child.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    })
}
