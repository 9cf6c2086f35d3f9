//! What concerns a connection: passwords, names, versions of the protocol.

use crate::commands::keys::database;
use crate::context::{Client, Context, Fault, Outcome, REDIS, Replies, integer, is, says};
use crate::number;
use crate::reply::{Reply, Version};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

pub fn ping(_: &mut Context, args: &[&[u8]]) -> Outcome {
    match args {
        [_] => Ok(Reply::Word("PONG")),
        [_, text] => Ok(Reply::bulk(*text)),
        _ => Err("ERR wrong number of arguments for 'ping' command".into()),
    }
}

pub fn echo(_: &mut Context, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bulk(args[1]))
}

pub fn select(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let number = database(args[1])?;
    context.session.database = number;
    context.tx.database = number;
    Ok(Reply::OK)
}

/// Compares in a time that does not depend on where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

fn log_in(context: &mut Context, user: &[u8], password: &[u8]) -> Result<(), Fault> {
    let right = context.shared.settings.password.as_ref().is_none_or(|right| same(right, password));
    if user != b"default" || !right {
        return Err(WRONG_PASSWORD.into());
    }
    context.session.trusted = true;
    Ok(())
}

pub fn auth(context: &mut Context, args: &[&[u8]]) -> Outcome {
    match args {
        [_, _] if context.shared.settings.password.is_none() => {
            Err("ERR AUTH <password> called without any password configured for the default user. Are you \
                 sure your configuration is correct?"
                .into())
        }
        [_, password] => log_in(context, b"default", password).map(|()| Reply::OK),
        [_, user, password] => log_in(context, user, password).map(|()| Reply::OK),
        _ => Err(says::SYNTAX.into()),
    }
}

pub fn hello(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let mut version = context.session.version;
    if let Some(argument) = args.get(1) {
        let number = number::integer(argument);
        version = match number.ok_or("ERR Protocol version is not an integer or out of range")? {
            2 => Version::Two,
            3 => Version::Three,
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let mut name = None;
    let mut at = 2;
    while let Some(argument) = args.get(at) {
        if is(argument, "AUTH") && at + 2 < args.len() {
            log_in(context, args[at + 1], args[at + 2])?;
            at += 2;
        } else if is(argument, "SETNAME") && at + 1 < args.len() {
            name = Some(checked_name(args[at + 1])?);
            at += 1;
        } else {
            return Err(Fault::repeating("ERR Syntax error in HELLO option '", argument, "'"));
        }
        at += 1;
    }
    if !context.session.trusted {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                    <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
                    RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        context.session.name = name;
    }
    context.session.version = version;
    let number = if version == Version::Two { 2 } else { 3 };
    let id = context.session.id as i64;
    let pair = |name: &str, value| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        pair("server", Reply::bulk("redis")),
        pair("version", Reply::bulk(REDIS)),
        pair("proto", Reply::Integer(number)),
        pair("id", Reply::Integer(id)),
        pair("mode", Reply::bulk("standalone")),
        pair("role", Reply::bulk("master")),
        pair("modules", Reply::Array(Vec::new())),
    ]))
}

fn checked_name(name: &[u8]) -> Result<Vec<u8>, Fault> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(name.to_vec()),
        false => Err(BAD_NAME.into()),
    }
}

/// A client's line, as in `CLIENT LIST`.
fn line(id: u64, client: &Client, now: u64) -> String {
    let Client { addresses: [address, ours], since, active, last, database, queued, .. } = client;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (age, idle) = (now.saturating_sub(*since) / 1000, now.saturating_sub(*active) / 1000);
    let resp = if client.version == Version::Two { 2 } else { 3 };
    let flags = if *queued >= 0 { 'x' } else { 'N' };
    format!(
        "id={id} addr={address} laddr={ours} fd=0 name={name} age={age} idle={idle} flags={flags} \
         db={database} sub=0 psub=0 ssub=0 multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 \
         rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={last} user=default redir=-1 resp={resp} \
         lib-name={library} lib-ver={library_version}\n",
        name = text(&client.name),
        library = text(&client.library[0]),
        library_version = text(&client.library[1]),
    )
}

/// Subcommands of `CLIENT`.
pub const CLIENT: &[(&str, i32)] = &[
    ("id", 2),
    ("getname", 2),
    ("info", 2),
    ("setname", 3),
    ("setinfo", 4),
    ("list", -2),
    ("reply", 3),
    ("no-evict", 3),
    ("kill", -3),
    ("unpause", 2),
    ("help", 2),
];

/// The subcommand that is meant.
pub fn subcommand(all: &[(&'static str, i32)], args: &[&[u8]]) -> &'static str {
    all.iter().find(|(name, _)| is(args[1], name)).map_or("help", |(name, _)| name)
}

pub fn client(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let id = context.session.id;
    let now = context.tx.now;
    match subcommand(CLIENT, args) {
        "id" => Ok(Reply::Integer(id as i64)),
        "getname" if context.session.name.is_empty() => Ok(Reply::Null),
        "getname" => Ok(Reply::bulk(context.session.name.clone())),
        "setname" => {
            context.session.name = checked_name(args[2])?;
            Ok(Reply::OK)
        }
        "setinfo" => set_library(context, args),
        "info" => {
            Ok(Reply::Text(context.shared.clients.get(&id).map_or(String::new(), |c| line(id, c, now))))
        }
        "list" => list(context, args),
        "reply" => reply(context, args[2]),
        "no-evict" if is(args[2], "ON") || is(args[2], "OFF") => Ok(Reply::OK),
        "no-evict" => Err(says::SYNTAX.into()),
        "kill" => kill(context, args),
        "unpause" => Ok(Reply::OK),
        _ => Ok(help("CLIENT", CLIENT)),
    }
}

/// The subcommands that there are.
pub fn help(of: &str, all: &[(&str, i32)]) -> Reply {
    let lines = all.iter().map(|(name, _)| format!("{of} {}", name.to_uppercase()));
    Reply::Array(lines.map(Reply::bulk).collect())
}

fn set_library(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let which = match args[2] {
        name if is(name, "LIB-NAME") => 0,
        name if is(name, "LIB-VER") => 1,
        name => {
            return Err(Fault::repeating("ERR Unrecognized option '", name, "'"));
        }
    };
    context.session.library[which] = checked_name(args[3])?;
    Ok(Reply::OK)
}

fn list(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let now = context.tx.now;
    let clients = &context.shared.clients;
    let mut text = String::new();
    match &args[2..] {
        [] => clients.iter().for_each(|(id, client)| text += &line(*id, client, now)),
        [kind, which] if is(kind, "TYPE") => {
            if is(which, "NORMAL") {
                clients.iter().for_each(|(id, client)| text += &line(*id, client, now));
            } else if !["MASTER", "REPLICA", "SLAVE", "PUBSUB"].iter().any(|other| is(which, other)) {
                return Err(Fault::repeating("ERR Unknown client type '", which, "'"));
            }
        }
        [kind, ids @ ..] if is(kind, "ID") && !ids.is_empty() => {
            for id in ids {
                let id = number::integer(id).ok_or("ERR Invalid client ID")?;
                if let Some(client) = clients.get(&(id as u64)) {
                    text += &line(id as u64, client, now);
                }
            }
        }
        _ => return Err(says::SYNTAX.into()),
    }
    Ok(Reply::Text(text))
}

fn reply(context: &mut Context, how: &[u8]) -> Outcome {
    let session = &mut context.session;
    if is(how, "ON") {
        session.replies = Replies::On;
        return Ok(Reply::OK);
    }
    if is(how, "OFF") {
        session.replies = Replies::Off;
    } else if is(how, "SKIP") {
        if session.replies != Replies::Off {
            session.replies = Replies::SkipNext;
        }
    } else {
        return Err(says::SYNTAX.into());
    }
    Ok(Reply::Silence)
}

fn kill(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let id = context.session.id;
    let clients = &context.shared.clients;
    if let [_, _, address] = args {
        let found = clients.iter().find(|(_, client)| client.addresses[0].as_bytes() == *address);
        let found = *found.ok_or("ERR No such client")?.0;
        end(context, found);
        return Ok(Reply::OK);
    }
    let (mut skips_me, mut wanted): (bool, Vec<u64>) = (true, clients.keys().copied().collect());
    for pair in args[2..].chunks(2) {
        match pair {
            [name, value] if is(name, "ID") => {
                let number = number::integer(value).filter(|id| *id > 0);
                let number = number.ok_or("ERR client-id should be greater than 0")?;
                wanted.retain(|id| *id == number as u64);
            }
            [name, value] if is(name, "ADDR") || is(name, "LADDR") => {
                let which = usize::from(is(name, "LADDR"));
                wanted.retain(|id| {
                    clients.get(id).is_some_and(|client| client.addresses[which].as_bytes() == *value)
                });
            }
            [name, value] if is(name, "TYPE") => {
                let others = ["MASTER", "SLAVE", "REPLICA", "PUBSUB"];
                if others.iter().any(|other| is(value, other)) {
                    wanted.clear();
                } else if !is(value, "NORMAL") {
                    return Err(Fault::repeating("ERR Unknown client type '", value, "'"));
                }
            }
            [name, value] if is(name, "USER") => {
                if *value != b"default" {
                    return Err(Fault::repeating("ERR No such user '", value, "'"));
                }
            }
            [name, value] if is(name, "SKIPME") && (is(value, "YES") || is(value, "NO")) => {
                skips_me = is(value, "YES");
            }
            _ => return Err(says::SYNTAX.into()),
        }
    }
    wanted.retain(|other| !skips_me || *other != id);
    let count = wanted.len();
    wanted.into_iter().for_each(|id| end(context, id));
    Ok(Reply::count(count))
}

/// Ends a client: ourselves behind this reply.
fn end(context: &mut Context, id: u64) {
    if id == context.session.id {
        context.session.ends = true;
    } else {
        context.shared.killed.push(id);
    }
}

pub fn time(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let (seconds, rest) = (context.tx.now / 1000, context.tx.now % 1000 * 1000);
    Ok(Reply::Array(vec![Reply::bulk(seconds.to_string()), Reply::bulk(rest.to_string())]))
}

/// There are no replicas; what was written before is durable when the reply is sent.
pub fn wait(_: &mut Context, args: &[&[u8]]) -> Outcome {
    integer(args[1])?;
    let timeout = number::integer(args[2]).ok_or("ERR timeout is not an integer or out of range")?;
    if timeout < 0 {
        return Err("ERR timeout is negative".into());
    }
    Ok(Reply::Integer(0))
}

pub fn shutdown(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let known = ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"];
    if args[1..].iter().any(|argument| !known.iter().any(|word| is(argument, word))) {
        return Err(says::SYNTAX.into());
    }
    if args[1..].iter().any(|argument| is(argument, "ABORT")) {
        return Err("ERR No shutdown in progress.".into());
    }
    context.shared.ends = true;
    context.session.ends = true;
    Ok(Reply::Silence)
}
