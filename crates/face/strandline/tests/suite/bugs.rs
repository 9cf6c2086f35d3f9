//! The programs in `examples/c/bugs`: `strandline check` finds each bug and says nothing of the twins. And they are sound
//! themselves: a run that no crash cut short passes its own check, recovery bears any image, and it notices what it is
//! there to notice.

#[path = "../common/bugs_page.rs"]
mod bugs_page;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Instant;

use crate::common::{Scratch, cc, has, ok, stderr, stdout, strandline};
use bugs_page::Row;
use crash::lint::{Kind, Lint, Lints};
use trace::Reader;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c/bugs")
}

const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/bugs");

/// The programs' names, once all are built; none where they cannot run.
fn programs() -> &'static [String] {
    static PROGRAMS: OnceLock<Vec<String>> = OnceLock::new();
    PROGRAMS.get_or_init(build)
}

fn program(name: &str) -> Command {
    Command::new(Path::new(BUILT).join(name))
}

fn build() -> Vec<String> {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !["clwb", "clflushopt"].iter().all(|flag| processor.split_whitespace().any(|word| word == *flag)) {
        println!("skipped: this processor has not both clwb and clflushopt");
        return Vec::new();
    }
    if !has("gcc") || !has("g++") || !has("make") {
        return Vec::new();
    }
    make(BUILT, "gcc", "g++");
    let mut names: Vec<String> = std::fs::read_dir(sources())
        .expect("the sources are read")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".c").or(name.strip_suffix(".cc"))?.to_owned()))
        .collect();
    names.sort();
    names
}

fn make(folder: &str, c: &str, cxx: &str) {
    ok(Command::new("make").arg("-C").arg(sources()).args(["-j2", "CFLAGS=-O2 -g -Werror"]).args([
        format!("CC={c}"),
        format!("CXX={cxx}"),
        format!("B={folder}"),
    ]));
}

/// Removes what an older `strandline cc` has built: this one's recordings need not fit it.
fn forget_if_older(folder: &str, than: &str) {
    let changed = |path: &str| std::fs::metadata(path).and_then(|about| about.modified());
    if changed(folder).is_ok_and(|built| changed(than).is_ok_and(|made| made > built)) {
        std::fs::remove_dir_all(folder).expect("the folder is removed");
    }
}

/// The program's variants, each with its origin.
fn variants(name: &str) -> Vec<(String, String)> {
    let listed = stdout(&ok(program(name).arg("--list")));
    let split = |line: &str| line.split_once('\t').map(|(name, origin)| (name.to_owned(), origin.to_owned()));
    listed.lines().map(|line| split(line).unwrap_or_else(|| panic!("{name} --list: {line}"))).collect()
}

/// What recovery says of `pool` if so many operations had ended.
fn recover(name: &str, pool: &Path, variant: &str, done: u32) -> Output {
    program(name)
        .arg("--recover")
        .arg(pool)
        .arg(variant)
        .env("STRANDLINE_DONE", done.to_string())
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_run_without_a_crash_is_whole() {
    let scratch = Scratch::new();
    let mut bugs = 0;
    let pool = scratch.path("pool");
    for name in programs() {
        let variants = variants(name);
        assert_eq!(variants[0].0, "fixed", "{name}");
        for (variant, origin) in &variants {
            assert!(!origin.is_empty(), "{name} {variant} has no origin");
            ok(program(name).arg(&pool).arg(variant));
            let said = recover(name, &pool, variant, 6);
            assert!(said.status.success(), "{name} {variant}: {}", stderr(&said));
            bugs += u32::from(!origin.contains("correct"));
        }
    }
    assert!(bugs == 0 || bugs >= 40, "{bugs} bugs");
}

/// Operations that ended are missed in a pool that has none: the check can fail.
#[test]
fn a_lost_pool_is_noticed() {
    let scratch = Scratch::new();
    let pool = scratch.path("pool");
    for name in programs() {
        std::fs::write(&pool, vec![0; 1 << 16]).expect("the pool is written");
        assert_eq!(recover(name, &pool, "fixed", 0).status.code(), Some(0), "{name}");
        let said = recover(name, &pool, "fixed", 1);
        assert_eq!((said.status.code(), stderr(&said).lines().count()), (Some(1), 1), "{name}");
    }
}

/// Images that no crash leaves behind, too, end in an answer.
#[test]
fn recovery_bears_damaged_images() {
    let scratch = Scratch::new();
    let pool = scratch.path("pool");
    let mut noticed = 0;
    for name in programs() {
        ok(program(name).arg(&pool));
        let whole = std::fs::read(&pool).expect("the pool is read");
        let used: Vec<usize> = (64..whole.len()).filter(|&at| whole[at] != 0).map(|at| at & !7).collect();
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        for _ in 0..30 {
            let mut image = whole.clone();
            for _ in 0..=next() % 4 {
                let at = used[next() as usize % used.len()];
                let word = match next() % 4 {
                    0 => 0,
                    1 => next() << 32 | next(),
                    2 => next() % 4096 * 8,
                    _ => {
                        u64::from_le_bytes(whole[at..at + 8].try_into().expect("a word")) ^ 1 << (next() % 64)
                    }
                };
                image[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            std::fs::write(&pool, image).expect("the image is written");
            let said = recover(name, &pool, "fixed", 0);
            let code = said.status.code();
            assert!(matches!(code, Some(0 | 1)), "{name}: {:?}, {}", said.status, stderr(&said));
            noticed += u32::from(code == Some(1));
        }
    }
    assert!(noticed == 0 || noticed > 100, "only {noticed} damaged images were noticed");
}

/// Programs built to be observed.
const OBSERVED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/bugs-observed");
/// The same, of the compiler's code as it is without us.
const SHIPPED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/bugs-shipped");
/// The page's part.
const SECTION: &str = "In C and C++";

/// One check of one variant.
struct Check<'a> {
    /// Where the program is that is observed.
    built: &'a str,
    name: &'a str,
    variant: &'a str,
    folder: PathBuf,
}

impl Check<'_> {
    /// `strandline check` with recovery by the program as the system's compiler built it; its status and JSON.
    fn run(&self, more: &[&str], program: &[&str]) -> (Option<i32>, serde_json::Value) {
        let recover = format!("{BUILT}/{} --recover POOL {}", self.name, self.variant);
        let mut command = strandline();
        command.args(["check", "--json", "--jobs", "1", "--recover", &recover, "--out"]).arg(&self.folder);
        command.args(more);
        if !program.is_empty() {
            command.arg("--").args(program);
        }
        let said = command.output().expect("strandline runs");
        let answer = serde_json::from_slice(&said.stdout);
        let answer = answer.unwrap_or_else(|error| {
            panic!("{} {}: {error}: {}{}", self.name, self.variant, stdout(&said), stderr(&said))
        });
        (said.status.code(), answer)
    }

    /// Checks a fresh run, and that the first finding's token repeats it.
    fn row(&self, origin: &str) -> Row {
        let pool = self.folder.join("pool");
        std::fs::create_dir_all(&self.folder).expect("a folder");
        let pool = pool.to_str().expect("a path in UTF-8");
        let program = format!("{}/{}", self.built, self.name);
        let started = Instant::now();
        let (_, answer) = self.run(&["--pmem", pool], &[&program, pool, self.variant]);
        let seconds = started.elapsed().as_secs_f64();
        if answer["no_verdict"][0]["kind"] == "rejected" {
            // What is wrong without any crash is no crash finding.
            return Row {
                structure: self.name.to_owned(),
                variant: self.variant.to_owned(),
                origin: origin.to_owned(),
                token: Some("no verdict: recovery rejects the undisturbed result".to_owned()),
                images: 1,
                seconds,
            };
        }
        let findings = answer["findings"].as_array().unwrap_or_else(|| panic!("{program}: {answer:#}"));
        if let Some(finding) = findings.first() {
            let token = token_of(finding);
            let (status, again) = self.run(&["--replay", token], &[]);
            assert_eq!((status, &again["finding"]["message"]), (Some(1), &finding["message"]), "{program}");
            if self.built == OBSERVED {
                self.replay_written(token);
            }
        }
        let lints = self.lints();
        let is_correct = origin.contains("correct");
        assert!(!is_correct || lints.is_empty(), "{program} {}: {lints:#?}", self.variant);
        let slow = lints.iter().find(|(kind, _)| *kind == Kind::RedundantFlush);
        let token = findings.first().map(|finding| format!("`{}`", token_of(finding)));
        Row {
            structure: self.name.to_owned(),
            variant: self.variant.to_owned(),
            origin: origin.to_owned(),
            token: token.or(slow.map(|(kind, _)| format!("lint {}", kind.name()))),
            images: answer["images"].as_u64().expect("a number of images"),
            seconds,
        }
    }

    /// What the lints say of the run.
    fn lints(&self) -> Vec<(Kind, String)> {
        let mut lints = Lints::new();
        let trace = Reader::open(self.folder.join("check.slt"));
        trace.expect("the run's trace opens").replay(&mut lints).expect("it is whole");
        let tell = |lint: &Lint| (lint.kind, lint.describe(lints.files(), lints.table()));
        lints.findings().iter().map(tell).collect()
    }

    /// The page's token repeats its failure, too, if it was written with this compiler.
    fn replay_written(&self, fresh: &str) {
        let compiler = stdout(&ok(Command::new("gcc").arg("-dumpfullversion")));
        let page = include_str!("../../../../../docs/bugs.md");
        let known = page.contains(&format!("gcc {}", compiler.trim()));
        let written = bugs_page::token(SECTION, self.name, self.variant);
        if let Some(token) = written.filter(|token| known && token != fresh && !bugs_page::updates()) {
            let (status, _) = self.run(&["--replay", &token], &[]);
            assert_eq!(status, Some(1), "{} {}: {token} of docs/bugs.md", self.name, self.variant);
        }
    }
}

fn token_of(finding: &serde_json::Value) -> &str {
    finding["token"].as_str().expect("a token")
}

/// Checks each variant as it was built in `built` by `c` and `cxx`: what is wrong is found, and nothing else.
fn found(built: &str, c: &str, cxx: &str) -> Vec<Row> {
    forget_if_older(built, env!("CARGO_BIN_EXE_strandline"));
    make(built, c, cxx);
    let scratch = Scratch::new();
    let mut rows = Vec::new();
    for name in programs() {
        for (variant, origin) in variants(name) {
            let folder = scratch.path(&format!("{name}-{variant}"));
            let row = Check { built, name, variant: &variant, folder }.row(&origin);
            assert_eq!(row.token.is_none(), origin.contains("correct"), "{built} {row:?}");
            rows.push(row);
        }
    }
    rows
}

#[test]
fn every_bug_is_found_in_code_as_it_ships() {
    if !programs().is_empty() {
        found(SHIPPED, &cc("cc --as-shipped"), &cc("c++ --as-shipped"));
    }
}

#[test]
fn every_bug_is_found_and_no_twin_reported() {
    if programs().is_empty() {
        return;
    }
    let rows = found(OBSERVED, &cc("cc"), &cc("c++"));
    bugs_page::hold(SECTION, &rows);
}
