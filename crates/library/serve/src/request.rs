//! Requests: arrays of bulk strings, or lines typed into a terminal. Nothing here waits, and nothing grows by
//! more than what has arrived: a length that a client announces reserves no memory.

use std::ops::Range;

use bytes::{Buf, BytesMut};

/// How large a request may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Arguments of a request.
    pub arguments: usize,
    /// Bytes of an argument.
    pub argument: usize,
    /// Bytes of a request.
    pub request: usize,
}

impl Limits {
    /// Of a client that has not yet given the password; Redis's numbers.
    pub const STRANGER: Limits = Limits { arguments: 10, argument: 16384, request: 1 << 18 };
}

/// Bytes of a line that is no bulk string.
const LINE_MAX: usize = 64 * 1024;

/// Why bytes are no request; Redis's words, to be sent before the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub struct Malformed(String);

impl From<&str> for Malformed {
    fn from(text: &str) -> Malformed {
        Malformed(text.to_owned())
    }
}

/// Finds the requests in a connection's bytes. It keeps where it is, so that what arrives in small pieces is
/// looked at once.
#[derive(Debug, Default)]
pub struct Parser {
    /// Where the next thing begins.
    at: usize,
    /// Bulk strings that are still to come, while within an array.
    missing: Option<usize>,
    /// Length of the bulk string at `at`, once it is known.
    bulk: Option<usize>,
    /// What of the current request is there.
    found: Vec<Range<usize>>,
    /// Arguments of a line with quotes, which are not in the buffer as they are.
    unquoted: Option<Vec<Vec<u8>>>,
}

impl Parser {
    /// Whether a whole request stands at the beginning of `buffer`. An empty one counts as one: it has no
    /// arguments and gets no reply.
    ///
    /// # Errors
    /// If what is there is none, and never will be.
    pub fn advance(&mut self, buffer: &[u8], limits: &Limits) -> Result<bool, Malformed> {
        if self.missing.is_none() {
            match buffer.get(self.at) {
                None => return Ok(false),
                Some(b'*') => {
                    let Some(line) = self.line(buffer, "too big mbulk count string")? else {
                        return Ok(false);
                    };
                    let count = keyspace::number::integer(&buffer[line.start + 1..line.end]);
                    let count = count.filter(|count| *count <= limits.arguments as i64);
                    let Some(count) = count else {
                        let stranger = limits.arguments <= Limits::STRANGER.arguments;
                        let number = keyspace::number::integer(&buffer[line.start + 1..line.end]);
                        return Err(match number {
                            Some(number) if stranger && number <= i64::from(i32::MAX) => {
                                "unauthenticated multibulk length".into()
                            }
                            _ => "invalid multibulk length".into(),
                        });
                    };
                    self.missing = Some(count.max(0) as usize);
                }
                Some(_) => return self.inline(buffer),
            }
        }
        while let Some(missing) = self.missing.filter(|missing| *missing > 0) {
            if !self.bulk_string(buffer, limits)? {
                if self.at > limits.request || buffer.len() > limits.request.saturating_add(LINE_MAX) {
                    return Err("request is too large".into());
                }
                return Ok(false);
            }
            self.missing = Some(missing - 1);
        }
        Ok(true)
    }

    /// Takes the bulk string at `at`, if it is there.
    fn bulk_string(&mut self, buffer: &[u8], limits: &Limits) -> Result<bool, Malformed> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let Some(first) = buffer.get(self.at) else { return Ok(false) };
                if *first != b'$' {
                    let shown = (*first as char).to_string();
                    return Err(Malformed(format!("expected '$', got '{shown}'")));
                }
                let Some(line) = self.line(buffer, "too big bulk count string")? else { return Ok(false) };
                let number = keyspace::number::integer(&buffer[line.start + 1..line.end]);
                let len = number.and_then(|len| usize::try_from(len).ok());
                let Some(len) = len.filter(|len| *len <= limits.argument) else {
                    let stranger = limits.arguments <= Limits::STRANGER.arguments;
                    return Err(match len {
                        Some(_) if stranger => "unauthenticated bulk length".into(),
                        _ => "invalid bulk length".into(),
                    });
                };
                self.bulk = Some(len);
                len
            }
        };
        if buffer.len() < self.at + len + 2 {
            return Ok(false);
        }
        self.found.push(self.at..self.at + len);
        self.at += len + 2;
        self.bulk = None;
        if self.at > limits.request {
            return Err("request is too large".into());
        }
        Ok(true)
    }

    /// The line at `at` without its end, and moves behind it.
    fn line(&mut self, buffer: &[u8], too_long: &str) -> Result<Option<Range<usize>>, Malformed> {
        let rest = &buffer[self.at..];
        let Some(end) = rest.iter().take(LINE_MAX).position(|byte| *byte == b'\r') else {
            return if rest.len() >= LINE_MAX { Err(too_long.into()) } else { Ok(None) };
        };
        if rest.len() < end + 2 {
            return Ok(None);
        }
        let line = self.at..self.at + end;
        self.at += end + 2;
        Ok(Some(line))
    }

    /// A request in a line: words between spaces, perhaps in quotes.
    fn inline(&mut self, buffer: &[u8]) -> Result<bool, Malformed> {
        let rest = &buffer[self.at..];
        let Some(end) = rest.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
            return if rest.len() >= LINE_MAX { Err("too big inline request".into()) } else { Ok(false) };
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        self.unquoted = Some(words(line).ok_or("unbalanced quotes in request")?);
        self.at += end + 1;
        Ok(true)
    }

    /// The arguments of the request that [`advance`](Parser::advance) found.
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Vec<&'a [u8]> {
        match &self.unquoted {
            Some(words) => words.iter().map(Vec::as_slice).collect(),
            None => self.found.iter().map(|range| &buffer[range.clone()]).collect(),
        }
    }

    /// Drops the request that was found, and makes ready for the next.
    pub fn take(&mut self, buffer: &mut BytesMut) {
        buffer.advance(self.at);
        self.at = 0;
        self.missing = None;
        self.found.clear();
        self.unquoted = None;
    }

    /// Bytes of which it is known that they will be needed, from the beginning of the buffer on.
    pub fn wanted(&self) -> usize {
        self.bulk.map_or(0, |len| self.at + len + 2)
    }
}

/// Words between white space; `"..."` with escapes and `'...'` hold together. None if a quote has no end.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c | 0);
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|byte| space(*byte)) {
            at += 1;
        }
        if at >= line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        let mut quote = None;
        loop {
            let Some(&byte) = line.get(at) else {
                if quote.is_some() {
                    return None;
                }
                break;
            };
            match (quote, byte) {
                (Some(end), byte) if byte == end => {
                    if line.get(at + 1).is_some_and(|next| !space(*next)) {
                        return None;
                    }
                    at += 1;
                    break;
                }
                (Some(b'"'), b'\\') if at + 1 < line.len() => at += escape(&line[at..], &mut word),
                (Some(b'\''), b'\\') if line.get(at + 1) == Some(&b'\'') => {
                    word.push(b'\'');
                    at += 2;
                }
                (None, b'"' | b'\'') => {
                    quote = Some(byte);
                    at += 1;
                }
                (None, byte) if space(byte) => break,
                (_, byte) => {
                    word.push(byte);
                    at += 1;
                }
            }
        }
        words.push(word);
    }
}

/// Reads what a backslash begins; how long it is.
fn escape(text: &[u8], into: &mut Vec<u8>) -> usize {
    let hex = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if let [_, b'x', high, low, ..] = text
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        into.push(high << 4 | low);
        return 4;
    }
    into.push(match text[1] {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    });
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { arguments: 1024, argument: 1 << 20, request: 1 << 21 };

    fn all(bytes: &[u8], step: usize) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
        let (mut parser, mut buffer, mut found) = (Parser::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            buffer.extend_from_slice(piece);
            while parser.advance(&buffer, &LIMITS)? {
                found.push(parser.arguments(&buffer).into_iter().map(<[u8]>::to_vec).collect());
                parser.take(&mut buffer);
            }
        }
        Ok(found)
    }

    #[test]
    fn pieces_of_any_size_give_the_same_requests() {
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nbc\r\nSET \"a \\x41\\n\" 'b c'\r\n\r\n*0\r\n*1\r\n$0\r\n\r\n";
        let whole = all(bytes, bytes.len()).expect("requests");
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0], [b"GET".to_vec(), b"a\r\nbc".to_vec()]);
        assert_eq!(whole[1], [b"SET".to_vec(), b"a A\n".to_vec(), b"b c".to_vec()]);
        for step in 1..bytes.len() {
            assert_eq!(all(bytes, step).as_ref(), Ok(&whole), "{step}");
        }
    }

    #[test]
    fn refusals_are_redis_s() {
        for (bytes, words) in [
            ("*x\r\n", "invalid multibulk length"),
            ("*9999\r\n", "invalid multibulk length"),
            ("*1\r\nGET\r\n", "expected '$', got 'G'"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$99999999\r\n", "invalid bulk length"),
            ("SET \"a\r\n", "unbalanced quotes in request"),
        ] {
            let found = all(bytes.as_bytes(), 100).expect_err(bytes).to_string();
            assert_eq!(found, format!("Protocol error: {words}"));
        }
        let endless = vec![b'a'; LINE_MAX + 1];
        assert!(all(&endless, 1000).is_err());
    }

    /// The announced length of an array reserves nothing, and a request has an end.
    #[test]
    fn a_request_has_a_limit() {
        let mut bytes = b"*1000\r\n".to_vec();
        let argument = vec![b'x'; 1 << 20];
        for _ in 0..3 {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(&argument);
            bytes.extend(b"\r\n");
        }
        assert_eq!(all(&bytes, 1 << 16), Err("request is too large".into()));
    }
}
