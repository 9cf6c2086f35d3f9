//! Random commands from patterns.
//!
//! A pattern is words; `<k>` and the like are random arguments, `(a|b c)` is one of several, `(a)?` may be
//! left out, `(a)+` comes one to three times.

use fastrand::Rng;

/// One or more patterns of every command that gives the same reply everywhere and always.
pub const PATTERNS: &[&str] = &[
    "SET <k> <v> (NX|XX|GET|NX GET|XX GET)? (EX <far>|PX <far>|EXAT <year>|PXAT <year>000|KEEPTTL|EX 0)?",
    "SETNX <k> <v>",
    "SETEX <k> <ttl> <v>",
    "PSETEX <k> <ttl> <v>",
    "GET <k>",
    "GETSET <k> <v>",
    "GETDEL <k>",
    "GETEX <k> (EX <ttl>|EXAT <date>|PERSIST|PXAT <i>)?",
    "MGET (<k>)+",
    "MSET (<k> <v>)+",
    "MSETNX (<k> <v>)+",
    "APPEND <k> <v>",
    "STRLEN <k>",
    "GETRANGE <k> <i> <i>",
    "SUBSTR <k> <i> <i>",
    "SETRANGE <k> <n> <v>",
    "INCR <k>",
    "DECR <k>",
    "INCRBY <k> <i>",
    "DECRBY <k> <i>",
    "INCRBYFLOAT <k> <f>",
    "LCS <k> <k> (LEN|IDX|IDX WITHMATCHLEN|IDX MINMATCHLEN <n>|IDX MINMATCHLEN <n> WITHMATCHLEN)?",
    "EXPIRE <k> <ttl> (NX|XX|GT|LT|XX GT|NX GT|GT LT)?",
    "PEXPIRE <k> <far> (NX|XX|GT|LT)?",
    "EXPIREAT <k> <date> (NX|XX|GT|LT|<v>)?",
    "PEXPIREAT <k> <date>000 (NX|XX|GT|LT)?",
    "EXPIRETIME <k>",
    "PEXPIRETIME <k>",
    "PERSIST <k>",
    "TTL <k>",
    "DEL (<k>)+",
    "UNLINK (<k>)+",
    "EXISTS (<k>)+",
    "TOUCH (<k>)+",
    "TYPE <k>",
    "RENAME <k> <k>",
    "RENAMENX <k> <k>",
    "COPY <k> <k> (DB <db>)? (REPLACE)?",
    "MOVE <k> <db>",
    "SWAPDB <db> <db>",
    "SELECT <db>",
    "SELECT 0",
    "SELECT 0",
    "KEYS <p>",
    "SCAN 0 COUNT 1000 (MATCH <p>)? (TYPE (string|list|hash|set|zset))?",
    "RANDOMKEY",
    "DBSIZE",
    "HSET <h> (<m> <v>)+",
    "HMSET <h> (<m> <v>)+",
    "HSETNX <h> <m> <v>",
    "HGET <h> <m>",
    "HMGET <h> (<m>)+",
    "HDEL <h> (<m>)+",
    "HLEN <h>",
    "HSTRLEN <h> <m>",
    "HEXISTS <h> <m>",
    "HKEYS <h>",
    "HVALS <h>",
    "HGETALL <h>",
    "HINCRBY <h> <m> <i>",
    "HINCRBYFLOAT <h> <m> <f>",
    "HRANDFIELD <h> (<i>|<n> WITHVALUES|100 WITHVALUES)?",
    "HSCAN <h> 0 COUNT 1000 (MATCH <p>)?",
    "LPUSH <l> (<v>)+",
    "RPUSH <l> (<v>)+",
    "RPUSH <l> (<m>)+",
    "LPUSHX <l> (<v>)+",
    "RPUSHX <l> (<v>)+",
    "LLEN <l>",
    "LINDEX <l> <i>",
    "LSET <l> <i> <v>",
    "LPOP <l> (<i>)?",
    "RPOP <l> (<n>)?",
    "LRANGE <l> <i> <i>",
    "LTRIM <l> <i> <i>",
    "LPOS <l> <m> (RANK <i>)? (COUNT <i>)? (MAXLEN <i>)?",
    "LREM <l> <i> <m>",
    "LINSERT <l> (BEFORE|AFTER) <m> <v>",
    "RPOPLPUSH <l> <l>",
    "LMOVE <l> <l> (LEFT|RIGHT) (LEFT|RIGHT)",
    "LMPOP <n> (<l>)+ (LEFT|RIGHT) (COUNT <n>)?",
    "BLPOP (<l>)+ 0.001",
    "BRPOP <l> 0.001",
    "BLMOVE <l> <l> (LEFT|RIGHT) (LEFT|RIGHT) 0.001",
    "BRPOPLPUSH <l> <l> 0.001",
    "BLMPOP 0.001 <n> (<l>)+ (LEFT|RIGHT) (COUNT <n>)?",
    "SADD <s> (<m>)+",
    "SREM <s> (<m>)+",
    "SMOVE <s> <s> <m>",
    "SISMEMBER <s> <m>",
    "SMISMEMBER <s> (<m>)+",
    "SCARD <s>",
    "SMEMBERS <s>",
    "SPOP <s> (0|100|-1)",
    "SRANDMEMBER <s> (<i>)?",
    "(SINTER|SUNION|SDIFF) (<s>)+",
    "(SINTERSTORE|SUNIONSTORE|SDIFFSTORE) <s> (<s>)+",
    "SINTERCARD <n> (<s>)+ (LIMIT <i>)?",
    "SSCAN <s> 0 COUNT 1000 (MATCH <p>)?",
    "ZADD <z> (NX|XX|GT|LT|XX GT|NX GT|NX XX)? (CH)? (<f> <m>)+",
    "ZADD <z> (NX|XX|GT|LT)? INCR <f> <m>",
    "ZADD <x> (0 <m>)+",
    "ZINCRBY <z> <f> <m>",
    "ZREM <z> (<m>)+",
    "ZCARD <z>",
    "ZSCORE <z> <m>",
    "ZMSCORE <z> (<m>)+",
    "(ZRANK|ZREVRANK) <z> <m>",
    "(ZPOPMIN|ZPOPMAX) <z> (<i>)?",
    "ZMPOP <n> (<z>)+ (MIN|MAX) (COUNT <n>)?",
    "BZPOPMIN <z> 0.001",
    "BZPOPMAX (<z>)+ 0.001",
    "BZMPOP 0.001 <n> (<z>)+ (MIN|MAX) (COUNT <n>)?",
    "ZRANDMEMBER <z> (<i>|<n> WITHSCORES|100 WITHSCORES)?",
    "ZSCAN <z> 0 COUNT 1000 (MATCH <p>)?",
    "ZRANGE <z> <i> <i> (REV)? (WITHSCORES)?",
    "ZRANGE <z> <r> <r> BYSCORE (REV)? (LIMIT <i> <i>)? (WITHSCORES)?",
    "ZRANGE <x> <b> <b> BYLEX (REV)? (LIMIT <i> <i>)?",
    "ZRANGESTORE <z> <z> <i> <i> (REV)?",
    "ZRANGESTORE <z> <z> <r> <r> BYSCORE (LIMIT <i> <i>)?",
    "ZREVRANGE <z> <i> <i> (WITHSCORES)?",
    "(ZRANGEBYSCORE|ZREVRANGEBYSCORE) <z> <r> <r> (WITHSCORES)? (LIMIT <i> <i>)?",
    "(ZRANGEBYLEX|ZREVRANGEBYLEX) <x> <b> <b> (LIMIT <i> <i>)?",
    "ZCOUNT <z> <r> <r>",
    "ZLEXCOUNT <x> <b> <b>",
    "ZREMRANGEBYRANK <z> <i> <i>",
    "ZREMRANGEBYSCORE <z> <r> <r>",
    "ZREMRANGEBYLEX <x> <b> <b>",
    "(ZUNION|ZINTER) 2 <z> <z> (WEIGHTS <f> <f>)? (AGGREGATE (SUM|MIN|MAX))? (WITHSCORES)?",
    "ZUNION 2 <z> <s> WITHSCORES",
    "ZDIFF <n> (<z>)+ (WITHSCORES)?",
    "(ZUNIONSTORE|ZINTERSTORE) <z> 2 <z> <z> (WEIGHTS <f> <f>)? (AGGREGATE (SUM|MIN|MAX))?",
    "ZDIFFSTORE <z> <n> (<z>)+",
    "ZINTERCARD <n> (<z>)+ (LIMIT <i>)?",
    "SETBIT <k> <n> (0|1|2)",
    "GETBIT <k> <i>",
    "BITCOUNT <k> (<i> <i> (BYTE|BIT)?)?",
    "BITPOS <k> (0|1|2) (<i>)?",
    "BITPOS <k> (0|1) <i> <i> (BYTE|BIT)?",
    "BITOP (AND|OR|XOR) <k> (<k>)+",
    "BITOP NOT <k> <k>",
    "SORT <l> (ALPHA)? (LIMIT <i> <i>)? (DESC|ASC)?",
    "SORT <z> ALPHA (DESC)? (BY nosort)?",
    "SORT <l> ALPHA (BY w*|BY <h>->*) (GET #|GET k*|GET <h>->a) (STORE <l>)?",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH (<k>)+",
    "UNWATCH",
    "PING (<v>)?",
    "ECHO <v>",
    "WAIT 0 0",
    "COMMAND GETKEYS (GET <k>|MSET <k> 1 <k> 2|ZUNION 1 a|PING)",
    "CLIENT GETNAME",
    "CLIENT SETNAME <m>",
    "CONFIG GET maxmemory",
    "FLUSHDB (ASYNC|SYNC|<v>)?",
    "no<v> <k> <i>",
    "CLIENT <v> <k>",
    "OBJECT <v> <k>",
];

/// A command that was made by chance.
pub fn any(random: &mut Rng) -> Vec<Vec<u8>> {
    let mut pattern = PATTERNS[random.usize(..PATTERNS.len())];
    if pattern.contains("0.001") && random.u32(..10) > 0 {
        // Waiting takes its time.
        pattern = PATTERNS[0];
    }
    let mut words = Vec::new();
    expand(pattern, random, &mut words);
    // Something is wrong now and then.
    // What waits, or chooses by chance, is asked for as it stands.
    let exact = [
        &b"WAIT"[..],
        b"BLPOP",
        b"BRPOP",
        b"BLMOVE",
        b"BRPOPLPUSH",
        b"BLMPOP",
        b"BZPOPMIN",
        b"BZPOPMAX",
        b"BZMPOP",
        b"SPOP",
        b"COMMAND",
    ];
    let chance = if exact.contains(&&*words[0]) { 40 } else { random.u32(..40) };
    match chance {
        0 if words.len() > 1 => {
            words.remove(random.usize(1..words.len()));
        }
        1 => words.push(argument(['k', 'i', 'v', 'f'][random.usize(..4)].encode_utf8(&mut [0; 4]), random)),
        2 if words.len() > 1 => {
            let at = random.usize(1..words.len());
            words[at] = argument("v", random);
        }
        3 => words[0] = words[0].to_ascii_lowercase(),
        _ => {}
    }
    // What none of the two is to be asked for.
    if words[0].is_empty() || words[0].contains(&b'\n') {
        words[0] = b"GET".to_vec();
    }
    words
}

fn expand(pattern: &str, random: &mut Rng, into: &mut Vec<Vec<u8>>) {
    let mut rest = pattern.trim();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('(') {
            let mut depth = 1;
            let end = inner.find(|c| {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth == 0
            });
            let end = end.expect("a bracket ends");
            let choices = divided(&inner[..end]);
            let behind = &inner[end + 1..];
            let (count, behind) = match behind.chars().next() {
                Some('?') => (random.usize(..2), &behind[1..]),
                Some('+') => (random.usize(1..4), &behind[1..]),
                _ => (1, behind),
            };
            for _ in 0..count {
                expand(choices[random.usize(..choices.len())], random, into);
            }
            rest = behind.trim_start();
            continue;
        }
        let end = rest.find(' ').unwrap_or(rest.len());
        into.push(word(&rest[..end], random));
        rest = rest[end..].trim_start();
    }
}

/// Choices between `|`, without those in brackets.
fn divided(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut choices) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 => {
                choices.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    choices.push(&text[from..]);
    choices
}

fn word(text: &str, random: &mut Rng) -> Vec<u8> {
    let (Some(from), Some(to)) = (text.find('<'), text.find('>')) else { return text.into() };
    let Some(name) = text.get(from + 1..to).filter(|name| name.len() <= 4) else { return text.into() };
    [&text.as_bytes()[..from], &argument(name, random), &text.as_bytes()[to + 1..]].concat()
}

fn one<'a>(of: &'a str, random: &mut Rng) -> &'a str {
    let all: Vec<&str> = of.split(' ').collect();
    all[random.usize(..all.len())]
}

/// Arguments of a kind; the second ones come now and then.
const KINDS: &[(&str, &str, &str)] = &[
    ("k", "k1 k2 k3 k4", KEYS),
    ("h", "h1 h2", KEYS),
    ("l", "l1 l2 l3", KEYS),
    ("s", "s1 s2 s3", KEYS),
    ("z", "z1 z2 z3", KEYS),
    ("x", "x1", KEYS),
    ("m", "a b c d e f  1 22 m\r\nn aa ab", "a"),
    ("v", "a b hello  10 -7 3.0 1e2 ohmytext mynewtext \u{ff}\0x x\ty", "a"),
    ("i", "0 1 2 3 -1 -2 -3 5 10 -10 100", "9223372036854775807 -9223372036854775808 abc 1.5  01 +1 \t1"),
    ("n", "0 1 2 3 1 2 3 7 70", "1"),
    ("f", "0 1 2 -1 1.5 0.1 3.14159 -2.75 1e3 1e-7", "inf -inf nan abc 1e308 123456789.125 5. .5 "),
    ("r", "-inf +inf 0 1 (1 2.5 (2.5 -1 (inf 3 (0", "abc  ( \t1"),
    ("b", "- + [a (a [b (c [ (d [f [aa", "a  abc"),
    ("p", "* ?1 k* [kh]? a [^a]* \\* [a-c] *1*", "*"),
    ("date", "4102444800 4102444801 1 33177117420 4102440000", "1"),
    ("year", "4102444800 4102444801 33177117420", "4102444800"),
    ("db", "0 1 0 1", "15 16 -1 x 99999999999"),
    ("ttl", "FAR", "0 -1 abc 9223372036854775807 -9223372036854775808"),
    ("far", "FAR", "FAR"),
];

/// Keys of all types.
const KEYS: &str = "k1 h1 l1 s1 z1 x1 none";

fn argument(name: &str, random: &mut Rng) -> Vec<u8> {
    let found = KINDS.iter().find(|(kind, ..)| *kind == name);
    let (_, usual, rare) = found.unwrap_or_else(|| panic!("no argument <{name}>"));
    match one(if random.u32(..10) == 0 { rare } else { usual }, random) {
        // No two are equal, or `GT` would depend on a millisecond.
        "FAR" => random.u32(1_000_000..2_000_000_000).to_string().into(),
        text => text.as_bytes().to_vec(),
    }
}
