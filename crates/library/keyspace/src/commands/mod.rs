//! The commands.

mod bits;
mod combined;
mod connection;
mod hashes;
mod info;
mod keys;
mod lists;
mod object;
mod ranges;
mod sets;
mod sort;
mod sorted;
mod strings;
mod waiting;

use crate::context::{Command, Context, Outcome};

/// Those that a client's connection does itself, since they begin or end transactions.
fn elsewhere(_: &mut Context, _: &[&[u8]]) -> Outcome {
    Err("ERR Command not allowed inside a transaction".into())
}

type Run = fn(&mut Context, &[&[u8]]) -> Outcome;

const fn command(
    name: &'static str,
    arity: i32,
    flags: &'static str,
    keys: (i32, i32, i32),
    run: Run,
) -> Command {
    Command { name, arity, flags, keys, run, inside: &[] }
}

/// A command that consists of its subcommands.
const fn container(
    name: &'static str,
    arity: i32,
    run: Run,
    inside: &'static [(&'static str, i32)],
) -> Command {
    Command { name, arity, flags: "", keys: NO, run, inside }
}

const NO: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);

/// All commands, by name.
#[rustfmt::skip]
pub const TABLE: &[Command] = &[
    command("append", 3, "wf", ONE, strings::append),
    command("auth", -2, "af", NO, connection::auth),
    command("bitcount", -2, "r", ONE, bits::bitcount),
    command("bitop", -4, "w", (2, -1, 1), bits::bitop),
    command("bitpos", -3, "r", ONE, bits::bitpos),
    command("blmove", 6, "w", TWO, waiting::blmove),
    command("blmpop", -5, "w2", NO, waiting::blmpop),
    command("blpop", -3, "w", (1, -2, 1), waiting::blpop),
    command("brpop", -3, "w", (1, -2, 1), waiting::brpop),
    command("brpoplpush", 4, "w", TWO, waiting::brpoplpush),
    command("bzmpop", -5, "w2", NO, waiting::bzmpop),
    command("bzpopmax", -3, "wf", (1, -2, 1), waiting::bzpopmax),
    command("bzpopmin", -3, "wf", (1, -2, 1), waiting::bzpopmin),
    container("client", -2, connection::client, connection::CLIENT),
    container("command", -1, info::command, info::COMMAND),
    container("config", -2, info::config, info::CONFIG),
    command("copy", -3, "w", TWO, keys::copy),
    command("dbsize", 1, "rf", NO, keys::dbsize),
    command("decr", 2, "wf", ONE, strings::decr),
    command("decrby", 3, "wf", ONE, strings::decrby),
    command("del", -2, "w", ALL, keys::del),
    command("discard", 1, "f", NO, elsewhere),
    command("echo", 2, "f", NO, connection::echo),
    command("exec", 1, "", NO, elsewhere),
    command("exists", -2, "rf", ALL, keys::exists),
    command("expire", -3, "wf", ONE, keys::expire),
    command("expireat", -3, "wf", ONE, keys::expireat),
    command("expiretime", 2, "rf", ONE, keys::expiretime),
    command("flushall", -1, "w", NO, keys::flushall),
    command("flushdb", -1, "w", NO, keys::flushdb),
    command("get", 2, "rf", ONE, strings::get),
    command("getbit", 3, "rf", ONE, bits::getbit),
    command("getdel", 2, "wf", ONE, strings::getdel),
    command("getex", -2, "wf", ONE, strings::getex),
    command("getrange", 4, "r", ONE, strings::getrange),
    command("getset", 3, "wf", ONE, strings::getset),
    command("hdel", -3, "wf", ONE, hashes::hdel),
    command("hello", -1, "af", NO, connection::hello),
    command("hexists", 3, "rf", ONE, hashes::hexists),
    command("hget", 3, "rf", ONE, hashes::hget),
    command("hgetall", 2, "r", ONE, hashes::hgetall),
    command("hincrby", 4, "wf", ONE, hashes::hincrby),
    command("hincrbyfloat", 4, "wf", ONE, hashes::hincrbyfloat),
    command("hkeys", 2, "r", ONE, hashes::hkeys),
    command("hlen", 2, "rf", ONE, hashes::hlen),
    command("hmget", -3, "rf", ONE, hashes::hmget),
    command("hmset", -4, "wf", ONE, hashes::hmset),
    command("hrandfield", -2, "r", ONE, hashes::hrandfield),
    command("hscan", -3, "r", ONE, hashes::hscan),
    command("hset", -4, "wf", ONE, hashes::hset),
    command("hsetnx", 4, "wf", ONE, hashes::hsetnx),
    command("hstrlen", 3, "rf", ONE, hashes::hstrlen),
    command("hvals", 2, "r", ONE, hashes::hvals),
    command("incr", 2, "wf", ONE, strings::incr),
    command("incrby", 3, "wf", ONE, strings::incrby),
    command("incrbyfloat", 3, "wf", ONE, strings::incrbyfloat),
    command("info", -1, "", NO, info::info),
    command("keys", 2, "r", NO, keys::keys),
    command("lcs", -3, "r", TWO, strings::lcs),
    command("lindex", 3, "r", ONE, lists::lindex),
    command("linsert", 5, "w", ONE, lists::linsert),
    command("llen", 2, "rf", ONE, lists::llen),
    command("lmove", 5, "w", TWO, lists::lmove),
    command("lmpop", -4, "w1", NO, lists::lmpop),
    command("lpop", -2, "wf", ONE, lists::lpop),
    command("lpos", -3, "r", ONE, lists::lpos),
    command("lpush", -3, "wf", ONE, lists::lpush),
    command("lpushx", -3, "wf", ONE, lists::lpushx),
    command("lrange", 4, "r", ONE, lists::lrange),
    command("lrem", 4, "w", ONE, lists::lrem),
    command("lset", 4, "w", ONE, lists::lset),
    command("ltrim", 4, "w", ONE, lists::ltrim),
    command("mget", -2, "rf", ALL, strings::mget),
    command("move", 3, "wf", ONE, keys::move_to),
    command("mset", -3, "w", (1, -1, 2), strings::mset),
    command("msetnx", -3, "w", (1, -1, 2), strings::msetnx),
    command("multi", 1, "f", NO, elsewhere),
    container("object", -2, object::object, object::OBJECT),
    command("persist", 2, "wf", ONE, keys::persist),
    command("pexpire", -3, "wf", ONE, keys::pexpire),
    command("pexpireat", -3, "wf", ONE, keys::pexpireat),
    command("pexpiretime", 2, "rf", ONE, keys::pexpiretime),
    command("ping", -1, "f", NO, connection::ping),
    command("psetex", 4, "w", ONE, strings::psetex),
    command("pttl", 2, "rf", ONE, keys::pttl),
    command("randomkey", 1, "r", NO, keys::randomkey),
    command("rename", 3, "w", TWO, keys::rename),
    command("renamenx", 3, "wf", TWO, keys::renamenx),
    command("reset", 1, "af", NO, elsewhere),
    command("rpop", -2, "wf", ONE, lists::rpop),
    command("rpoplpush", 3, "w", TWO, lists::rpoplpush),
    command("rpush", -3, "wf", ONE, lists::rpush),
    command("rpushx", -3, "wf", ONE, lists::rpushx),
    command("sadd", -3, "wf", ONE, sets::sadd),
    command("scan", -2, "r", NO, keys::scan),
    command("scard", 2, "rf", ONE, sets::scard),
    command("sdiff", -2, "r", ALL, sets::sdiff),
    command("sdiffstore", -3, "w", ALL, sets::sdiffstore),
    command("select", 2, "f", NO, connection::select),
    command("set", -3, "w", ONE, strings::set),
    command("setbit", 4, "w", ONE, bits::setbit),
    command("setex", 4, "w", ONE, strings::setex),
    command("setnx", 3, "wf", ONE, strings::setnx),
    command("setrange", 4, "w", ONE, strings::setrange),
    command("shutdown", -1, "m", NO, connection::shutdown),
    command("sinter", -2, "r", ALL, sets::sinter),
    command("sintercard", -3, "r1", NO, sets::sintercard),
    command("sinterstore", -3, "w", ALL, sets::sinterstore),
    command("sismember", 3, "rf", ONE, sets::sismember),
    command("smembers", 2, "r", ONE, sets::smembers),
    command("smismember", -3, "rf", ONE, sets::smismember),
    command("smove", 4, "wf", TWO, sets::smove),
    command("sort", -2, "w", ONE, sort::sort),
    command("sort_ro", -2, "r", ONE, sort::sort_ro),
    command("spop", -2, "wf", ONE, sets::spop),
    command("srandmember", -2, "r", ONE, sets::srandmember),
    command("srem", -3, "wf", ONE, sets::srem),
    command("sscan", -3, "r", ONE, sets::sscan),
    command("strlen", 2, "rf", ONE, strings::strlen),
    command("substr", 4, "r", ONE, strings::getrange),
    command("sunion", -2, "r", ALL, sets::sunion),
    command("sunionstore", -3, "w", ALL, sets::sunionstore),
    command("swapdb", 3, "wf", NO, keys::swapdb),
    command("time", 1, "f", NO, connection::time),
    command("touch", -2, "rf", ALL, keys::exists),
    command("ttl", 2, "rf", ONE, keys::ttl),
    command("type", 2, "rf", ONE, keys::type_of),
    command("unlink", -2, "wf", ALL, keys::del),
    command("unwatch", 1, "f", NO, elsewhere),
    command("wait", 3, "", NO, connection::wait),
    command("watch", -2, "f", ALL, elsewhere),
    command("zadd", -4, "wf", ONE, sorted::zadd),
    command("zcard", 2, "rf", ONE, sorted::zcard),
    command("zcount", 4, "rf", ONE, ranges::zcount),
    command("zdiff", -3, "r1", NO, combined::zdiff),
    command("zdiffstore", -4, "w2", ONE, combined::zdiffstore),
    command("zincrby", 4, "wf", ONE, sorted::zincrby),
    command("zinter", -3, "r1", NO, combined::zinter),
    command("zintercard", -3, "r1", NO, combined::zintercard),
    command("zinterstore", -4, "w2", ONE, combined::zinterstore),
    command("zlexcount", 4, "rf", ONE, ranges::zlexcount),
    command("zmpop", -4, "w1", NO, sorted::zmpop),
    command("zmscore", -3, "rf", ONE, sorted::zmscore),
    command("zpopmax", -2, "wf", ONE, sorted::zpopmax),
    command("zpopmin", -2, "wf", ONE, sorted::zpopmin),
    command("zrandmember", -2, "r", ONE, sorted::zrandmember),
    command("zrange", -4, "r", ONE, ranges::zrange),
    command("zrangebylex", -4, "r", ONE, ranges::zrangebylex),
    command("zrangebyscore", -4, "r", ONE, ranges::zrangebyscore),
    command("zrangestore", -5, "w", TWO, ranges::zrangestore),
    command("zrank", 3, "rf", ONE, sorted::zrank),
    command("zrem", -3, "wf", ONE, sorted::zrem),
    command("zremrangebylex", 4, "w", ONE, ranges::zremrangebylex),
    command("zremrangebyrank", 4, "w", ONE, ranges::zremrangebyrank),
    command("zremrangebyscore", 4, "w", ONE, ranges::zremrangebyscore),
    command("zrevrange", -4, "r", ONE, ranges::zrevrange),
    command("zrevrangebylex", -4, "r", ONE, ranges::zrevrangebylex),
    command("zrevrangebyscore", -4, "r", ONE, ranges::zrevrangebyscore),
    command("zrevrank", 3, "rf", ONE, sorted::zrevrank),
    command("zscan", -3, "r", ONE, sorted::zscan),
    command("zscore", 3, "rf", ONE, sorted::zscore),
    command("zunion", -3, "r1", NO, combined::zunion),
    command("zunionstore", -4, "w2", ONE, combined::zunionstore),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
