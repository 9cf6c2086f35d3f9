//! `strandline migrate --html`: this command runs itself without the option, and takes samples meanwhile. (A command that
//! migrates forks, so it has one thread only.)

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use migrate::live::Moved;
use migrate::plot::{Counted, Heartbeat, page, sample};
use migrate::proc::{children, read_text, threads};

/// What is sampled before the migration begins, and after its last page.
const AROUND: Duration = Duration::from_millis(300);

/// Migrates process `pid` and writes the page `html`; `show` reports the times.
pub fn watched(
    pid: i32,
    html: &Path,
    heartbeat: Option<&Path>,
    show: impl Fn(&Moved) -> anyhow::Result<()>,
) -> anyhow::Result<u8> {
    let heartbeat = heartbeat.map(Heartbeat::open).transpose()?;
    let counted = if heartbeat.is_some() { Counted::Beats } else { Counted::ProcessorTime };
    let over = AtomicBool::new(false);
    let own = std::process::id().cast_signed();
    let count = || heartbeat.as_ref().map_or_else(|| processor_time(pid, own), Heartbeat::count);
    let (moved, samples, mut child) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(count, &over));
        let moved = run();
        std::thread::sleep(AROUND);
        over.store(true, Ordering::Relaxed);
        let samples = sampler.join().unwrap_or_default();
        moved.map(|(moved, child)| (moved, samples, child))
    })?;
    show(&moved)?;
    std::fs::write(html, page(&moved, &samples, counted)).with_context(|| format!("{}", html.display()))?;
    let status = child.wait()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The same command without the page, until it reports its times.
fn run() -> anyhow::Result<(Moved, std::process::Child)> {
    let mut arguments = Vec::new();
    let mut rest = std::env::args_os().skip(1);
    while let Some(one) = rest.next() {
        let text = one.to_string_lossy().into_owned();
        match text.as_str() {
            "--html" | "--heartbeat" => drop(rest.next()),
            "--json" => {}
            _ if text.starts_with("--html=") || text.starts_with("--heartbeat=") => {}
            _ => arguments.push(one),
        }
    }
    std::thread::sleep(AROUND);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).arg("--json").stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("its output")?);
    let mut text = String::new();
    // The last line of its report is a brace alone.
    while output.read_line(&mut text)? > 0 && !text.ends_with("\n}\n") {}
    match serde_json::from_str(&text) {
        Ok(moved) => {
            // What it prints further belongs to the process.
            std::thread::spawn(move || drop(output.read_to_end(&mut Vec::new())));
            Ok((moved, child))
        }
        Err(_) => {
            let status = child.wait()?;
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}

/// Nanoseconds that the process has run, here and at its target, which is below this command.
fn processor_time(pid: i32, own: i32) -> u64 {
    let of = |pid: i32| -> u64 {
        let threads = threads(pid).unwrap_or_default().into_iter();
        let times = threads.filter_map(|tid| {
            let text = read_text(pid, &format!("task/{tid}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        times.sum()
    };
    let name = |pid: i32| read_text(pid, "comm").unwrap_or_default();
    let ours = name(own);
    let mut below = children(own).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = below.get(next).copied() {
        below.extend(children(pid).unwrap_or_default());
        next += 1;
    }
    of(pid) + below.into_iter().filter(|pid| name(*pid) != ours).map(of).sum::<u64>()
}
