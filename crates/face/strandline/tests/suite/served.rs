//! `strandline serve`: Redis's own clients, servers that are killed, full and damaged stores.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Scratch, has, ok, stdout, strandline};
use serde_json::Value;

/// A server of ours.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(store: &Path, options: &[&str]) -> Server {
        let mut command = strandline();
        Server::of(command.args(["serve", "--port", "0", "--json"]).args(options).arg(store))
    }

    fn of(command: &mut Command) -> Server {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let out = process.stdout.take().expect("it is a pipe");
        BufReader::new(out).read_line(&mut line).expect("it says where it is");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        Server { process, port: said["port"].as_u64().expect("a port") as u16 }
    }

    fn client(&self) -> Client {
        Client::connect(self.port).expect("it listens")
    }

    fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Ends it in order.
    fn end(mut self) {
        ok(Command::new("kill").arg("-TERM").arg(self.process.id().to_string()));
        assert!(self.process.wait().expect("it ends").success());
    }
}

/// Ends of tests that failed leave no server.
impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The least that a client can be.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// The reply to a request: text, a number or an error with its first byte, `None` for null.
    fn ask(&mut self, words: &[&str]) -> std::io::Result<Option<String>> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else { return Ok(Some(line.to_owned())) };
        if length == "-1" {
            return Ok(None);
        }
        let mut bytes = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.stream.read_exact(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()))
    }

    fn text(&mut self, words: &[&str]) -> String {
        self.ask(words).expect("a reply").unwrap_or_else(|| "(nil)".into())
    }
}

#[test]
fn redis_clients_work_unchanged() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.path("store"), &[]);
    let port = server.port.to_string();
    if has("redis-cli") {
        let run = |words: &[&str]| stdout(&ok(Command::new("redis-cli").args(["-p", &port]).args(words)));
        assert_eq!(run(&["SET", "author", "Woolf"]), "OK\n");
        assert_eq!(run(&["GET", "author"]), "Woolf\n");
        assert_eq!(run(&["-3", "HSET", "book", "year", "1931"]), "1\n");
        assert_eq!(run(&["--scan", "--pattern", "b*"]), "book\n");
        assert!(run(&["INFO", "persistence"]).contains("acknowledged:durable"));
    }
    if has("redis-benchmark") {
        let tests = "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset";
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &port, "-n", "2000", "-c", "20", "-P", "4", "-q", "-t", tests]);
        let said = stdout(&ok(&mut command));
        assert!(said.matches("requests per second").count() >= 10, "{said}");
        assert!(!said.contains("rror"), "{said}");
    }
    // Debian's own has Debian's packages, whatever comes first in the path.
    let has_redis = |python: &&str| {
        Command::new(python).args(["-c", "import redis"]).output().is_ok_and(|ran| ran.status.success())
    };
    if let Some(python) = ["/usr/bin/python3", "python3"].iter().find(|python| has_redis(python)) {
        let script = "import redis, sys\n\
            r = redis.Redis(port=int(sys.argv[1]), decode_responses=True)\n\
            assert r.ping() and r.set('py', 'one', ex=100) and r.get('py') == 'one' and r.ttl('py') > 90\n\
            p = r.pipeline()\n\
            p.incr('n').incrby('n', 41).hset('h', mapping={'a': 1, 'b': 2}).rpush('l', 1, 2, 3)\n\
            assert p.execute() == [1, 42, 2, 3], 'a transaction'\n\
            assert r.hgetall('h') == {'a': '1', 'b': '2'} and r.lrange('l', 0, -1) == ['1', '2', '3']\n\
            r.zadd('z', {'x': 2.5, 'y': 1})\n\
            assert r.zrange('z', 0, -1, withscores=True) == [('y', 1.0), ('x', 2.5)]\n\
            r.sadd('s', *range(500))\n\
            assert len(set(r.sscan_iter('s'))) == 500 and set(r.scan_iter('[hls]')) == {'h', 'l', 's'}\n\
            try:\n    r.lpush('h', 1)\n    assert False\n\
            except redis.ResponseError as error:\n    assert 'WRONGTYPE' in str(error)\n";
        ok(Command::new(python).args(["-c", script, &port]));
    }
    server.end();
}

#[test]
fn limits_and_passwords_hold() {
    let scratch = Scratch::new();
    let options = ["--password", "secret", "--request", "64KiB", "--clients", "3"];
    let server = Server::start(&scratch.path("store"), &options);
    let mut client = server.client();
    assert!(client.text(&["GET", "a"]).starts_with("-NOAUTH"));
    assert!(client.text(&["AUTH", "wrong"]).starts_with("-WRONGPASS"));
    assert_eq!(client.text(&["AUTH", "secret"]), "+OK");
    assert_eq!(client.text(&["SET", "a", "b"]), "+OK");
    let mut others = [server.client(), server.client()];
    others.iter_mut().for_each(|other| assert_eq!(other.text(&["AUTH", "secret"]), "+OK"));
    let mut last = server.client();
    assert!(last.ask(&["PING"]).map_or(true, |reply| reply.is_some_and(|text| text.contains("max number"))));
    let large = "x".repeat(100 << 10);
    let refused = others[0].ask(&["SET", "a", &large]);
    assert!(refused.map_or(true, |reply| reply.is_some_and(|text| text.starts_with('-'))));
    assert_eq!(client.text(&["GET", "a"]), "b", "who kept to the limits is served");
    server.end();
    let open = strandline().args(["serve", "--bind", "0.0.0.0"]).arg(scratch.path("other")).output();
    let open = open.expect("it runs");
    assert_eq!(open.status.code(), Some(2), "others reach it, and there is no password");
}

/// What a client was answered, of its own keys.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    sets: u64,
    counted: u64,
    pushed: u64,
}

fn value(thread: usize, number: u64) -> String {
    format!("{thread}:{number}:").repeat(1 + number as usize % 50)
}

/// Writes until the server is gone.
fn write_on(port: u16, thread: usize, mut answered: Answered) -> Answered {
    let Ok(mut client) = Client::connect(port) else { return answered };
    let (key, counter, list) = (format!("k{thread}"), format!("n{thread}"), format!("l{thread}"));
    loop {
        let number = answered.sets + 1;
        let slot = format!("{key}:{}", number % 100);
        let Ok(reply) = client.ask(&["SET", &slot, &value(thread, number)]) else { return answered };
        assert_eq!(reply.as_deref(), Some("+OK"));
        answered.sets = number;
        let Ok(reply) = client.ask(&["INCR", &counter]) else { return answered };
        answered.counted = reply.and_then(|text| text[1..].parse().ok()).expect("a number");
        let Ok(reply) = client.ask(&["RPUSH", &list, &number.to_string()]) else { return answered };
        answered.pushed = reply.and_then(|text| text[1..].parse().ok()).expect("a number");
    }
}

/// All that was answered is there, and at most the request besides that was under way. What is there now.
fn there(client: &mut Client, thread: usize, answered: Answered) -> Answered {
    let key = format!("k{thread}");
    let found = |client: &mut Client, number: u64| client.text(&["GET", &format!("{key}:{}", number % 100)]);
    let newer = found(client, answered.sets + 1) == value(thread, answered.sets + 1);
    for number in answered.sets.saturating_sub(98)..=answered.sets {
        if number > 0 {
            assert_eq!(found(client, number), value(thread, number), "{answered:?}");
        }
    }
    let number = |client: &mut Client, words: &[&str]| -> u64 {
        client.text(words).trim_start_matches(':').parse().unwrap_or(0)
    };
    let counted = number(client, &["GET", &format!("n{thread}")]);
    assert!((answered.counted..=answered.counted + 1).contains(&counted), "{counted}, {answered:?}");
    let pushed = number(client, &["LLEN", &format!("l{thread}")]);
    assert!((answered.pushed..=answered.pushed + 1).contains(&pushed), "{pushed}, {answered:?}");
    Answered { sets: answered.sets + u64::from(newer), counted, pushed }
}

fn killed(engine: &str, kills: u64) {
    const THREADS: usize = 3;
    let scratch = Scratch::new();
    let store = scratch.path("store");
    let mut answered = [Answered::default(); THREADS];
    for kill in 0..kills {
        let server = Server::start(&store, &["--engine", engine]);
        let mut client = server.client();
        for (thread, answered) in answered.iter_mut().enumerate() {
            *answered = there(&mut client, thread, *answered);
        }
        let port = server.port;
        let threads: Vec<_> = answered
            .iter()
            .enumerate()
            .map(|(at, answered)| (at, *answered))
            .map(|(at, answered)| thread::spawn(move || write_on(port, at, answered)))
            .collect();
        thread::sleep(Duration::from_millis(5 + kill * 37 % 90));
        server.kill();
        for (answered, thread) in answered.iter_mut().zip(threads) {
            *answered = thread.join().expect("every reply was right");
        }
    }
    assert!(answered.iter().all(|answered| answered.pushed > 0), "{answered:?}");
    // Once more, and then in order.
    for _ in 0..2 {
        let server = Server::start(&store, &[]);
        let mut client = server.client();
        for (thread, answered) in answered.iter_mut().enumerate() {
            *answered = there(&mut client, thread, *answered);
        }
        server.end();
    }
}

/// A reply to a write means that it survives.
#[test]
fn a_server_that_is_killed_keeps_what_it_answered() {
    killed("log", 12);
    killed("slab", 12);
}

#[test]
#[ignore = "takes minutes: ./test --long"]
fn a_server_that_is_killed_thousands_of_times_keeps_what_it_answered() {
    killed("log", 1500);
    killed("slab", 1500);
}

/// A full disk: writes are refused, reads and deletes go on, and then writes, too.
#[test]
fn a_full_store_goes_on() {
    let scratch = Scratch::new();
    for engine in ["log", "slab"] {
        let store = scratch.path(engine);
        // Blocks of 512 bytes. The signal that a file is too long would end it.
        let shell = "trap '' XFSZ; ulimit -f 163840; exec \"$@\"";
        let ours = strandline();
        let mut command = Command::new("sh");
        command
            .args(["-c", shell, "sh"])
            .arg(ours.get_program())
            .envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["serve", "--port", "0", "--json", "--ack", "early", "--engine", engine]).arg(&store);
        let server = Server::of(&mut command);
        let mut client = server.client();
        let key = |number: u64| format!("key{number}");
        let value = |number: u64| format!("{number:07},").repeat(1500);
        let fill = |client: &mut Client, from: u64| {
            let refused = (from..from + 100_000).find(|number| {
                let reply = client.text(&["SET", &key(*number), &value(*number)]);
                assert!(reply == "+OK" || reply.starts_with('-'), "{reply}");
                reply != "+OK"
            });
            refused.expect("a full store") - from
        };
        let first = fill(&mut client, 0);
        assert!(first > 500, "{engine}: {first}");
        for number in (0..first).step_by(2) {
            assert_eq!(client.text(&["DEL", &key(number)]), ":1", "{engine} {number}");
        }
        let second = fill(&mut client, 1_000_000);
        assert!(second > first / 4, "{engine}: {first} values, half of them deleted, then {second}");
        for number in 0..first {
            let expected = if number % 2 == 0 { "(nil)".into() } else { value(number) };
            assert_eq!(client.text(&["GET", &key(number)]), expected);
        }
        server.end();
        let again = Server::start(&store, &[]);
        assert_eq!(again.client().text(&["DBSIZE"]), format!(":{}", first / 2 + second));
        again.end();
    }
}

/// Bytes of the store that others wrote: errors, and never a wrong value.
#[test]
fn a_damaged_store_says_so() {
    let scratch = Scratch::new();
    let store = scratch.path("store");
    let value = |number: u64| format!("value {number} ").repeat(20);
    for engine in ["log", "slab"] {
        for round in 0..6u64 {
            _ = std::fs::remove_file(&store);
            let server = Server::start(&store, &["--engine", engine]);
            let mut client = server.client();
            for number in 0..300 {
                assert_eq!(client.text(&["SET", &format!("k{number}"), &value(number)]), "+OK");
            }
            if round % 2 == 0 {
                server.end()
            } else {
                server.kill()
            }
            let file = OpenOptions::new().read(true).write(true).open(&store).expect("it is there");
            for hit in 0..3 {
                let at = 8192 + 64 + (round * 7919 + hit * 30_011) % 45_000;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("it is long enough");
                file.write_all_at(&[byte[0] ^ 0x41], at).expect("it can be written");
            }
            let mut command = strandline();
            command.args(["serve", "--port", "0", "--json"]).arg(&store);
            let mut process =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            let mut line = String::new();
            let out = process.stdout.take().expect("a pipe");
            BufReader::new(out).read_line(&mut line).expect("it says something or ends");
            if line.is_empty() {
                // Refused as a whole: by name of the file and the place.
                let output = process.wait_with_output().expect("it ends");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(2), "{said}");
                assert!(said.contains("store") && said.contains("damaged at offset"), "{said}");
                continue;
            }
            let said: Value = serde_json::from_str(&line).expect("where it is");
            let server = Server { process, port: said["port"].as_u64().expect("a port") as u16 };
            let mut client = server.client();
            for number in 0..300 {
                // A server that found damage may end.
                let Ok(reply) = client.ask(&["GET", &format!("k{number}")]) else { break };
                let reply = reply.unwrap_or_else(|| "(nil)".into());
                assert!(
                    reply == value(number) || reply.starts_with('-'),
                    "{engine} {round} {number}: {reply}"
                );
            }
        }
    }
}
