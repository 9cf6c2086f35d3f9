//! Which loop a source line stands in, and where a call ends: where a pre-store belongs.
//!
//! No parser of C: braces, parentheses and semicolons are enough to find where a loop begins and ends, in C
//! and what looks like it. Comments and literals are blanked first. A loop that a small constant bounds (the
//! five numbers of a cell, unrolled packets) is part of the body of the one around it.

/// Turns of a loop that is no loop for this purpose.
const FEW: u64 = 16;
/// Lines behind the one that is asked for in which its loop must end.
const AHEAD: usize = 2_000;

/// A loop or a call, by its first and last line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The line of its `for`, `while` or `do`, or of the function's name.
    pub first: u32,
    /// The line in which it ends.
    pub last: u32,
    /// The column in which it ends, from 1, if more code follows in that line.
    pub column: Option<u32>,
    /// Whether it is all that a loop or a condition around it has as its body, without braces: what follows
    /// it is outside of that.
    pub bare: bool,
}

impl Span {
    fn new(text: &[u8], begin: usize, end: usize, bare: bool) -> Span {
        let line_begins = text[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = text[end + 1..].iter().take_while(|byte| **byte != b'\n');
        let more = rest.into_iter().any(|byte| !byte.is_ascii_whitespace());
        Span {
            first: line_of(text, begin),
            last: line_of(text, end),
            column: more.then(|| u32::try_from(end + 1 - line_begins).unwrap_or(u32::MAX)),
            bare,
        }
    }

    /// The same, `lines` further down.
    fn down(self, lines: u32) -> Span {
        Span { first: self.first + lines, last: self.last + lines, ..self }
    }
}

/// The innermost loop around all of these lines of one function that has more than a few turns.
pub fn innermost(text: &str, lines: &[u32]) -> Option<Span> {
    let (first_line, last_line) = (*lines.iter().min()?, *lines.iter().max()?);
    let (text, before) = around(text, first_line);
    let (line, last_line) = (first_line.checked_sub(before)?, last_line.checked_sub(before)?);
    let text = blanked(&text);
    let mut found: Option<Span> = None;
    for (at, word) in words(&text) {
        if !matches!(word, "for" | "while" | "do") {
            continue;
        }
        let Some((end, few)) = extent(&text, at, word) else { continue };
        let span = Span::new(&text, at, end, is_bare(&text, at));
        let inner = found.is_none_or(|found| span.first >= found.first && span.last <= found.last);
        if span.first > line {
            break;
        }
        if span.last >= last_line && !few && inner {
            found = Some(span);
        }
    }
    found.map(|found| found.down(before))
}

/// The statement in this line that calls one of `names`; `None` if there is none, or nothing can come behind
/// it as it stands.
pub fn call(text: &str, line: u32, names: &[&str]) -> Option<Span> {
    let (text, before) = around(text, line);
    let line = line.checked_sub(before)?;
    let text = blanked(&text);
    let begins = line_start(&text, line)?;
    let (at, name) = words(&text[begins..])
        .map(|(at, word)| (begins + at, word))
        .find(|(_, word)| names.contains(word))?;
    if line_of(&text, at) != line {
        return None;
    }
    let mut end = closing(&text, skip_space(&text, at + name.len()))? + 1;
    // The rest of an expression, but not of a condition around it.
    while *text.get(end)? != b';' {
        end = match text[end] {
            b'(' | b'[' => closing(&text, end)? + 1,
            b')' | b'{' | b'}' | b']' => return None,
            _ => end + 1,
        };
    }
    let ends_before = |byte: &u8| matches!(byte, b';' | b'{' | b'}');
    let start = text[..at].iter().rposition(ends_before).map_or(0, |before| before + 1);
    let mut first = words(&text[start..at]).map(|(_, word)| word);
    let depth = text[start..at].iter().fold(0i32, |depth, byte| match byte {
        b'(' => depth + 1,
        b')' => depth - 1,
        _ => depth,
    });
    let (bare, returns) = match first.next() {
        Some("return") => (false, true),
        Some("if" | "else" | "while" | "do") => {
            (true, words(&text[start..at]).any(|(_, word)| word == "return"))
        }
        // The end of a `for`'s head.
        _ => (depth < 0, false),
    };
    (!returns).then(|| Span::new(&text, at, end, bare).down(before))
}

/// Whether the statement that begins at `at` is the body of a loop or a condition.
fn is_bare(text: &[u8], at: usize) -> bool {
    let before = text[..at].trim_ascii_end();
    before.ends_with(b")")
        || [&b"else"[..], b"do"].iter().any(|word| {
            before.ends_with(word)
                && !is_name(before.len().checked_sub(word.len() + 1).and_then(|at| before.get(at)))
        })
}

/// The byte with which a line begins.
fn line_start(text: &[u8], line: u32) -> Option<usize> {
    let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    match line {
        0 => None,
        1 => Some(0),
        _ => ends.nth(line as usize - 2).map(|(at, _)| at + 1),
    }
}

/// The lines from the end of the function before on, and how many lines are before them.
fn around(text: &str, line: u32) -> (String, u32) {
    let lines: Vec<&str> = text.lines().take((line as usize).saturating_add(AHEAD)).collect();
    let earlier = &lines[..lines.len().min((line as usize).saturating_sub(1))];
    let first = earlier.iter().rposition(|line| line.starts_with('}')).map_or(0, |end| end + 1);
    (lines[first..].join("\n"), u32::try_from(first).unwrap_or(u32::MAX))
}

/// The byte in which the loop that begins at `at` ends, and whether it has few turns.
fn extent(text: &[u8], at: usize, word: &str) -> Option<(usize, bool)> {
    let mut next = at + word.len();
    let mut few = false;
    if word != "do" {
        let open = skip_space(text, next);
        if text.get(open) != Some(&b'(') {
            return None;
        }
        let close = closing(text, open)?;
        few = word == "for" && has_few_turns(&text[open + 1..close]);
        next = close + 1;
        if word == "while" && text.get(skip_space(text, next)) == Some(&b';') {
            // The end of a `do`.
            return None;
        }
    }
    statement_end(text, skip_space(text, next)).map(|end| (end, few))
}

/// Where the statement that begins at `at` ends.
fn statement_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'{') {
        return closing(text, at);
    }
    for word in ["for", "while", "if", "switch"] {
        if text[at..].starts_with(word.as_bytes()) && !is_name(text.get(at + word.len())) {
            let open = skip_space(text, at + word.len());
            let close = closing(text, open)?;
            let end = statement_end(text, skip_space(text, close + 1))?;
            let after = skip_space(text, end + 1);
            let otherwise =
                word == "if" && text[after..].starts_with(b"else") && !is_name(text.get(after + 4));
            return if otherwise { statement_end(text, skip_space(text, after + 4)) } else { Some(end) };
        }
    }
    let mut at = at;
    loop {
        match text.get(at)? {
            b';' => return Some(at),
            b'(' | b'{' | b'[' => at = closing(text, at)? + 1,
            _ => at += 1,
        }
    }
}

/// The bracket that closes the one at `open`.
fn closing(text: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, &byte) in text.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the head of a `for` compares with a small number.
fn has_few_turns(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let Some(condition) = head.split(';').nth(1) else { return false };
    let Some((_, bound)) = condition.split_once('<') else { return false };
    bound.trim_start_matches('=').trim().parse::<u64>().is_ok_and(|bound| bound <= FEW)
}

fn words(text: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() && !is_name(text.get(at)) {
            at += 1;
        }
        let begin = at;
        while is_name(text.get(at)) {
            at += 1;
        }
        (at > begin).then(|| (begin, std::str::from_utf8(&text[begin..at]).unwrap_or_default()))
    })
}

fn is_name(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at.min(text.len())
}

fn line_of(text: &[u8], at: usize) -> u32 {
    let before = text[..at].iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// The text with blanks for comments, literals, preprocessor lines and whatever is not ASCII; lines stay
/// where they are.
fn blanked(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while at < out.len() {
        let rest = &out[at..];
        let end = if rest.starts_with(b"//") || is_directive(&out, at) {
            rest.iter().position(|byte| *byte == b'\n').map_or(out.len(), |end| at + end)
        } else if rest.starts_with(b"/*") {
            rest.windows(2).position(|pair| pair == b"*/").map_or(out.len(), |end| at + end + 2)
        } else if rest[0] == b'"' || rest[0] == b'\'' {
            literal_end(rest).map_or(at + 1, |end| at + end + 1)
        } else {
            at += 1;
            continue;
        };
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    out
}

fn is_directive(text: &[u8], at: usize) -> bool {
    text[at] == b'#'
        && text[..at].iter().rev().take_while(|byte| **byte != b'\n').all(u8::is_ascii_whitespace)
}

/// Where a literal that begins here ends, if that is on the same line.
fn literal_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    while *text.get(at)? != text[0] {
        if text[at] == b'\n' {
            return None;
        }
        at += 1 + usize::from(text[at] == b'\\');
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
void f(double *u, int n)
{
    for (int j = 1; j < n - 1; j++) { /* for ( */
        for (int i = 1; i < n; i++)
            u[i] = u[i] +
                   g(\"for (;;) {\", i);
        while (busy())
            wait();
        for (int i = 0; i < n; i++)
            for (int m = 0; m < 5; m++)
                if (m)
                    u[5 * i + m] = 0;
                else
                    u[5 * i + m] = 1;
    }
    u[0] = 1;
    do {
        u[n] = 2;
    } while (u[1] > 0);
}
";

    #[test]
    fn the_loop_around_a_line_is_found_with_its_end() {
        for (line, expected) in [
            (5, Some((4, 6))),
            (8, Some((7, 8))),
            (12, Some((9, 14))),
            (14, Some((9, 14))),
            (16, None),
            (18, Some((17, 19))),
            (3, Some((3, 15))),
        ] {
            let found = innermost(CODE, &[line]).map(|found| (found.first, found.last));
            assert_eq!(found, expected, "line {line}");
        }
        for (lines, expected) in
            [(&[5, 8][..], Some((3, 15))), (&[14, 12], Some((9, 14))), (&[18, 12], None), (&[], None)]
        {
            let found = innermost(CODE, lines).map(|found| (found.first, found.last));
            assert_eq!(found, expected, "lines {lines:?}");
        }
    }

    #[test]
    fn where_a_line_can_come_in_is_reported_exactly() {
        // A nest without braces, and a loop with the function's end in its line.
        let text = "void f(void)\n{\n    for (j = 0; j < n; j++)\n        for (i = 0; i < n; i++)\n            u[i] = 0;\n}\n\
                    void g(void) { for (i = 0; i < n; i++) u[i] = 0; }\n\
                    void h(void)\n{\n    if (x) {\n        for (i = 0; i < n; i++)\n            u[i] = 0; // }\n    }\n    do\n        \
                    while (x) u[i++] = 0;\n    while (y);\n}\n";
        let found_call =
            |line| innermost(text, &[line]).map(|span| (span.first, span.last, span.column, span.bare));
        assert_eq!(found_call(5), Some((4, 5, None, true)));
        assert_eq!(found_call(7), Some((7, 7, Some(48), false)));
        assert_eq!(found_call(12), Some((11, 12, None, false)));
        assert_eq!(found_call(15), Some((15, 15, None, true)));
    }

    #[test]
    fn a_call_ends_with_its_statement() {
        let text = "void f(void)\n{\n    memcpy(a,\n           b, g(c));\n    if (x)\n        memcpy(a, b, c);\n    return memcpy(a, b, c);\n    \
                    p = (char *)memcpy(a, b, c) + c; q++;\n    if (memcpy(a, b, c)) x();\n    for (i = 0; i < n; i++) memcpy(a, b, c);\n    \
                    if (x) return memcpy(a, b, c);\n    (void)memcpy(a, b, c); /* memcpy( */\n}\n";
        let found_call =
            |line| call(text, line, &["memset", "memcpy"]).map(|span| (span.last, span.column, span.bare));
        for (line, expected) in [
            (3, Some((4, None, false))),
            (4, None),
            (6, Some((6, None, true))),
            (7, None),
            (8, Some((8, Some(36), false))),
            (9, None),
            (10, Some((10, None, true))),
            (11, None),
            (12, Some((12, None, false))),
        ] {
            assert_eq!(found_call(line), expected, "line {line}");
        }
    }

    #[test]
    fn broken_text_has_no_loops_and_no_panics() {
        for text in
            ["for (", "for (;;) {", "while", "do", "for (;;) x", "\"", "/*", "#define x for (;;) {\n", "}{)("]
        {
            assert_eq!(innermost(text, &[1]), None, "{text}");
        }
        let some: String = CODE.chars().rev().collect();
        for line in 0..30 {
            let _ = innermost(&some, &[line]);
            let _ = call(&some, line, &["g", "f"]);
        }
    }
}
