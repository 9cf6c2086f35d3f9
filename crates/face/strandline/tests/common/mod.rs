//! What the end-to-end tests share: the real binary, real compilers, and programs that we did not write.
#![allow(dead_code)] // every test file uses its part

pub mod capi;
pub mod fields;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch folder that goes away with the test.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Writes `text` to `name` and returns the path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("scratch file is written");
        path
    }
}

/// `strandline`, with its cache inside the build folder.
pub fn strandline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    // Tests measure nothing, and get the same wherever they run.
    command.env("STRANDLINE_CALIBRATE", "never");
    command
}

/// The value for `CC=` of a build system.
pub fn cc(verb: &str) -> String {
    format!("{} {verb}", env!("CARGO_BIN_EXE_strandline"))
}

/// Runs to the end; panics with everything it printed unless it succeeds.
pub fn ok(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Compiles with `strandline cc` (or `c++`), arguments given as one line.
pub fn compile(dir: &Path, verb: &str, arguments: &str) {
    ok(strandline().current_dir(dir).arg(verb).args(arguments.split_whitespace()));
}

/// Records `program` and returns what `strandline trace info --json` says of the trace.
pub fn record(scratch: &Scratch, options: &[&str], program: &[&str]) -> serde_json::Value {
    let trace = scratch.path("t.slt");
    ok(strandline()
        .current_dir(scratch.dir())
        .arg("record")
        .arg("-o")
        .arg(&trace)
        .args(options)
        .arg("--")
        .args(program));
    info(&trace)
}

/// `strandline trace info --json`.
pub fn info(trace: &Path) -> serde_json::Value {
    let output = ok(strandline().args(["trace", "info", "--json"]).arg(trace));
    serde_json::from_slice(&output.stdout).expect("trace info prints JSON")
}

/// One number of such an answer.
pub fn number(info: &serde_json::Value, key: &str) -> u64 {
    info[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {info:#}"))
}

/// `strandline trace dump` as lines.
pub fn dump(trace: &Path) -> Vec<String> {
    stdout(&ok(strandline().args(["trace", "dump"]).arg(trace))).lines().map(str::to_owned).collect()
}

/// A command whose program inherits no file beside the standard streams: bash closes the others, then becomes
/// the program.
pub fn alone(program: &Path) -> Command {
    let mut command = Command::new("bash");
    let close =
        "for n in /proc/$$/fd/*; do n=${n##*/}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done; exec \"$@\"";
    command.args(["-c", close, "bash"]).arg(program);
    command
}

/// Whether a command is there; prints why the test is skipped if not.
pub fn has(command: &str) -> bool {
    let found = Command::new(command).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: no `{command}` on this machine");
    }
    found
}

/// Folder of the C sources inside a crate that cargo fetches (`tests/programs/sources`).
pub fn c_sources(package: &str, inside: &str) -> PathBuf {
    sources_by("tests/programs/sources", package, inside)
}

/// As [`c_sources`], by the manifest in another folder.
pub fn sources_by(folder: &str, package: &str, inside: &str) -> PathBuf {
    let manifest = format!("{}/{folder}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let output = ok(Command::new(env!("CARGO")).args([
        "metadata",
        "--format-version=1",
        "--locked",
        "--manifest-path",
        &manifest,
    ]));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let found =
        packages.iter().find(|p| p["name"] == package).unwrap_or_else(|| panic!("no package {package}"));
    let manifest = found["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a folder").join(inside)
}

/// Copies the files of one folder (without its folders).
pub fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder is made");
    for entry in std::fs::read_dir(from).expect("folder is read").flatten() {
        if entry.path().is_file() {
            let target = to.join(entry.file_name());
            std::fs::copy(entry.path(), &target).expect("file is copied");
        }
    }
}

/// Opens a page in a browser: sees that it shows something, and returns the document. `None` without a browser.
pub fn browse(scratch: &Scratch, page: &Path) -> Option<String> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| has(name))?;
    let shot = scratch.path("shot.png");
    let open = |extra: &[String]| {
        let mut command = Command::new(browser);
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--window-size=1200,3000",
            ])
            .arg(format!("--user-data-dir={}", scratch.path("browser").display()))
            .args(extra)
            .arg(format!("file://{}", page.display()));
        ok(&mut command)
    };
    open(&[format!("--screenshot={}", shot.display())]);
    assert!(std::fs::metadata(&shot).expect("a screenshot").len() > 20_000, "the screenshot is empty");
    Some(stdout(&open(&["--dump-dom".to_owned()])))
}

/// Whether the processor can run what flushes by clwb and clflushopt.
pub fn has_flushes() -> bool {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has =
        ["clwb", "clflushopt"].iter().all(|flag| processor.split_whitespace().any(|word| word == *flag));
    if !has {
        println!("skipped: this processor has not both clwb and clflushopt");
    }
    has
}

/// Whether a process runs that was started with these words.
pub fn is_running(words: &str) -> bool {
    let line = words.replace(' ', "\0") + "\0";
    let mut processes = std::fs::read_dir("/proc").expect("processes").flatten();
    processes.any(|process| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|found| found.ends_with(line.as_bytes()))
    })
}
