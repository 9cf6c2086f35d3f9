//! What the library in the program left.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::plan::sites::{Samples, Seen, SiteUse, Window};
use capture::symbols::{Resolver, Types};
use serde::Serialize;

/// What was done for a site of a file of kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placement {
    /// The site's key.
    pub key: String,
    /// Its kind.
    pub kind: String,
    /// Allocations, and bytes of their whole pages.
    pub count: u64,
    /// See above.
    pub bytes: u64,
    /// Calls that the kernel refused, and the last one's error, 0 if none.
    pub refused: u64,
    /// See above.
    pub error: u64,
}

/// The file's contents.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) seen: Seen,
    pub(super) placed: Vec<Placement>,
    /// Whether the process ended in order.
    pub(super) ended: bool,
}

/// Frames of libraries that only allocate, and of start-up: sites are named by the first that is none of them.
const LIBRARIES: [&str; 6] = ["libc.so", "libstdc++.so", "ld-linux", "libgcc_s", "libm.so", "libstrandline"];

impl Left {
    /// From the library's lines. What is missing counts as nothing.
    pub(super) fn read(text: &str, from: u64) -> Left {
        let mut left = Left::default();
        let mut modules: BTreeMap<usize, PathBuf> = BTreeMap::new();
        let mut windows: Vec<f64> = Vec::new();
        let mut names = Names::default();
        let seen = &mut left.seen;
        seen.from = from;
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.parse::<f64>().unwrap_or(0.0);
            match name {
                "source" => seen.source = value.to_owned(),
                "ended" => left.ended = value == "1",
                "elapsed" => seen.elapsed = number(),
                "looking" => seen.looking = number(),
                "ticks" => seen.ticks = number() as u32,
                "windows" => windows = value.split(' ').filter_map(|one| one.parse().ok()).collect(),
                "cpu" => seen.cpu = number(),
                "peak_kib" => seen.peak = number() * 1024.0,
                "huge_kib" => seen.huge = number() * 1024.0,
                "forks" => seen.forks = number() as u64,
                "faults" => {
                    let mut both = value.split(' ').map(|one| one.parse().unwrap_or(0));
                    seen.faults = (both.next().unwrap_or(0), both.next().unwrap_or(0));
                }
                "unseen" => seen.unseen.push(value.to_owned()),
                "module" => {
                    if let Some((number, path)) = value.split_once(' ')
                        && let Ok(number) = number.parse()
                    {
                        modules.insert(number, PathBuf::from(path));
                    }
                }
                "site" => seen.sites.extend(site(value, &windows, &modules, &mut names)),
                "placed" => left.placed.extend(placed(value)),
                _ => {}
            }
        }
        let seconds = seen.elapsed;
        seen.sites.iter_mut().for_each(|site| site.sampled.seconds = seconds);
        // What never was there is no site.
        seen.sites.retain(|site| site.bytes >= 4096.0);
        left
    }
}

/// Sites that allocated, by key: whether by `malloc`, and their name.
pub(crate) fn allocators(text: &str) -> BTreeMap<u64, (bool, String)> {
    let heap = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("site ")?.split(' ').collect();
        let key = u64::from_str_radix(words.get(1)?, 16).ok()?;
        Some((key, *words.get(2)? == "heap"))
    };
    let heap: BTreeMap<u64, bool> = text.lines().filter_map(heap).collect();
    let sites = Left::read(text, 0).seen.sites.into_iter().filter(|site| site.allocated);
    sites.map(|site| (site.key, (heap.get(&site.key).copied().unwrap_or(false), site.name))).collect()
}

fn placed(value: &str) -> Option<Placement> {
    let words: Vec<&str> = value.split(' ').collect();
    let [key, kind, count, bytes, refused, error] = words[..] else { return None };
    Some(Placement {
        key: key.to_owned(),
        kind: kind.to_owned(),
        count: count.parse().ok()?,
        bytes: bytes.parse().ok()?,
        refused: refused.parse().ok()?,
        error: error.parse().ok()?,
    })
}

fn site(
    value: &str,
    windows: &[f64],
    modules: &BTreeMap<usize, PathBuf>,
    names: &mut Names,
) -> Option<SiteUse> {
    let words: Vec<&str> = value.split(' ').collect();
    let [
        number,
        key,
        way,
        _live,
        peak,
        count,
        _bytes,
        noted,
        used,
        written,
        exact,
        caught,
        hits,
        slices,
        frames,
        tag,
    ] = words[..]
    else {
        return None;
    };
    let number: usize = number.parse().ok()?;
    let list = |text: &str| -> Vec<f64> { text.split(',').filter_map(|one| one.parse().ok()).collect() };
    let windows = uses(used, &list(written), windows);
    let (caught, time) = caught.split_once('/')?;
    let slices = list(slices.strip_prefix('-')?);
    let allocated = number > 2;
    let mut bytes: f64 = peak.parse().ok()?;
    // Where the library measured their sizes itself it says so.
    if !allocated && bytes == 0.0 && !slices.is_empty() {
        let most = windows.iter().map(|one| one.there).fold(0.0, f64::max);
        // There in each window of a length; all lengths come equally often.
        bytes = most * 4096.0 / (slices.len() as f64 / windows.len().max(1) as f64).max(1.0);
    }
    let all: f64 = windows.iter().map(|one| one.used).sum();
    let key = u64::from_str_radix(key, 16).ok()?;
    let frames = frames.strip_prefix('-').filter(|_| allocated);
    let (own, type_name) = frames.map(|frames| names.of(frames, way == "map", modules)).unwrap_or_default();
    let tag = tag.strip_prefix('-').filter(|tag| !tag.is_empty()).map(str::to_owned);
    Some(SiteUse {
        key,
        keys: vec![key],
        type_name,
        name: match number {
            0 => "stacks, globals, threads' heaps".to_owned(),
            1 => "mapped files and code".to_owned(),
            2 => "small allocations".to_owned(),
            _ => tag.iter().fold(own, |own, tag| format!("{own}, tag {tag}")),
        },
        tag,
        sampled: Samples { hits: hits.parse().ok()?, ..Samples::default() },
        bytes,
        count: count.parse().ok()?,
        noted: noted.parse().ok()?,
        windows,
        caught: (caught.parse().ok()?, time.parse().ok()?),
        exact: if all > 0.0 { exact.parse::<f64>().ok()? / all } else { 0.0 },
        slices,
        allocated,
    })
}

/// Pages used, there and written, by window.
fn uses(used: &str, written: &[f64], windows: &[f64]) -> Vec<Window> {
    let one = |(at, (pair, &seconds)): (usize, (&str, &f64))| {
        let (used, there) = pair.split_once('/')?;
        let written = written.get(at).copied().unwrap_or(0.0);
        Some(Window { seconds, used: used.parse().ok()?, there: there.parse().ok()?, written })
    };
    used.split(',').zip(windows).enumerate().filter_map(one).collect()
}

/// Names of call stacks.
#[derive(Default)]
struct Names {
    resolver: Resolver,
    types: Types,
}

impl Names {
    /// Function and line of the innermost frame that is the program's own, and the type that is allocated there.
    fn of(
        &mut self,
        frames: &str,
        mapping: bool,
        modules: &BTreeMap<usize, PathBuf>,
    ) -> (String, Option<String>) {
        let frame = |text: &str| {
            let (module, address) = text.split_once('+')?;
            Some((modules.get(&module.parse().ok()?)?, u64::from_str_radix(address, 16).ok()?))
        };
        let all: Vec<_> = frames.split(',').filter_map(frame).collect();
        let own = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !LIBRARIES.iter().any(|library| name.starts_with(library))
        };
        // From the innermost of the program's own frames to the first whose code is not of C++'s headers.
        let first = all.iter().position(|(path, _)| own(path)).unwrap_or(0);
        let mut inlined = Vec::new();
        let mut label = None;
        for (path, address) in all.iter().skip(first) {
            let site = self.resolver.site(path, *address);
            inlined.extend(site.frames.iter().cloned());
            let found = site.frames.iter().find(|frame| !frame.is_library());
            if label.is_none() || found.is_some() {
                label = Some(found.or(site.frames.first()).map_or_else(
                    || format!("{}+{address:#x}", site.module),
                    |frame| {
                        let file = std::path::Path::new(&frame.file)
                            .file_name()
                            .unwrap_or_default()
                            .to_string_lossy();
                        if frame.line > 0 {
                            format!("{} at {file}:{}", frame.function, frame.line)
                        } else {
                            format!("{} in {}", frame.function, site.module)
                        }
                    },
                ));
            }
            if found.is_some() || site.frames.is_empty() {
                break;
            }
        }
        let kind = self.types.of(&inlined);
        let label = match label {
            Some(label) if mapping => format!("mapped by {label}"),
            Some(label) => label,
            None if mapping => "a mapping".to_owned(),
            None => "an allocation".to_owned(),
        };
        (label, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_library_are_read_and_damaged_ones_left_out() {
        let text = "source referenced\nended 1\nelapsed 2.5\nticks 9\nwindows 0.001 0.01\nfaults 7 1\nforks 3\n\
            site 0 0000000000000000 heap 0 0 0 0 0 3/30,3/30 0,0 0 0/0 0 -1,2 - -\n\
            site 3 00000000000000ab heap 8192 8192 1 8192 1 2/4,4/4 1,0 6 0/0 7.5 -3,3 -0+10 -cold\n\
            site broken\nplaced 00000000000000ab slow 1 8192 1 22\nunseen stores: no\n";
        let left = Left::read(text, 4096);
        assert!(left.ended);
        assert_eq!((left.seen.ticks, left.seen.faults, left.seen.forks), (9, (7, 1), 3));
        assert_eq!(left.seen.sites.len(), 2);
        let site = &left.seen.sites[1];
        assert_eq!((site.key, site.bytes, site.exact), (0xab, 8192.0, 1.0));
        assert_eq!((site.sampled.hits, site.sampled.seconds, site.tag.as_deref()), (7.5, 2.5, Some("cold")));
        assert_eq!(site.windows[0], Window { seconds: 0.001, used: 2.0, there: 4.0, written: 1.0 });
        assert_eq!(left.placed[0].error, 22);
        assert_eq!(left.seen.unseen, ["stores: no"]);
    }
}
