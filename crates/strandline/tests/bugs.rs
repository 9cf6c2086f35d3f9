//! The programs in `examples/c/bugs` are sound themselves: a run that no crash cut short passes its own check, recovery
//! bears any image, and it notices what it is there to notice.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{Scratch, has, ok, stderr, stdout};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c/bugs")
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
    ok(Command::new("make")
        .arg("-C")
        .arg(sources())
        .args(["-j2", "CC=gcc", "CXX=g++", "CFLAGS=-O2 -Werror"])
        .arg(format!("B={BUILT}")));
    let mut names: Vec<String> = std::fs::read_dir(sources())
        .expect("the sources are read")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".c").or(name.strip_suffix(".cc"))?.to_owned()))
        .collect();
    names.sort();
    names
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
