//! Replies, and their bytes in both versions of the protocol.

use crate::number::general;

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A word: `+OK`.
    Word(&'static str),
    /// An error, with its code: `-ERR ...`.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A number with a fraction. A bulk string for RESP2.
    Double(f64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Text for people. A bulk string for RESP2.
    Text(String),
    /// No value.
    Null,
    /// No array. The same as no value for RESP3.
    NullArray,
    /// Several values in order.
    Array(Vec<Reply>),
    /// Several values in no order. An array for RESP2.
    Set(Vec<Reply>),
    /// Names and values. An array in which they alternate for RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Pairs: for RESP2 an array in which their halves alternate, for RESP3 an array of arrays.
    Pairs(Vec<(Reply, Reply)>),
    /// Replies that are sent one after the other, as to `SUBSCRIBE` without channels. None: no reply.
    Silence,
}

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RESP2.
    Two,
    /// RESP3.
    Three,
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Word("OK");

    /// Bytes.
    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// Bytes, or no value.
    pub fn or_null(bytes: Option<Vec<u8>>) -> Reply {
        bytes.map_or(Reply::Null, Reply::Bulk)
    }

    /// How many there are.
    pub fn count(count: usize) -> Reply {
        Reply::Integer(count as i64)
    }

    /// 1 or 0.
    pub fn truth(truth: bool) -> Reply {
        Reply::Integer(truth.into())
    }

    /// An array of bulk strings.
    pub fn bulks(all: impl IntoIterator<Item = Vec<u8>>) -> Reply {
        Reply::Array(all.into_iter().map(Reply::Bulk).collect())
    }

    /// Appends its bytes.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        let three = version == Version::Three;
        match self {
            Reply::Word(word) => line(out, b'+', word.as_bytes()),
            // A line break would end the error.
            Reply::Error(text) => {
                let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
                line(out, b'-', &text.iter().map(blank).collect::<Vec<u8>>());
            }
            Reply::Integer(value) => number(out, b':', *value),
            Reply::Double(value) if three => line(out, b',', general(*value).as_bytes()),
            Reply::Double(value) => bulk(out, general(*value).as_bytes()),
            Reply::Bulk(bytes) => bulk(out, bytes),
            Reply::Text(text) if three => {
                number(out, b'=', text.len() as i64 + 4);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Reply::Text(text) => bulk(out, text.as_bytes()),
            Reply::Null | Reply::NullArray if three => out.extend_from_slice(b"_\r\n"),
            Reply::Null => out.extend_from_slice(b"$-1\r\n"),
            Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(all) | Reply::Set(all) => {
                let sign = if three && matches!(self, Reply::Set(_)) { b'~' } else { b'*' };
                number(out, sign, all.len() as i64);
                all.iter().for_each(|reply| reply.write(version, out));
            }
            Reply::Map(pairs) | Reply::Pairs(pairs) => {
                let map = matches!(self, Reply::Map(_));
                match (three, map) {
                    (true, true) => number(out, b'%', pairs.len() as i64),
                    (true, false) => number(out, b'*', pairs.len() as i64),
                    (false, _) => number(out, b'*', 2 * pairs.len() as i64),
                }
                for (first, second) in pairs {
                    if three && !map {
                        number(out, b'*', 2);
                    }
                    first.write(version, out);
                    second.write(version, out);
                }
            }
            Reply::Silence => {}
        }
    }
}

fn line(out: &mut Vec<u8>, sign: u8, text: &[u8]) {
    out.push(sign);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, sign: u8, value: i64) {
    out.push(sign);
    let (mut digits, mut at, mut rest) = ([0u8; 20], 20, value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(reply: &Reply, version: Version) -> String {
        let mut out = Vec::new();
        reply.write(version, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn replies_have_the_bytes_of_their_version() {
        let scored = || vec![(Reply::bulk("a"), Reply::Double(0.5))];
        for (reply, two, three) in [
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (Reply::Error(b"ERR a\r\nb".into()), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::Text("hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Reply::Map(scored()), "*2\r\n$1\r\na\r\n$3\r\n0.5\r\n", "%1\r\n$1\r\na\r\n,0.5\r\n"),
            (Reply::Pairs(scored()), "*2\r\n$1\r\na\r\n$3\r\n0.5\r\n", "*1\r\n*2\r\n$1\r\na\r\n,0.5\r\n"),
            (Reply::Set(vec![Reply::OK]), "*1\r\n+OK\r\n", "~1\r\n+OK\r\n"),
        ] {
            assert_eq!((&*bytes(&reply, Version::Two), &*bytes(&reply, Version::Three)), (two, three));
        }
    }
}
