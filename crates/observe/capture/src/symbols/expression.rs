//! What a line of source assigns a new block to: `t->slots`, `rows[i]`, `*out`, and what `sizeof *p` names.

/// One step from a variable to what is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `.name` or `->name`.
    Field(String),
    /// `[i]` or `*`.
    Element,
}

/// A variable and the steps from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    /// Whether the type asked for is its own, not that of what it points to.
    pub(super) value: bool,
}

/// What `sizeof` of an expression in some code names: `sizeof *p`, `sizeof(p[0])`, `sizeof(t->slots[0])`.
pub(super) fn measured(code: &str) -> Option<Expression> {
    let at = code.find("sizeof")?;
    let rest = code[at + "sizeof".len()..].trim_start().trim_start_matches(['(', ' ']);
    let (stars, rest) = stars(rest);
    let end = end_of(rest)?;
    let mut found = postfix(&rest[..end], stars)?;
    found.value = true;
    // A bare word may be a type, which is somebody else's.
    (stars > 0 || !found.steps.is_empty()).then_some(found)
}

/// The left side of the last assignment before a call.
pub(super) fn assigned(code: &str) -> Option<Expression> {
    let call = ["alloc(", "memalign(", "new ", "vec!", "with_capacity(", "Box::new("];
    let call = call.iter().filter_map(|name| code.find(name)).min()?;
    let before = &code[..call];
    let at = before.char_indices().rev().find(|&(at, letter)| {
        let around = |offset: usize| before.as_bytes().get(offset).copied().unwrap_or(b' ');
        let twice = around(at + 1) == b'='
            || (at > 0 && matches!(around(at - 1), b'=' | b'<' | b'>' | b'!' | b'+' | b'-' | b'|' | b'&'));
        letter == '=' && !twice
    })?;
    let left = before[..at.0].trim_end();
    if let Some(declared) = left.rsplit("let ").next().filter(|rest| rest.len() < left.len()) {
        let name = declared.trim_start().trim_start_matches("mut ").trim_start();
        let end = name.find(|letter: char| !is_word(letter)).unwrap_or(name.len());
        return (end > 0).then(|| Expression {
            name: name[..end].to_owned(),
            steps: Vec::new(),
            value: false,
        });
    }
    let start = start_of(left)?;
    let before = left[..start].trim_end();
    let (outside, stars) = (before.trim_end_matches(['*', ' ']), before.matches('*').count());
    let declares = outside.ends_with(is_word) || outside.ends_with('>');
    let stars = if declares || before.len() == outside.len() { 0 } else { stars };
    postfix(&left[start..], stars)
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn stars(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches(['*', ' ']);
    (text[..text.len() - rest.len()].matches('*').count(), rest)
}

/// Where a postfix expression at the beginning ends.
fn end_of(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            _ if depth > 0 || is_word(letter) || letter == '.' => {}
            '-' if text[at..].starts_with("->") => at += 1,
            _ => break,
        }
        at += letter.len_utf8();
    }
    (at > 0 && depth == 0).then_some(at)
}

/// Where a postfix expression at the end begins.
fn start_of(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut start = text.len();
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ']' => depth += 1,
            '[' => depth = depth.checked_sub(1)?,
            _ if depth > 0 || is_word(letter) || letter == '.' => {}
            '>' if text[..at].ends_with('-') => {}
            '-' if text[at..].starts_with("->") => {}
            _ => break,
        }
        start = at;
    }
    (depth == 0 && start < text.len()).then_some(start)
}

/// `a->b[i].c`, with stars in front.
fn postfix(text: &str, stars: usize) -> Option<Expression> {
    let end = text.find(|letter: char| !is_word(letter)).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let field = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.'));
        if let Some(field) = field {
            let end = field.find(|letter: char| !is_word(letter)).unwrap_or(field.len());
            steps.push(Step::Field(field[..end].to_owned()));
            rest = &field[end..];
        } else if rest.starts_with('[') {
            let mut depth = 0_u32;
            let end = rest.find(|letter| {
                match letter {
                    '[' => depth += 1,
                    ']' => depth -= 1,
                    _ => {}
                }
                depth == 0
            })?;
            steps.push(Step::Element);
            rest = &rest[end + 1..];
        } else {
            return None;
        }
    }
    steps.extend((0..stars).map(|_| Step::Element));
    Some(Expression { name: name.to_owned(), steps, value: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(found: Option<Expression>) -> String {
        let Some(found) = found else { return "-".to_owned() };
        let steps = found.steps.iter().map(|step| match step {
            Step::Field(name) => format!(" .{name}"),
            Step::Element => " []".to_owned(),
        });
        format!("{}{}", found.name, steps.collect::<String>())
    }

    #[test]
    fn left_sides_are_read() {
        for (code, expected) in [
            ("    struct node *n = malloc(sizeof *n);", "n"),
            ("t->slots = calloc(n, sizeof *t->slots);", "t .slots"),
            ("rows[i] = (double *)malloc(8 * n);", "rows []"),
            ("  *out = malloc(n);", "out []"),
            ("if (!(a.b[i + x[2]].c = malloc(n))) return 1;", "a .b [] .c"),
            ("for (int i = 0; i < n; i++) { p = realloc(p, 2 * n); }", "p"),
            ("if (x == malloc(3))", "-"),
            ("return malloc(n);", "-"),
            ("let mut all: Vec<Node> = Vec::with_capacity(100);", "all"),
            ("let x = vec![0u64; 1000];", "x"),
            ("", "-"),
        ] {
            assert_eq!(text(assigned(code)), expected, "{code}");
        }
    }

    #[test]
    fn sizes_of_expressions_are_read() {
        for (code, expected) in [
            ("return malloc(n * sizeof *p);", "p []"),
            ("return malloc(n * sizeof(*t->slots));", "t .slots []"),
            ("x(sizeof(a[0]))", "a []"),
            ("malloc(sizeof(struct node))", "-"),
            ("malloc(sizeof node)", "-"),
            ("malloc(sizeof", "-"),
        ] {
            assert_eq!(text(measured(code)), expected, "{code}");
        }
    }
}
