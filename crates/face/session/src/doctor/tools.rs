//! Programs and libraries beside ours: compilers, simulators, the loader of graphics processors.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::fact::{Fact, Root, State};

/// Folders in which libraries lie.
const LIBRARIES: &[&str] = &[
    "usr/lib",
    "usr/lib64",
    "usr/local/lib",
    "lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
];

/// How long a program may take to say its version. One that takes longer, as on a file system that does not answer, is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Bytes of what a program says that are looked at.
const SAID_MAX: u64 = 64 << 10;

pub(super) fn facts(root: &Root) -> Vec<Fact> {
    vec![
        any("compilers", "C and C++ compilers", &["gcc", "g++", "clang", "clang++"], 2),
        any("valgrind", "Valgrind", &["valgrind"], 1),
        any("verilog", "Verilog simulators", &["iverilog", "verilator"], 1),
        graphics(root),
    ]
}

/// Yes from `enough` programs on that run, partly from one on.
fn any(id: &'static str, what: &'static str, programs: &[&str], enough: usize) -> Fact {
    let found: Vec<String> = programs.iter().filter_map(|program| version(program, PATIENCE)).collect();
    let state = match found.len() {
        0 => State::No,
        count if count < enough => State::Partly,
        _ => State::Yes,
    };
    let detail = match found.is_empty() {
        true => format!("none of {}", programs.join(", ")),
        false => found.join(", "),
    };
    Fact::new(id, what, state, detail)
}

/// A program's name and the first number with a dot in the first line of its version; none if it does not
/// run, fails (as a shim does whose program is absent), or is silent for too long.
fn version(program: &str, patience: Duration) -> Option<String> {
    // Icarus Verilog knows `-V` alone.
    let ask = if program == "iverilog" { "-V" } else { "--version" };
    let mut command = Command::new(program);
    command.arg(ask).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let said = said(&mut child, patience);
    if said.is_none() {
        child.kill().ok();
        child.wait().ok();
    }
    let text = said?;
    let first = text.lines().next().unwrap_or_default();
    let number = first
        .split([' ', '-'])
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    Some(number.map_or(program.to_owned(), |number| format!("{program} {number}")))
}

/// What a child says until it ends well.
fn said(child: &mut Child, patience: Duration) -> Option<String> {
    let begun = Instant::now();
    let stdout = child.stdout.take()?;
    let (out, text) = channel();
    // It is not waited for: children of the child may keep the pipe open.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if stdout.take(SAID_MAX).read_to_end(&mut bytes).is_ok() {
            out.send(String::from_utf8_lossy(&bytes).into_owned()).ok();
        }
    });
    let text = text.recv_timeout(patience).ok()?;
    while begun.elapsed() <= patience {
        if let Some(status) = child.try_wait().ok()? {
            return status.success().then_some(text);
        }
        thread::sleep(LOOK);
    }
    None
}

fn graphics(root: &Root) -> Fact {
    let loader =
        LIBRARIES.iter().flat_map(|folder| root.names(folder)).any(|name| name.starts_with("libvulkan.so"));
    let drivers: Vec<String> = ["usr/share/vulkan/icd.d", "etc/vulkan/icd.d"]
        .iter()
        .flat_map(|folder| root.names(folder))
        .map(|name| name.trim_end_matches(".json").to_owned())
        .collect();
    let devices: Vec<String> = root
        .names("dev/dri")
        .into_iter()
        .filter(|name| name.starts_with("renderD"))
        .chain(root.names("dev").into_iter().filter(|name| name == "nvidiactl" || name == "kfd"))
        .collect();
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let state = match (devices.is_empty(), loader && !drivers.is_empty()) {
        (false, true) => State::Yes,
        (true, false) => State::No,
        _ => State::Partly,
    };
    let loader = if loader { "there" } else { "absent" };
    let detail =
        format!("devices: {}; Vulkan's loader: {loader}, drivers: {}", list(&devices), list(&drivers));
    Fact::new("gpu", "graphics processor", state, detail)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_does_not_run_is_named() {
        let none = any("x", "x", &["no-such-program-1", "no-such-program-2"], 1);
        assert_eq!((none.state, &*none.detail), (State::No, "none of no-such-program-1, no-such-program-2"));
        assert_eq!(any("x", "x", &["cargo", "no-such-program"], 2).state, State::Partly);
    }

    #[test]
    fn what_fails_or_is_silent_for_ever_does_not_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("made executable");
            path.display().to_string()
        };
        let right = script("right", "echo right 12.2.0");
        assert_eq!(version(&right, PATIENCE), Some(format!("{right} 12.2.0")));
        assert_eq!(version(&script("shim", "echo shim 1.0; exit 127"), PATIENCE), None);
        for silent in
            ["exec sleep 600", "echo 1.0; exec sleep 600", "exec >&-; exec sleep 600", "sleep 3 & echo 1.0"]
        {
            assert_eq!(version(&script("silent", silent), Duration::from_millis(100)), None, "{silent}");
        }
    }

    #[test]
    fn a_graphics_processor_takes_a_device_and_a_driver() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        assert_eq!(graphics(&root).state, State::No);
        for name in ["usr/share/vulkan/icd.d/lvp.json", "usr/lib/libvulkan.so.1", "dev/dri/renderD128"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("one")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        assert_eq!(graphics(&root).state, State::Yes);
    }
}
