//! Engines as they come from a package registry, neither changed nor recompiled: the second table of
//! `docs/engines.md`. An engine that can't be had is skipped, with the reason.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};
use crate::page::{self, UnmodifiedRow};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/unmodified/engines");
/// Where packages are installed and programs built, once for all runs.
const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/unmodified");

/// What is run of an engine.
struct Engine {
    /// Its name on the page.
    name: &'static str,
    /// What the settings of the page are preceded by for its program.
    prefix: &'static str,
    transactions: &'static str,
}

const fn engine(name: &'static str, prefix: &'static str, transactions: &'static str) -> Engine {
    Engine { name, prefix, transactions }
}

/// Runs a command of an installation; why it failed, if it did.
fn installed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let last = || stderr(&output).lines().last().unwrap_or_default().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", last())) }
}

fn needed(commands: &[&str]) -> Result<(), String> {
    let found = |name: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        !std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    commands.iter().find(found).map_or(Ok(()), |name| Err(format!("no {name}")))
}

/// A program in Python that needs the machine's commands alone.
fn script(name: &str, commands: &[&str]) -> Result<Vec<String>, String> {
    needed(&["python3"]).and_then(|()| needed(commands))?;
    let python = ok(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    // What is found first may be a script that looks for the interpreter.
    Ok(vec![stdout(&python).trim().to_owned(), format!("{PROGRAMS}/python/{name}")])
}

/// A program in Python that needs a package, in a version.
fn packaged(name: &str, package: &str) -> Result<Vec<String>, String> {
    needed(&["python3"])?;
    let folder = format!("{BUILT}/python");
    let python = format!("{folder}/bin/python");
    if !Path::new(&python).exists() {
        installed(Command::new("python3").args(["-m", "venv", &folder]))?;
    }
    installed(Command::new(&python).args(["-m", "pip", "-q", "install", package]))?;
    Ok(vec![python, format!("{PROGRAMS}/python/{name}")])
}

fn in_rust() -> Result<Vec<String>, String> {
    let manifest = format!("{PROGRAMS}/rust/Cargo.toml");
    let target = format!("{BUILT}/rust");
    let mut cargo = Command::new(env!("CARGO"));
    installed(cargo.args(["build", "--locked", "--manifest-path", &manifest, "--target-dir", &target]))?;
    Ok(vec![format!("{target}/debug/unmodified-engines")])
}

fn in_go() -> Result<Vec<String>, String> {
    needed(&["go"])?;
    let program = format!("{BUILT}/go");
    installed(Command::new("go").current_dir(format!("{PROGRAMS}/go")).args(["build", "-o", &program, "."]))?;
    Ok(vec![program])
}

fn in_java() -> Result<Vec<String>, String> {
    needed(&["java", "javac", "mvn"])?;
    let folder = format!("{BUILT}/java");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut maven = Command::new("mvn");
    maven.current_dir(&folder).args(["-q", "-f", &format!("{PROGRAMS}/java/pom.xml")]);
    installed(maven.args(["dependency:copy-dependencies", &format!("-DoutputDirectory={folder}/lib")]))?;
    let source = format!("{PROGRAMS}/java/Engines.java");
    installed(Command::new("javac").args(["-cp", &format!("{folder}/lib/*"), "-d", &folder, &source]))?;
    let words = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.extend([format!("{folder}:{folder}/lib/*"), "Engines".to_owned()]);
    Ok(words)
}

/// The words that a program takes as its settings.
fn settings(engine: &Engine, row: &UnmodifiedRow) -> String {
    let words = format!("{} {}", engine.prefix, if row.settings == "default" { "" } else { &row.settings });
    let words = words.trim();
    if words.is_empty() { "default".to_owned() } else { words.to_owned() }
}

fn check(scratch: &Scratch, program: &[String], engine: &Engine, row: &UnmodifiedRow) -> (String, Value) {
    let data = scratch.path("data");
    std::fs::remove_dir_all(&data).ok();
    std::fs::create_dir(&data).expect("the folder is made");
    let settings = settings(engine, row);
    let run = |command: &mut Command, count: &str| {
        command.current_dir(scratch.dir()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.args(&program[1..]).args([&settings, "data", count]);
    };
    // The run begins with an empty store that is durable: what making one takes is not promised.
    let mut make = Command::new(&program[0]);
    run(&mut make, "0");
    ok(&mut make);
    let recover = format!("{} --verify {} '{settings}' POOL", program.join(" "), row.lost);
    let mut command = strandline();
    command.args(["check", "--json", "--jobs", "1", "--images", "16", "--time", "90s", "--files", "data"]);
    command.args(["--platform", &row.platform, "--recover", &recover, "--", &program[0]]);
    run(&mut command, engine.transactions);
    let output = command.output().expect("it runs");
    let answer = serde_json::from_slice(&output.stdout);
    (recover, answer.unwrap_or_else(|error| panic!("{row:?}: {error}: {}", stderr(&output))))
}

/// Checks all rows of some engines, and that each finding's token repeats it.
fn hold(program: Result<Vec<String>, String>, engines: &[Engine]) {
    let program = match program {
        Ok(program) => program,
        Err(reason) => return println!("skipped: {}: {reason}", engines[0].name),
    };
    let mut differ = Vec::new();
    for engine in engines {
        let rows = page::unmodified_rows(engine.name);
        assert!(!rows.is_empty(), "docs/engines.md has no rows of {}", engine.name);
        for row in rows {
            let scratch = Scratch::new();
            let started = Instant::now();
            let (recover, answer) = check(&scratch, &program, engine, &row);
            let seconds = started.elapsed().as_secs_f64();
            let findings = answer["findings"].as_array().unwrap_or_else(|| panic!("{row:?}: {answer:#}"));
            let token =
                findings.first().map(|finding| finding["token"].as_str().expect("a token").to_owned());
            if let Some(token) = &token {
                let mut again = strandline();
                again.current_dir(scratch.dir()).args(["check", "--recover", &recover, "--replay", token]);
                assert_eq!(again.output().expect("it runs").status.code(), Some(1), "{row:?}: {token}");
            }
            let images = answer["images"].as_u64().expect("a number");
            println!("{row:?}: {} findings in {images} images, {seconds:.1} s", findings.len());
            differ.extend(row.hold(&answer, &page::Measured { images, seconds, token }));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
#[ignore = "checks an engine for minutes: --long"]
fn sqlite_unmodified() {
    hold(script("sqlite.py", &[]), &[engine("SQLite", "", "10")]);
}

#[test]
#[ignore = "checks an engine for minutes: --long"]
fn git_unmodified() {
    hold(script("git.py", &["git"]), &[engine("git", "", "8")]);
}

#[test]
#[ignore = "checks an engine for minutes: --long"]
fn redis_unmodified() {
    hold(script("redis.py", &["redis-server"]), &[engine("Redis", "", "8")]);
}

#[test]
#[ignore = "checks an engine for minutes: --long"]
fn postgresql_unmodified() {
    hold(script("postgres.py", &["initdb", "pg_ctl", "postgres"]), &[engine("PostgreSQL", "", "8")]);
}

#[test]
#[ignore = "checks an engine for minutes: --long"]
fn etcd_unmodified() {
    hold(script("etcd.py", &["etcd"]), &[engine("etcd", "", "8")]);
}

#[test]
#[ignore = "installs packages and checks engines for minutes: --long"]
fn engines_of_python_packages_unmodified() {
    hold(packaged("lmdb_py.py", "lmdb==3.0.0"), &[engine("LMDB", "", "10")]);
    hold(packaged("leveldb.py", "plyvel==1.5.1"), &[engine("LevelDB", "", "10")]);
    hold(packaged("rocksdb.py", "rocksdict==0.3.29"), &[engine("RocksDB", "", "10")]);
}

#[test]
#[ignore = "builds and checks engines for minutes: --long"]
fn engines_in_rust_unmodified() {
    let engines = [
        engine("redb", "redb", "10"),
        engine("fjall", "fjall", "10"),
        engine("sled", "sled", "10"),
        engine("surrealkv", "surrealkv", "10"),
    ];
    hold(in_rust(), &engines);
}

#[test]
#[ignore = "builds and checks engines for minutes: --long"]
fn engines_in_go_unmodified() {
    let engines = [
        engine("bbolt", "bbolt", "10"),
        engine("Badger", "badger", "10"),
        engine("Pebble", "pebble", "10"),
        engine("goleveldb", "goleveldb", "10"),
    ];
    hold(in_go(), &engines);
}

#[test]
#[ignore = "builds and checks engines for minutes: --long"]
fn engines_in_java_unmodified() {
    let engines =
        [engine("H2", "h2", "8"), engine("H2 MVStore", "mvstore", "8"), engine("MapDB", "mapdb", "8")];
    hold(in_java(), &engines);
}
