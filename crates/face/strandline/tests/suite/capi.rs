//! `libstrandline`: C and C++ programs on its pools, as they are, killed, and under `strandline check`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::capi::{INCLUDE, library, link};
use crate::common::{Scratch, compile, has, number, ok, record, stderr, stdout, strandline};
use serde_json::Value;

const ENGINES: [&str; 7] = ["redo", "undo", "micro-buffer", "shadow", "ssp", "group", "none"];
/// Those that protect.
const SOUND: [&str; 6] = ["redo", "undo", "micro-buffer", "shadow", "ssp", "group"];
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/pools");
const CALLS: &str = include_str!("../programs/pool_calls.c");

/// Compiles `source` to `name` with a plain compiler, without a warning.
fn build(scratch: &Scratch, compiler: &str, name: &str, source: &Path, options: &str) -> PathBuf {
    let program = scratch.path(name);
    let mut command = Command::new(compiler);
    command.args("-O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE".split(' ')).args(options.split_whitespace());
    ok(command.arg("-o").arg(&program).arg(source).args(link()));
    program
}

/// Compiles an example for `strandline check`.
fn observed(scratch: &Scratch, verb: &str, name: &str, source: &str) {
    let arguments = format!("-D_GNU_SOURCE -O1 -g -o {name} {EXAMPLES}/{source} {}", link().join(" "));
    compile(scratch.dir(), verb, &arguments);
}

#[test]
fn the_header_declares_what_the_library_has() {
    if !has("nm") {
        return;
    }
    let symbols = stdout(&ok(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library().join("libstrandline.so"))));
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let read = |name| std::fs::read_to_string(format!("{INCLUDE}/{name}")).expect("it is there");
    let header =
        ["strandline_pool.h", "strandline_kv.h", "strandline_tier.h", "strandline_vnvm.h"].map(read).concat();
    let declaration =
        |line: &&str| !line.starts_with([' ', '*', '/', '#', '_', '}', '\t']) && line.contains('(');
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(declaration)
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .collect();
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, exported);
}

/// What programs go by when they choose a library: its name, which has the major version, and its number,
/// which is the header's.
#[test]
fn header_and_library_are_of_one_version() {
    if !has("gcc") || !has("readelf") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("version.c", include_str!("../programs/pool_version.c"));
    let program = build(&scratch, "gcc", "version", &source, "-std=c99");
    assert_eq!(stdout(&ok(&mut Command::new(&program))), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let needed = stdout(&ok(Command::new("readelf").arg("-d").arg(&program)));
    assert!(needed.contains(&format!("Shared library: [libstrandline.so.{major}]")), "{needed}");
}

#[test]
fn wrong_calls_are_errors_with_every_engine() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("calls.c", CALLS);
    let shared = build(&scratch, "gcc", "calls", &source, "-std=c99");
    for engine in ENGINES {
        let folder = scratch.path(engine);
        std::fs::create_dir(&folder).expect("there is room");
        ok(Command::new(&shared).arg(&folder).arg(engine));
    }
    if has("valgrind") {
        let folder = scratch.path("valgrind");
        std::fs::create_dir(&folder).expect("there is room");
        let mut command = Command::new("valgrind");
        ok(command.args(["--quiet", "--error-exitcode=9"]).arg(&shared).arg(&folder).arg("redo"));
    }
    // The static library, and another compiler.
    let alone = scratch.path("alone");
    let mut command = Command::new(if has("clang") { "clang" } else { "gcc" });
    command
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", &format!("-I{INCLUDE}"), "-o"])
        .arg(&alone);
    command.arg(&source).arg(library().join("libstrandline.a"));
    ok(command.args(["-pthread", "-ldl", "-lm"]));
    let folder = scratch.path("static");
    std::fs::create_dir(&folder).expect("there is room");
    ok(Command::new(&alone).arg(&folder).arg("redo"));
}

#[test]
fn a_map_keeps_what_it_was_given() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let map = build(&scratch, "gcc", "map", &Path::new(EXAMPLES).join("map.c"), "-std=c11");
    let run = |engine: &str, arguments: &[&str]| {
        let mut command = Command::new(&map);
        let (verb, rest) = arguments.split_first().expect("a verb");
        command.env("STRANDLINE_ENGINE", engine).arg(verb).arg(scratch.path(engine)).args(rest);
        command.output().expect("it runs")
    };
    for engine in ENGINES {
        for (arguments, status, reported) in [
            (&["put", "1", "10"][..], 0, ""),
            (&["put", "2", "20"], 0, ""),
            (&["put", "1", "11"], 0, ""),
            (&["get", "1"], 0, "11\n"),
            (&["remove", "2"], 0, ""),
            (&["remove", "2"], 1, ""),
            (&["get", "2"], 1, ""),
            (&["list"], 0, "1 11\n"),
            (&["--recover"], 0, ""),
        ] {
            let output = run(engine, arguments);
            assert_eq!(output.status.code(), Some(status), "{engine} {arguments:?}: {}", stderr(&output));
            assert_eq!(stdout(&output), reported, "{engine} {arguments:?}");
        }
        let info = ok(strandline().args(["pool", "check"]).arg(scratch.path(engine)));
        assert!(stdout(&info).contains("whole; nothing to recover"), "{}", stdout(&info));
    }
    let output = run("slow", &["list"]);
    assert!(stderr(&output).contains("redo, undo"), "{}", stderr(&output));
}

/// Keys of a round: all rounds' have room in the pool, however late a kill comes.
const ROUND: u64 = 500;

/// Lets `map fill` or `map load` put keys until it has reported so many and is killed; the keys that it
/// reported.
fn killed_after(map: &Path, pool: &Path, engine: &str, verb: &str, from: u64, reported: usize) -> Vec<u64> {
    let mut child = Command::new(map)
        .env("STRANDLINE_ENGINE", engine)
        .arg(verb)
        .arg(pool)
        .args([from.to_string(), (from + ROUND).to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut text = String::new();
    for _ in 0..reported {
        lines.read_line(&mut text).expect("it is text");
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ran");
    lines.read_to_string(&mut text).expect("it is text");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[test]
fn a_killed_program_loses_nothing() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let map = build(&scratch, "gcc", "map", &Path::new(EXAMPLES).join("map.c"), "-std=c11");
    for engine in SOUND {
        let pool = scratch.path(engine);
        let mut there = BTreeSet::new();
        let mut seed = 1u64;
        for round in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let reported = 1 + (seed >> 33) as usize % 60;
            // So many more may be there, of all threads, than were reported.
            let (verb, more) = if round % 2 == 1 { ("load", 4 * 16) } else { ("fill", 4) };
            there.extend(killed_after(&map, &pool, engine, verb, round * ROUND, reported));
            let output = ok(Command::new(&map).arg("list").arg(&pool));
            let text = stdout(&output);
            let found: Vec<(u64, u64)> = text
                .lines()
                .filter_map(|line| line.split_once(' '))
                .map(|(key, value)| (key.parse().expect("a number"), value.parse().expect("a number")))
                .collect();
            assert!(found.iter().all(|(key, value)| *value == key * 7), "{engine}: {text}");
            let keys: BTreeSet<u64> = found.iter().map(|(key, _)| *key).collect();
            assert!(there.is_subset(&keys), "{engine}: lost {:?}", there.difference(&keys));
            assert!(keys.len() <= there.len() + more, "{engine}: {} and {}", keys.len(), there.len());
            there = keys;
        }
    }
}

/// `strandline check` of a program on a new pool; what it says as JSON.
fn check(scratch: &Scratch, engine: &str, recover: &str, program: &[&str]) -> (Output, Value) {
    check_with(scratch, &[], engine, recover, program)
}

/// The same with more options.
fn check_with(
    scratch: &Scratch,
    options: &[&str],
    engine: &str,
    recover: &str,
    program: &[&str],
) -> (Output, Value) {
    _ = std::fs::remove_file(scratch.path("pool"));
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--json", "--recover", recover]);
    if !options.contains(&"--images") {
        command.args(["--images", "64"]);
    }
    command.args(options).arg("--");
    let output = command.env("STRANDLINE_ENGINE", engine).args(program).output().expect("it runs");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{program:?}: {error}: {}", stderr(&output)));
    (output, answer)
}

/// Messages of what was found, and all of it as text.
fn findings(answer: &Value) -> (Vec<String>, String) {
    let list = answer["findings"].as_array().cloned().unwrap_or_default();
    let messages = list.iter().filter_map(|finding| finding["message"].as_str().map(str::to_owned));
    (messages.collect(), format!("{list:#?}"))
}

/// Recovery rejects what the run leaves when nothing is lost, and says this.
fn assert_rejected(output: &Output, answer: &Value, said: &str) {
    let doubt = &answer["no_verdict"][0];
    assert_eq!((output.status.code(), &doubt["kind"]), (Some(2), &Value::from("rejected")), "{answer:#}");
    assert!(doubt["text"].as_str().is_some_and(|text| text.contains(said)), "{answer:#}");
}

#[test]
fn a_map_survives_every_crash() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    observed(&scratch, "cc", "map", "map.c");
    for engine in SOUND {
        for program in [&["./map", "try", "pool"][..], &["./map", "fill", "pool", "0", "8"]] {
            let recover =
                if program[1] == "try" { "./map --recover POOL try" } else { "./map --recover POOL" };
            let (output, answer) = check(&scratch, engine, recover, program);
            let (messages, all) = findings(&answer);
            assert!(messages.is_empty(), "{engine} {program:?}: {all}");
            assert_eq!(output.status.code(), Some(0), "{engine} {program:?}: {}", stderr(&output));
            assert!(answer["images"].as_u64() > Some(100), "{answer:#}");
        }
    }
}

#[test]
fn a_map_in_an_ordinary_file_survives_every_crash() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    observed(&scratch, "cc", "map", "map.c");
    let recover = "./map --recover POOL try";
    let files = ["--files", "pool"];
    for platform in ["ext4", "posix"] {
        let options = [files[0], files[1], "--platform", platform];
        let (output, answer) = check_with(&scratch, &options, "redo", recover, &["./map", "try", "pool"]);
        let (messages, all) = findings(&answer);
        assert!(messages.is_empty(), "{platform}: {all}");
        assert_eq!(output.status.code(), Some(0), "{platform}: {}", stderr(&output));
        assert!(answer["images"].as_u64() > Some(100), "{answer:#}");
    }
    let mistaken = ["./map", "try", "pool", "count-later"];
    let (_, answer) = check_with(&scratch, &files, "redo", "./map --recover POOL", &mistaken);
    let (messages, all) = findings(&answer);
    assert!(messages.iter().any(|message| message.contains("are counted")), "{all}");
}

#[test]
fn mistakes_with_regions_are_found_with_their_lines() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    observed(&scratch, "cc", "map", "map.c");
    let recover = "./map --recover POOL";
    for (mistake, said) in [
        ("count-later", "keys are there, and"),
        ("link-first", "where it does not belong"),
        ("leak", "blocks are allocated for"),
    ] {
        for engine in ["redo", "undo", "micro-buffer"] {
            let (output, answer) = check(&scratch, engine, recover, &["./map", "try", "pool", mistake]);
            let (messages, all) = findings(&answer);
            if mistake == "leak" {
                // It is there without a crash.
                assert_rejected(&output, &answer, said);
                continue;
            }
            assert_eq!(output.status.code(), Some(1), "{engine} {mistake}: {all}");
            assert!(messages.iter().any(|message| message.contains(said)), "{engine} {mistake}: {all}");
            assert!(all.contains("map.c") && all.contains("put"), "{engine} {mistake}: {all}");
        }
    }
    // Without protection the stores are the program's own lines.
    let (_, answer) = check(&scratch, "none", recover, &["./map", "try", "pool"]);
    let (messages, all) = findings(&answer);
    assert!(messages.iter().any(|message| message.contains("are counted")), "{all}");
    assert!(all.contains("add_to_count"), "{all}");
}

/// A pool that grows while it is filled, and whose blocks are moved together.
fn chest(scratch: &Scratch) {
    let source = scratch.file("chest.c", include_str!("../programs/pool_chest.c"));
    let arguments = format!("-D_GNU_SOURCE -O1 -g -o chest {} {}", source.display(), link().join(" "));
    compile(scratch.dir(), "cc", &arguments);
}

#[test]
fn pools_grow_and_blocks_are_moved() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("chest.c", include_str!("../programs/pool_chest.c"));
    let chest = build(&scratch, "gcc", "chest", &source, "-std=c11");
    for engine in ENGINES {
        let folder = scratch.path(engine);
        std::fs::create_dir(&folder).expect("there is room");
        ok(Command::new(&chest).env("STRANDLINE_ENGINE", engine).arg("calls").arg(&folder));
    }
    if has("g++") {
        let source = scratch.file("more.cc", include_str!("../programs/pool_more.cc"));
        let more = build(&scratch, "g++", "more", &source, "-std=c++17 -pedantic");
        ok(Command::new(more).arg(scratch.dir()));
    }
}

#[test]
fn a_pool_that_grows_and_is_tidied_up_survives_every_crash() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    chest(&scratch);
    let options = ["--images", "8"];
    for engine in ["redo", "micro-buffer"] {
        let program = ["./chest", "try", "pool"];
        let (output, answer) = check_with(&scratch, &options, engine, "./chest --recover POOL", &program);
        let (messages, all) = findings(&answer);
        assert!(messages.is_empty(), "{engine}: {all}");
        assert_eq!(output.status.code(), Some(0), "{engine}: {}", stderr(&output));
        assert!(answer["images"].as_u64() > Some(100), "{answer:#}");
        let length = std::fs::metadata(scratch.path("pool")).expect("it is there").len();
        assert!(length > 1 << 16, "it grew to {length}");
    }
    let program = ["./chest", "try", "pool", "two-regions"];
    let (_, answer) = check_with(&scratch, &options, "redo", "./chest --recover POOL", &program);
    let (messages, all) = findings(&answer);
    assert!(messages.iter().any(|message| message.contains("a sheet that is not allocated")), "{all}");
    assert!(all.contains("chest.c") && all.contains("move"), "{all}");
}

/// A process that has read a pool, which it opened to look only, comes behind the one that wrote to it.
#[test]
fn who_reads_a_pool_comes_behind_who_wrote_it() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("watch.c", include_str!("../programs/pool_watch.c"));
    let arguments = format!("-D_GNU_SOURCE -O1 -g -o watch {} {}", source.display(), link().join(" "));
    compile(scratch.dir(), "cc", &arguments);
    for engine in ["redo", "ssp"] {
        ["first", "second"].iter().for_each(|pool| _ = std::fs::remove_file(scratch.path(pool)));
        let program = ["./watch", "work", "first", "second"];
        let few = ["--images", "16"];
        let (output, answer) = check_with(&scratch, &few, engine, "./watch --recover POOL", &program);
        let (messages, all) = findings(&answer);
        assert!(messages.is_empty(), "{engine}: {all}");
        assert_eq!(output.status.code(), Some(0), "{engine}: {}", stderr(&output));
        assert!(answer["images"].as_u64() > Some(100), "{answer:#}");
    }
}

/// What is leaked shows in the pool, whatever program made it.
#[test]
fn leaks_of_a_program_in_c_are_reported() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.file("chest.c", include_str!("../programs/pool_chest.c"));
    let chest = build(&scratch, "gcc", "chest", &source, "-std=c11");
    for (mistake, reported) in
        [("none", "a word leads to each block"), ("leak", "possibly leaked: 1 block of 1.00 KiB")]
    {
        let pool = scratch.path(mistake);
        ok(Command::new(&chest).arg("try").arg(&pool).arg(mistake));
        let said = stdout(&ok(strandline().args(["pool", "check"]).arg(&pool)));
        assert!(said.contains(reported), "{said}");
    }
}

/// What `crates/library/capi/install` puts in a place is found by `pkg-config`, if there is one, and works.
#[test]
fn what_is_installed_is_found_and_works() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../library/capi/install");
    let prefix = scratch.path("a prefix");
    ok(Command::new("sh").arg(script).arg(&prefix).env("LIBRARY", library()));
    let version = env!("CARGO_PKG_VERSION");
    let named = [
        format!("lib/libstrandline.so.{version}"),
        format!("lib/libstrandline.so.{}", env!("CARGO_PKG_VERSION_MAJOR")),
    ];
    let files = [
        "include/strandline_kv.h",
        "include/strandline_kv.hpp",
        "include/strandline_tier.h",
        "include/strandline_pool.h",
        "include/strandline_vnvm.h",
        "include/strandline.hpp",
        "lib/libstrandline.a",
        "lib/libstrandline.so",
    ];
    for file in files.into_iter().chain(named.iter().map(String::as_str)) {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    if has("pkg-config") {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--modversion", "strandline"]);
        assert_eq!(stdout(&ok(&mut command)).trim(), version);
    }
    let source = scratch.file("calls.c", CALLS);
    for kind in [&["--cflags", "--libs"][..], &["--static", "--cflags", "--libs"]] {
        let mut flags = vec![
            format!("-I{}", prefix.join("include").display()),
            format!("-L{}", prefix.join("lib").display()),
            "-lstrandline".to_owned(),
            "-pthread".to_owned(),
        ];
        if has("pkg-config") {
            let mut command = Command::new("pkg-config");
            command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(kind).arg("strandline");
            let reported = stdout(&ok(&mut command));
            let unquoted = reported.replace("\\ ", "\0");
            flags = unquoted.split_whitespace().map(|flag| flag.replace('\0', " ")).collect();
        }
        let program = scratch.path("calls");
        let mut command = Command::new("gcc");
        command.args(["-std=c99", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(&source).args(&flags);
        ok(&mut command);
        let folder = scratch.path(&format!("folder {}", kind.len()));
        std::fs::create_dir(&folder).expect("there is room");
        ok(Command::new(program).arg(&folder).arg("redo").env("LD_LIBRARY_PATH", prefix.join("lib")));
    }
}

#[test]
fn a_queue_in_cxx_is_checked_like_one_in_c() {
    if !has("g++") {
        return;
    }
    let scratch = Scratch::new();
    for compiler in ["g++", "clang++"].into_iter().filter(|name| has(name)) {
        let queue = build(
            &scratch,
            compiler,
            compiler,
            &Path::new(EXAMPLES).join("queue.cc"),
            "-std=c++17 -pedantic",
        );
        let pool = scratch.path(&format!("pool of {compiler}"));
        assert_eq!(stdout(&ok(Command::new(&queue).arg(&pool))), "30\n");
        ok(Command::new(&queue).arg("--recover").arg(&pool));
        let again = Command::new(&queue).arg(&pool).output().expect("it runs");
        assert!(stderr(&again).contains("queue: can't create"), "{}", stderr(&again));
    }
    observed(&scratch, "c++", "queue", "queue.cc");
    let recover = "./queue --recover POOL";
    for (mistake, said) in [
        ("none", ""),
        ("two-regions", "a job is lost, or done twice"),
        ("not-freed", "a job that is done is still allocated"),
    ] {
        let (output, answer) = check(&scratch, "redo", recover, &["./queue", "pool", mistake]);
        let (messages, all) = findings(&answer);
        if said.is_empty() {
            assert!(messages.is_empty(), "{all}");
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        } else if mistake == "not-freed" {
            assert_rejected(&output, &answer, said);
        } else {
            assert!(messages.iter().any(|message| message == said), "{mistake}: {all}");
            assert!(all.contains("queue.cc") && all.contains("work"), "{mistake}: {all}");
        }
    }
}

#[test]
fn a_recording_has_the_accesses_of_the_library() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    observed(&scratch, "cc", "map", "map.c");
    let info = record(&scratch, &["--values"], &["./map", "fill", "pool", "0", "40"]);
    assert_eq!(number(&info, "threads"), 5);
    let dump = crate::common::dump(&scratch.path("t.slt")).join("\n");
    let regions = |what: &str| dump.matches(what).count();
    assert_eq!((regions("region-begin"), regions("region-end")), (40, 40));
    assert!(dump.contains("pool") && dump.contains("(map.c:"), "the stores are the program's");
    assert!(number(&info, "fences") >= 40, "{info:#}");
}

/// What the library does to make and close a pool is its own work, and no report asks for another line in the
/// program.
#[test]
fn what_making_a_pool_does_is_the_librarys_own_work() {
    if !has("gcc") {
        return;
    }
    const SOURCE: &str = "#include <strandline_pool.h>\nint main(void)\n{\n    sl_pool *pool = sl_pool_create(\"app.pool\", \"x\", 1 << 20, 64, 0);\n    return pool ? sl_pool_close(pool) : 1;\n}\n";
    let scratch = Scratch::new();
    scratch.file("own.c", SOURCE);
    compile(scratch.dir(), "cc", &format!("-O1 -g -o own own.c {}", link().join(" ")));
    record(&scratch, &["--pmem", "app.pool"], &["./own"]);
    let lines = crate::common::dump(&scratch.path("t.slt"));
    let made = |line: &&String| {
        let op = line.split_whitespace().nth(1).unwrap_or_default();
        ["map", "clwb", "clflushopt", "clflush", "sfence"].contains(&op)
    };
    assert!(lines.iter().filter(made).count() > 10, "{lines:?}");
    for line in lines.iter().filter(made) {
        assert!(
            line.ends_with("sl_pool_create (libstrandline)")
                || line.ends_with("sl_pool_close (libstrandline)"),
            "{line}"
        );
    }
    std::fs::remove_file(scratch.path("app.pool")).expect("the program has made it");
    let profile = strandline()
        .args(["profile", "--pmem", "app.pool", "--", "./own"])
        .current_dir(scratch.dir())
        .output();
    let text = stdout(&profile.expect("it runs"));
    assert!(text.contains("Nothing to change in the program") && !text.contains("own.c:4"), "{text}");
    std::fs::remove_file(scratch.path("app.pool")).expect("the program has made it");
    let check =
        strandline().args(["check", "--pmem", "app.pool", "--", "./own"]).current_dir(scratch.dir()).output();
    let text = stdout(&check.expect("it runs"));
    assert!(!text.contains("own.c"), "{text}");
}
