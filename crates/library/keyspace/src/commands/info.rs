//! What a server says of itself.

use std::fmt::Write;

use crate::commands::connection::{help, subcommand};
use crate::context::{Command, Context, Fault, Outcome, REDIS, fits, is};
use crate::data::keyspace::DATABASES;
use crate::glob;
use crate::number;
use crate::reply::Reply;

/// A section of `INFO` and what writes it.
type Section = (&'static str, fn(&Context, &mut String) -> std::fmt::Result);

const SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", |_, out| writeln!(out, "cluster_enabled:0")),
    ("Keyspace", keyspace),
];

pub fn info(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let everything = ["ALL", "DEFAULT", "EVERYTHING"];
    let all =
        args.len() == 1 || args[1..].iter().any(|wanted| everything.iter().any(|word| is(wanted, word)));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || args[1..].iter().any(|wanted| is(wanted, name)) {
            let mut section = String::new();
            // A string takes whatever is written.
            _ = write(context, &mut section);
            let gap = if text.is_empty() { "" } else { "\r\n" };
            text += &format!("{gap}# {name}\r\n{}", section.replace('\n', "\r\n"));
        }
    }
    Ok(Reply::Text(text))
}

fn server(context: &Context, out: &mut String) -> std::fmt::Result {
    let uptime = context.tx.now.saturating_sub(context.shared.started) / 1000;
    let settings = &context.shared.settings;
    writeln!(
        out,
        "redis_version:{REDIS}\nredis_mode:standalone\nstrandline_version:{}",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, "os:{} {}\narch_bits:{}", std::env::consts::OS, std::env::consts::ARCH, usize::BITS)?;
    writeln!(out, "process_id:{}\ntcp_port:{}", std::process::id(), settings.port)?;
    writeln!(out, "uptime_in_seconds:{uptime}\nuptime_in_days:{}", uptime / 86400)
}

fn clients(context: &Context, out: &mut String) -> std::fmt::Result {
    let (count, most) = (context.shared.clients.len(), context.shared.settings.connections);
    writeln!(out, "connected_clients:{count}\nmaxclients:{most}\nblocked_clients:0")
}

fn memory(_: &Context, out: &mut String) -> std::fmt::Result {
    writeln!(out, "maxmemory:0\nmaxmemory_policy:noeviction")
}

fn persistence(context: &Context, out: &mut String) -> std::fmt::Result {
    let (used, length) = context.tx.keyspace().records().bytes();
    let shared = &context.shared;
    let status = if shared.broken.is_some() { "err" } else { "ok" };
    writeln!(out, "loading:0\nstore_engine:{}\nstore_path:{}", shared.settings.engine, shared.settings.path)?;
    writeln!(out, "store_bytes_used:{used}\nstore_bytes:{length}")?;
    let acknowledged = if shared.settings.durable { "durable" } else { "early" };
    writeln!(out, "acknowledged:{acknowledged}\nsyncs:{}\naof_last_write_status:{status}", shared.stats.syncs)
}

fn stats(context: &Context, out: &mut String) -> std::fmt::Result {
    let stats = &context.shared.stats;
    writeln!(
        out,
        "total_connections_received:{}\ntotal_commands_processed:{}",
        stats.connections, stats.commands
    )?;
    writeln!(out, "rejected_connections:{}\nslow_connections_dropped:{}", stats.refused, stats.slow)?;
    writeln!(out, "expired_keys:{}\nevicted_keys:0", stats.expired)?;
    writeln!(out, "keyspace_hits:{}\nkeyspace_misses:{}", stats.found[0], stats.found[1])
}

fn replication(_: &Context, out: &mut String) -> std::fmt::Result {
    writeln!(out, "role:master\nconnected_slaves:0")
}

fn keyspace(context: &Context, out: &mut String) -> std::fmt::Result {
    for database in 0..DATABASES {
        let count = context.tx.keyspace().known_count(context.tx.space_of(database)).unwrap_or(0);
        if count > 0 {
            writeln!(out, "db{database}:keys={count},expires=0,avg_ttl=0")?;
        }
    }
    Ok(())
}

/// Subcommands of `CONFIG`.
pub const CONFIG: &[(&str, i32)] = &[("get", -3), ("set", -4), ("resetstat", 2), ("rewrite", 2), ("help", 2)];

/// Settings that `CONFIG SET` takes, which have no effect here.
const HARMLESS: &[&str] =
    &["slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold", "loglevel"];

pub fn config(context: &mut Context, args: &[&[u8]]) -> Outcome {
    match subcommand(CONFIG, args) {
        "get" => {
            let all = settings(context);
            let wanted = |name: &str| {
                args[2..].iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
            };
            let found = all.into_iter().filter(|(name, _)| wanted(name));
            Ok(Reply::Map(found.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect()))
        }
        "set" => set(context, args),
        "resetstat" => {
            context.shared.stats = Default::default();
            Ok(Reply::OK)
        }
        "rewrite" => Err("ERR The server is running without a config file".into()),
        _ => Ok(help("CONFIG", CONFIG)),
    }
}

fn settings(context: &Context) -> Vec<(String, String)> {
    let settings = &context.shared.settings;
    let appendfsync = if settings.durable { "always" } else { "no" };
    let own = [
        ("appendfsync", appendfsync.to_owned()),
        ("appendonly", "yes".to_owned()),
        ("bind", settings.bind.clone()),
        ("databases", DATABASES.to_string()),
        ("dir", settings.path.clone()),
        ("maxclients", settings.connections.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", settings.port.to_string()),
        ("proto-max-bulk-len", settings.argument.to_string()),
        ("save", String::new()),
        ("timeout", "0".to_owned()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let kept = HARMLESS.iter().map(|name| {
        let value = context.shared.kept.get(*name).cloned().unwrap_or_default();
        ((*name).to_owned(), value)
    });
    own.chain(kept).collect()
}

fn set(context: &mut Context, args: &[&[u8]]) -> Outcome {
    if !args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    let known = settings(context);
    let mut taken = Vec::new();
    for pair in args[2..].chunks_exact(2) {
        let [name, value] = [pair[0], pair[1]].map(|text| String::from_utf8_lossy(text).into_owned());
        let name = name.to_lowercase();
        let now = known.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        match now {
            None => {
                let text = "ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err(Fault::repeating(text, pair[0], "'"));
            }
            Some(now) if *now == value => {}
            Some(_) if HARMLESS.contains(&&*name) => taken.push((name, value)),
            Some(_) => {
                let text = "ERR CONFIG SET failed (possibly related to argument '";
                return Err(Fault::repeating(text, pair[0], "') - can't set immutable config"));
            }
        }
    }
    context.shared.kept.extend(taken);
    Ok(Reply::OK)
}

/// Subcommands of `COMMAND`.
pub const COMMAND: &[(&str, i32)] =
    &[("count", 2), ("docs", -2), ("info", -2), ("list", 2), ("getkeys", -4), ("help", 2)];

pub fn command(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let all = context.shared.commands;
    let find = |name: &[u8]| all.iter().find(|command| is(name, command.name));
    if args.len() == 1 {
        return Ok(Reply::Array(all.iter().map(described).collect()));
    }
    Ok(match subcommand(COMMAND, args) {
        "count" => Reply::count(all.len()),
        "list" => Reply::Array(all.iter().map(|command| Reply::bulk(command.name)).collect()),
        "info" if args.len() == 2 => Reply::Array(all.iter().map(described).collect()),
        "info" => Reply::Array(
            args[2..].iter().map(|name| find(name).map_or(Reply::NullArray, described)).collect(),
        ),
        "docs" => {
            let wanted = all
                .iter()
                .filter(|command| args.len() == 2 || args[2..].iter().any(|name| is(name, command.name)));
            Reply::Map(wanted.map(documented).collect())
        }
        "getkeys" => return getkeys(all, &args[2..]),
        _ => help("COMMAND", COMMAND),
    })
}

/// Name, arity, flags, keys; the rest of what Redis says is empty.
fn described(command: &Command) -> Reply {
    let names = [('w', "write"), ('r', "readonly"), ('f', "fast"), ('a', "no_auth"), ('m', "no_multi")];
    let flags = names.iter().filter(|(flag, _)| command.is(*flag)).map(|(_, name)| Reply::Word(name));
    let (first, last, step) = command.keys;
    let numbers = [first, last, step].map(|number| Reply::Integer(number.into()));
    let mut parts =
        vec![Reply::bulk(command.name), Reply::Integer(command.arity.into()), Reply::Set(flags.collect())];
    parts.extend(numbers);
    parts.extend((0..4).map(|_| Reply::Array(Vec::new())));
    Reply::Array(parts)
}

/// As much as `redis-cli` needs for its hints.
fn documented(command: &Command) -> (Reply, Reply) {
    let fields = [("summary", "docs/serve.md"), ("since", "1.0.0"), ("group", "generic")];
    let fields = fields.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)));
    (Reply::bulk(command.name), Reply::Map(fields.into()))
}

fn getkeys(all: &[Command], args: &[&[u8]]) -> Outcome {
    let command = all.iter().find(|command| is(args[0], command.name));
    let command = command.ok_or("ERR Invalid command specified")?;
    if !fits(command.arity, args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let (first, last, step) = command.keys;
    let counted = ['1', '2'].iter().position(|flag| command.is(*flag));
    if first == 0 && counted.is_none() {
        return Err("ERR The command has no key arguments".into());
    }
    let last = if last < 0 { args.len() as i32 + last } else { last };
    let fixed = (first..=last).step_by(step.max(1) as usize).filter(|at| *at > 0);
    let mut keys: Vec<&[u8]> = fixed.filter_map(|at| args.get(at as usize).copied()).collect();
    if let Some(at) = counted.map(|at| at + 1) {
        let count = number::integer(args[at]).and_then(|count| usize::try_from(count).ok());
        let counted = count.filter(|count| *count > 0).and_then(|count| args.get(at + 1..at + 1 + count));
        keys.extend(counted.ok_or("ERR Invalid arguments specified for command")?);
    }
    Ok(Reply::bulks(keys.into_iter().map(<[u8]>::to_vec)))
}
