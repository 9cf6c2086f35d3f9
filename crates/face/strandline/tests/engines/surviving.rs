//! Real programs whose data is in a pool, recompiled with `--persist` and killed: what was acknowledged is there, nothing is
//! there in part. `docs/persist-programs.md` says how they were changed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::build::{cached, debian_source};
use crate::common::{Scratch, c_sources, cc, has, ok, stderr, stdout};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/programs");
/// Kills of each program under each design.
const KILLS: u64 = 100;
const CLIENTS: usize = 4;
const KEYS: u64 = 60;
const PORT: u16 = 21_977;

fn shell(folder: &Path, line: &str) {
    ok(cached("sh").current_dir(folder).args(["-ec", line]));
}

/// Memory that outlives a process, removed at the end.
fn memory() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a folder in memory")
}

/// Numbers that look random.
fn next(random: &mut u64, bound: u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) % bound
}

/// What a key has: a value, or none.
type Value = Option<Vec<u8>>;

/// What a client knows.
#[derive(Default)]
struct Known {
    acknowledged: HashMap<String, Value>,
    /// A change that was asked for and not acknowledged.
    asked: Option<(String, Value)>,
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn new() -> std::io::Result<Connection> {
        Ok(Connection(BufReader::new(TcpStream::connect(("127.0.0.1", PORT))?)))
    }

    /// Sends a request; the first line of the answer.
    fn ask(&mut self, request: &[u8]) -> std::io::Result<String> {
        self.0.get_mut().write_all(request)?;
        self.line()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn get(&mut self, key: &str) -> std::io::Result<Value> {
        let line = self.ask(format!("get {key}\r\n").as_bytes())?;
        if line == "END" {
            return Ok(None);
        }
        let bytes = line.split(' ').nth(3).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let mut value = vec![0; bytes];
        self.0.read_exact(&mut value)?;
        self.line()?;
        assert_eq!(self.line()?, "END");
        Ok(Some(value))
    }
}

/// Changes keys of its own until the server is killed.
fn client(number: usize, seed: u64, known: &Mutex<Known>) -> std::io::Result<()> {
    let mut random = seed;
    let mut connection = Connection::new()?;
    let mut known = known.lock().expect("nobody panicked");
    loop {
        let key = format!("k{number}-{}", next(&mut random, KEYS));
        let old = known.acknowledged.get(&key).cloned().flatten();
        let text = format!("{key}:{}:", next(&mut random, 1 << 30));
        let lengths = [0, 10, 200, 3000, 20_000];
        let value = [text.as_bytes(), &vec![b'x'; lengths[next(&mut random, 5) as usize]]].concat();
        let (request, new, wanted) = match next(&mut random, 10) {
            0 | 1 => (format!("delete {key}\r\n").into_bytes(), None, ["NOT_FOUND", "DELETED"]),
            2 => {
                let longer = old.as_ref().map(|old| [old, &b"+a"[..]].concat());
                (format!("append {key} 0 0 2\r\n+a\r\n").into_bytes(), longer, ["NOT_STORED", "STORED"])
            }
            3 => {
                assert_eq!(connection.get(&key)?, old, "{key}");
                continue;
            }
            _ => {
                let head = format!("set {key} 0 0 {}\r\n", value.len());
                ([head.as_bytes(), &value, b"\r\n"].concat(), Some(value), ["STORED", "STORED"])
            }
        };
        known.asked = Some((key.clone(), new.clone()));
        let answer = connection.ask(&request)?;
        assert_eq!(answer, wanted[usize::from(old.is_some())], "{key}");
        known.acknowledged.insert(key, new);
        known.asked = None;
    }
}

fn serve(program: &Path, pool: &Path, design: &str) -> Child {
    let mut command = Command::new(program);
    command.env("STRANDLINE_PERSIST", design).args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-m", "64"]);
    command.args(["-t", "4", "-p", &PORT.to_string(), "-e"]).arg(pool).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    for _ in 0..1000 {
        if TcpStream::connect(("127.0.0.1", PORT)).is_ok() {
            return child;
        }
        assert!(child.try_wait().expect("it is ours").is_none(), "{design}: memcached does not start");
        sleep(Duration::from_millis(10));
    }
    panic!("{design}: memcached does not listen");
}

/// Looks at all keys after a restart; how many there are.
fn look(round: u64, clients: &[Mutex<Known>]) -> std::io::Result<()> {
    let mut connection = Connection::new()?;
    let mut live = 0;
    for known in clients {
        let known = &mut *known.lock().expect("nobody panicked");
        let asked = known.asked.take();
        if let Some((key, _)) = &asked {
            known.acknowledged.entry(key.clone()).or_default();
        }
        for (key, value) in &mut known.acknowledged {
            let found = connection.get(key)?;
            let in_flight = asked.as_ref().is_some_and(|(of, new)| of == key && *new == found);
            assert!(found == *value || in_flight, "round {round}: {key}: what was acknowledged is lost");
            live += u64::from(found.is_some());
            *value = found;
        }
    }
    let mut items = connection.ask(b"stats\r\n")?;
    while !items.starts_with("STAT curr_items ") {
        items = connection.line()?;
    }
    assert_eq!(items, format!("STAT curr_items {live}"), "round {round}");
    Ok(())
}

/// Builds memcached from Debian's source; why not, if it can't be had.
fn memcached(scratch: &Scratch) -> Result<PathBuf, String> {
    if !has("gcc") || !has("make") || !has("patch") {
        return Err("no gcc, make or patch".to_owned());
    }
    if !Path::new("/usr/include/event.h").exists() {
        return Err("no libevent (package libevent-dev)".to_owned());
    }
    let source = debian_source(scratch, "memcached")?;
    shell(&source, &format!("patch -p1 < {PROGRAMS}/memcached-1.6.18.patch"));
    let compiler = format!("{} --persist=decoupled", cc("cc"));
    shell(&source, &format!("./configure --disable-docs CC='{compiler}' CFLAGS='-O2 -g' > log 2>&1"));
    // What its build system is made of has got other times than what it makes.
    let tools = "ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=:";
    shell(&source, &format!("make -j2 {tools} memcached > log 2>&1"));
    Ok(source.join("memcached"))
}

#[test]
#[ignore = "builds memcached and kills it for minutes"]
fn memcached_keeps_what_it_acknowledged() {
    let scratch = Scratch::new();
    let program = match memcached(&scratch) {
        Ok(program) => program,
        Err(reason) => return println!("skipped: memcached: {reason}"),
    };
    for design in ["coupled", "decoupled", "strand"] {
        let memory = memory();
        let pool = memory.path().join("pool");
        let clients: Vec<Mutex<Known>> = (0..CLIENTS).map(|_| Mutex::default()).collect();
        for round in 0..KILLS {
            let mut server = serve(&program, &pool, design);
            look(round, &clients).expect("it answers");
            scope(|scope| {
                for (number, known) in clients.iter().enumerate() {
                    // It ends as its server does.
                    scope.spawn(move || client(number, round * 64 + number as u64, known).err());
                }
                sleep(Duration::from_millis(30 + round * 53 % 300));
                server.kill().expect("it is ours");
                server.wait().expect("it is ours");
            });
        }
        println!("memcached {design}: {KILLS} kills");
    }
}

#[test]
#[ignore = "builds SQLite and kills it for minutes"]
fn sqlite_keeps_its_transactions_in_a_pool() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let sqlite = c_sources("libsqlite3-sys", "sqlite3");
    let line = format!(
        "{} --persist=decoupled -O1 -g -I{2} -o sqlite {PROGRAMS}/sqlite.c {2}/sqlite3.c -pthread {1}",
        cc("cc"),
        "-lm -ldl",
        sqlite.display()
    );
    shell(scratch.dir(), &line);
    let program = scratch.path("sqlite");
    for design in ["coupled", "decoupled", "strand", "atlas"] {
        let memory = memory();
        let pool = memory.path().join("pool");
        for round in 0..KILLS {
            let lines = std::fs::File::create(scratch.path("lines")).expect("a file");
            let mut run = Command::new(&program);
            run.env("STRANDLINE_PERSIST", design).arg(&pool).args(["run", "3"]).stdout(lines);
            let mut run = run.spawn().expect("it runs");
            sleep(Duration::from_millis(20 + round * 29 % 230));
            run.kill().expect("it is ours");
            run.wait().expect("it is ours");
            // The last line may be cut.
            let said = std::fs::read_to_string(scratch.path("lines")).expect("a file");
            let whole = said.rfind('\n').map_or("", |end| &said[..=end]);
            let whole = scratch.file("whole", whole);
            let mut check = Command::new(&program);
            let check = check.env("STRANDLINE_PERSIST", design).arg(&pool).arg("check").arg(whole);
            let output = check.output().expect("it runs");
            if output.status.code() == Some(4) {
                // It was killed as it made the pool.
                assert!(said.is_empty(), "{design}, round {round}");
                std::fs::remove_file(&pool).expect("it is there");
                continue;
            }
            assert!(output.status.success(), "{design}, {round}: {}{}", stdout(&output), stderr(&output));
        }
        println!("SQLite {design}: {KILLS} kills");
    }
}

/// Builds Kyoto Cabinet from Debian's source, and the program with it; why not, if it can't be had.
fn kyoto(scratch: &Scratch) -> Result<PathBuf, String> {
    if !has("g++") || !has("make") {
        return Err("no g++ or make".to_owned());
    }
    let source = debian_source(scratch, "kyotocabinet")?;
    let [c, cxx] = ["cc", "c++"].map(|verb| format!("{} --persist=msync", cc(verb)));
    let configure = format!("./configure --disable-shared --disable-zlib CC='{c}' CXX='{cxx}' > log 2>&1");
    shell(&source, &configure);
    shell(&source, "make -j2 libkyotocabinet.a > log 2>&1");
    shell(&source, &format!("{cxx} -O2 -I. -o kyoto {PROGRAMS}/kyoto.cc libkyotocabinet.a -pthread"));
    Ok(source.join("kyoto"))
}

/// Kills it so often; how many kills left a database that its program finds fault with, which then begins anew.
fn kyoto_killed(program: &Path, design: &str, kills: u64) -> u64 {
    let memory = memory();
    let (database, lines) = (memory.path().join("database.kch"), memory.path().join("lines"));
    let mut bad = 0;
    for round in 0..kills {
        let output = std::fs::File::create(&lines).expect("a file");
        let mut run = Command::new(program);
        run.env("STRANDLINE_PERSIST", design).arg(&database).arg("run").stdout(output);
        let mut run = run.spawn().expect("it runs");
        sleep(Duration::from_millis(20 + round * 37 % 350));
        run.kill().expect("it is ours");
        run.wait().expect("it is ours");
        let said = std::fs::read_to_string(&lines).expect("a file");
        // The last line may be cut.
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let least = whole.lines().next_back().unwrap_or("0");
        let mut check = Command::new(program);
        let check = check.env("STRANDLINE_PERSIST", design).arg(&database).args(["check", least]);
        let output = check.output().expect("it runs");
        if !output.status.success() {
            println!("{design}, round {round}: {}", stderr(&output).trim());
            bad += 1;
            for entry in std::fs::read_dir(memory.path()).expect("a folder").flatten() {
                _ = std::fs::remove_file(entry.path());
            }
        }
    }
    println!("Kyoto Cabinet {design}: {bad} of {kills} kills left a mixture");
    bad
}

#[test]
#[ignore = "builds Kyoto Cabinet and kills it for a minute (--long)"]
fn kyoto_cabinet_commits_what_it_synchronises() {
    let scratch = Scratch::new();
    let program = match kyoto(&scratch) {
        Ok(program) => program,
        Err(reason) => return println!("skipped: Kyoto Cabinet: {reason}"),
    };
    assert_eq!(kyoto_killed(&program, "msync", KILLS), 0);
    // A check that finds nothing in what a plain msync leaves would find nothing elsewhere.
    assert!(kyoto_killed(&program, "none", KILLS) > 0);
}
