//! Patterns as in `KEYS`: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what means itself.

/// Whether a text matches.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where to go on if what follows the last `*` does not match: one character further.
    let mut back: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    loop {
        if pattern.get(p) == Some(&b'*') {
            back = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        if p < pattern.len()
            && let Some(next) = one(pattern, p, text[t])
        {
            (p, t) = (next, t + 1);
            continue;
        }
        match &mut back {
            Some((after, from)) => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            None => return false,
        }
    }
}

/// Whether the piece of the pattern at `p` matches a character; where the next piece is then.
fn one(pattern: &[u8], p: usize, c: u8) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p, c),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == c).then_some(p + 2),
        other => (other == c).then_some(p + 1),
    }
}

/// The same for a class. One without an end reaches to the end of the pattern.
fn class(pattern: &[u8], p: usize, c: u8) -> Option<usize> {
    let mut at = p + 1;
    let not = pattern.get(at) == Some(&b'^');
    at += usize::from(not);
    let mut found = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == c;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&c);
                at += 3;
            }
            [single, ..] => {
                found |= *single == c;
                at += 1;
            }
        }
    }
    (found != not).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h*llo*x", "hlllollox", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("[b-a]", "a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[a", "a", true),
            ("a*", "b", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        // What would take time without end if every star were tried again.
        assert!(!matches(&b"a*".repeat(50), &b"a".repeat(5000)[..49]));
        assert!(!matches(&[b"*a".repeat(50), b"b".to_vec()].concat(), &b"a".repeat(20_000)));
    }
}
