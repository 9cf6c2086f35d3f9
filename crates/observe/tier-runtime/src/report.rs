//! What is left for `strandline plan`: lines of a name and values, replaced as a whole.

use std::fmt::Write;

use crate::calls;
use crate::control::{Control, FORKS, LENGTHS};
use crate::settings::Source;
use crate::sites::{STATE, State};

/// Writes the file.
pub fn write(control: &Control, ended: bool) {
    let mut text = String::new();
    let source = match control.settings.source {
        Source::Counters => "counters",
        Source::Referenced => "referenced",
        Source::Written => "written",
        Source::Protect => "protect",
        Source::Sampled => "sampled",
        Source::Damon => "damon",
    };
    let (noted, from, period) = calls::noted();
    let usage = usage();
    let lines = [
        ("source", source.to_owned()),
        ("ended", u8::from(ended).to_string()),
        ("elapsed", control.began.elapsed().as_secs_f64().to_string()),
        ("looking", control.looking.to_string()),
        ("ticks", control.ticks.to_string()),
        ("windows", LENGTHS.map(|length| length.as_secs_f64().to_string()).join(" ")),
        ("noted", noted.to_string()),
        ("limits", format!("{from} {period}")),
        ("cpu", usage.0.to_string()),
        ("faults", format!("{} {}", usage.1, usage.2)),
        ("peak_kib", usage.3.to_string()),
        ("huge_kib", control.huge_kib().to_string()),
        ("forks", FORKS.load(std::sync::atomic::Ordering::Relaxed).to_string()),
    ];
    for (name, value) in lines {
        writeln!(text, "{name} {value}").ok();
    }
    for why in &control.unseen {
        writeln!(text, "unseen {}", why.replace('\n', " ")).ok();
    }
    STATE.with(|state| {
        if let Some(state) = state {
            state_lines(&mut text, state);
            remedies(&mut text, state);
        }
    });
    let mut name = control.settings.out.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let mut new = name.clone();
    new.push(".new");
    if std::fs::write(&new, text).is_ok() {
        std::fs::rename(&new, name).ok();
    }
}

fn state_lines(text: &mut String, state: &State) {
    for (number, module) in state.modules.iter().enumerate() {
        writeln!(text, "module {number} {}", module.path.display()).ok();
    }
    let list = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(",");
    for (number, site) in state.sites.iter().enumerate() {
        // Spaces divide, and a list may be empty.
        let frames = list(&mut site.frames.iter().map(|(module, at)| format!("{module}+{at:x}")));
        let used = list(&mut site.used.iter().map(|(used, there)| format!("{used:.3}/{there:.3}")));
        let written = list(&mut site.written.iter().map(f64::to_string));
        let slices = list(&mut site.slices.iter().map(|used| format!("{used:.2}")));
        writeln!(
            text,
            "site {number} {:016x} {} {:.0} {:.0} {:.0} {:.0} {} {used} {written} {:.3} {}/{} {:.2} -{slices} -{frames} -{}",
            site.key,
            if site.mapping { "map" } else { "heap" },
            site.live.max(0.0),
            site.peak,
            site.count,
            site.bytes,
            site.noted,
            site.exact,
            site.caught.0,
            site.caught.1,
            site.hits.max(0.0),
            site.tag.as_deref().map(plain).unwrap_or_default(),
        )
        .ok();
    }
    for (&(key, kind), placed) in &state.placed {
        writeln!(
            text,
            "placed {key:016x} {} {} {} {} {}",
            kind.name(),
            placed.count,
            placed.bytes,
            placed.refused,
            placed.error
        )
        .ok();
    }
}

/// What was done against page faults, by site.
fn remedies(text: &mut String, state: &State) {
    for (&(key, remedy), done) in &state.remedies.done {
        let (name, count, bytes) = (remedy.name(), done.count, done.bytes);
        writeln!(text, "remedy {key:016x} {name} {count} {bytes} {} {}", done.refused, done.error).ok();
    }
}

/// A name as one word.
fn plain(name: &str) -> String {
    name.chars().map(|one| if one.is_whitespace() || one.is_control() { '_' } else { one }).collect()
}

/// Seconds of processor time, faults without and with reading, KiB at most.
fn usage() -> (f64, i64, i64, i64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: room for the numbers, which are filled.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_minflt, usage.ru_majflt, usage.ru_maxrss)
}
