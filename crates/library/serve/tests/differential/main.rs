//! The same random commands to Redis and to a server of ours: the same bytes as replies.
//!
//! Where Redis leaves the order of a reply open (members of a set, fields of a hash, keys), the elements are
//! compared in an order of their own; where it chooses by chance, their number. Remaining times are compared
//! to a second.
//!
//! `SERVE_SEED` in the environment repeats a seed, `SERVE_COMMANDS` says how many commands a seed has.

mod commands;
mod servers;
mod unread;

use fastrand::Rng;
use servers::{Client, Redis, ours, parts};

/// Requests that are sent together.
const TOGETHER: usize = 50;

/// Replies whose elements have no order; those with names and values in pairs.
const UNORDERED: &[&str] =
    &["KEYS", "SMEMBERS", "HKEYS", "HVALS", "SINTER", "SUNION", "SDIFF", "SPOP", "SCAN", "SSCAN"];
const UNORDERED_PAIRS: &[&str] = &["HGETALL", "HSCAN", "ZSCAN"];
/// Replies by chance.
const CHANCE: &[&str] = &["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "RANDOMKEY"];

/// A reply in a form that is equal for equal replies.
fn normal(name: &str, reply: &[u8], three: bool) -> Vec<Vec<u8>> {
    let pairs = UNORDERED_PAIRS.contains(&name);
    if CHANCE.contains(&name) {
        let count = parts(reply, three).map(|parts| parts.len().to_string().into_bytes());
        return vec![reply[..1].to_vec(), count.unwrap_or_default()];
    }
    let Some(parts) = parts(reply, three).filter(|_| pairs || UNORDERED.contains(&name)) else {
        return vec![reply.to_vec()];
    };
    if name.ends_with("SCAN") && parts.len() == 2 {
        let inner = if name == "SCAN" || name == "SSCAN" { "KEYS" } else { "HGETALL" };
        return [vec![parts[0].clone()], normal(inner, &parts[1], three)].concat();
    }
    let size = if pairs { 2 } else { 1 };
    let mut all: Vec<Vec<u8>> = parts.chunks(size).map(<[_]>::concat).collect();
    all.sort();
    [vec![reply[..1].to_vec()], all].concat()
}

/// Commands that say a time, and how far off it may be.
const TIMES: &[(&str, i64)] = &[("TTL", 1), ("EXPIRETIME", 2), ("PEXPIRETIME", 2000)];

fn close(ours: &[u8], theirs: &[u8], by: i64) -> bool {
    let number =
        |bytes: &[u8]| std::str::from_utf8(bytes.strip_prefix(b":")?).ok()?.trim().parse::<i64>().ok();
    match (number(ours), number(theirs)) {
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= by && (ours < 0) == (theirs < 0),
        _ => ours == theirs,
    }
}

fn same_reply(name: &str, ours: &[u8], theirs: &[u8], three: bool) -> bool {
    match TIMES.iter().find(|(timed, _)| *timed == name) {
        Some((_, by)) => close(ours, theirs, *by),
        None => normal(name, ours, three) == normal(name, theirs, three),
    }
}

fn same(request: &[Vec<u8>], queued: &[String], ours: &[u8], theirs: &[u8], three: bool) -> bool {
    let name = String::from_utf8_lossy(&request[0]).to_uppercase();
    let cursor = request.get(if name == "SCAN" { 1 } else { 2 }).map(Vec::as_slice);
    if name.ends_with("SCAN") && cursor != Some(b"0") {
        // Where another cursor leads is the server's own business.
        return (ours[0] == b'-') == (theirs[0] == b'-');
    }
    if name == "EXEC"
        && let (Some(ours), Some(theirs)) = (parts(ours, three), parts(theirs, three))
    {
        return ours.len() == theirs.len()
            && ours.len() == queued.len()
            && ours.iter().zip(&theirs).zip(queued).all(|((o, t), name)| same_reply(name, o, t, three));
    }
    same_reply(&name, ours, theirs, three)
}

fn shown(request: &[Vec<u8>]) -> String {
    let words = request.iter().map(|word| format!("{:?}", String::from_utf8_lossy(word)));
    words.collect::<Vec<_>>().join(" ")
}

/// Sends `count` commands to both.
fn compare(seed: u64, count: usize, three: bool, redis: &Redis) {
    let mut random = Rng::with_seed(seed);
    let clients = [ours(), redis.address].map(|address| Client::connect(address, three));
    let [mut ours, mut theirs] = clients;
    theirs.ask(&[b"FLUSHALL".to_vec()]);
    let (mut history, mut queued): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for _ in 0..count / TOGETHER {
        let requests: Vec<Vec<Vec<u8>>> = (0..TOGETHER).map(|_| commands::any(&mut random)).collect();
        ours.send(&requests);
        theirs.send(&requests);
        for request in &requests {
            let (mine, other) = (ours.receive(), theirs.receive());
            history.push(shown(request));
            let name = String::from_utf8_lossy(&request[0]).to_uppercase();
            assert!(
                same(request, &queued, &mine, &other, three),
                "seed {seed}, RESP{}, command {}: {}\nours:  {:?}\nRedis: {:?}\nbefore:\n{}",
                if three { 3 } else { 2 },
                history.len(),
                shown(request),
                String::from_utf8_lossy(&mine),
                String::from_utf8_lossy(&other),
                history[history.len().saturating_sub(60)..].join("\n"),
            );
            match &*name {
                "EXEC" | "DISCARD" => queued.clear(),
                _ if other.starts_with(b"+QUEUED") => queued.push(name),
                _ => {}
            }
        }
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server (apt-get install redis-server)");
        return;
    };
    let seed = setting("SERVE_SEED", 0);
    let seeds = if seed > 0 { seed..seed + 1 } else { 1..setting("SERVE_SEEDS", 2) + 1 };
    let failed = seeds.filter(|seed| {
        println!("seed {seed}");
        let count = setting("SERVE_COMMANDS", 4000) as usize;
        let result = std::panic::catch_unwind(|| compare(*seed, count, seed % 2 == 0, &redis));
        result.is_err()
    });
    assert_eq!(failed.collect::<Vec<_>>(), [], "seeds whose replies differ");
}

/// Elements of one weight come in the order of their bytes, backwards with `DESC`, in lists of any length.
#[test]
fn elements_of_one_weight_are_sorted_as_redis_does() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server (apt-get install redis-server)");
        return;
    };
    let [mut ours, mut theirs] = [ours(), redis.address].map(|address| Client::connect(address, false));
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let elements: Vec<String> = (0..60).map(|at| (at * 37 % 61).to_string()).collect();
    let mut requests = vec![words(&format!("RPUSH list {}", elements.join(" ")))];
    requests.extend(elements.iter().step_by(2).map(|element| words(&format!("SET weight{element} 7"))));
    for by in ["none*", "weight*"] {
        for order in ["", " DESC", " LIMIT 3 20", " LIMIT 0 50 DESC", " GET # GET weight*"] {
            requests.push(words(&format!("SORT list BY {by}{order}")));
        }
    }
    for request in &requests {
        let (mine, other) = (ours.ask(request), theirs.ask(request));
        assert_eq!(String::from_utf8_lossy(&mine), String::from_utf8_lossy(&other), "{}", shown(request));
    }
}
