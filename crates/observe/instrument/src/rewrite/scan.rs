//! Assembler source cut into labels and statements.
//!
//! Only as much of gas's lexical rules as is needed to find where a statement begins and ends: comments,
//! strings, character constants, `;` and the `#APP` marks around inline assembly. Positions are byte offsets,
//! so that whatever is not understood can be left exactly as it is.

use std::ops::Range;

/// What comes next in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `name:`, the name's place.
    Label(Range<usize>),
    /// An instruction or a directive, without comment and surrounding blanks.
    Statement(Range<usize>),
    /// Inline assembly begins (`true`) or ends.
    InlineAssembly(bool),
}

/// Walks over a source.
pub struct Scanner<'a> {
    source: &'a [u8],
    at: usize,
    line_start: bool,
}

impl<'a> Scanner<'a> {
    /// From the beginning.
    pub fn new(source: &'a [u8]) -> Self {
        Scanner { source, at: 0, line_start: true }
    }

    fn skip_line(&mut self) {
        let rest = &self.source[self.at..];
        self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }

    fn skip_block_comment(&mut self) {
        let rest = &self.source[self.at + 2..];
        self.at += 2 + rest.windows(2).position(|w| w == b"*/").map_or(rest.len(), |end| end + 2);
    }

    /// A label at the current position, if there is one.
    fn label(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let rest = &self.source[start..];
        let name = if rest[0] == b'"' {
            rest[1..].iter().position(|&b| b == b'"' || b == b'\n').map_or(0, |end| end + 2)
        } else {
            rest.iter().position(|&b| !is_symbol(b)).unwrap_or(rest.len())
        };
        let blanks = rest[name.min(rest.len())..].iter().position(|&b| b != b' ' && b != b'\t')?;
        if name == 0 || rest[name + blanks] != b':' {
            return None;
        }
        self.at = start + name + blanks + 1;
        Some(start..start + name)
    }

    /// The end of the statement at the current position, trailing blanks excluded.
    fn statement(&mut self) -> Range<usize> {
        let (start, source) = (self.at, self.source);
        let mut at = start;
        while let Some(&byte) = source.get(at) {
            match byte {
                b'\n' | b';' | b'#' => break,
                b'"' => at = string_end(source, at),
                // A character constant; its closing quote is optional. No statement goes over the end of a
                // line.
                b'\'' => {
                    let constant = if source.get(at + 1) == Some(&b'\\') { 3 } else { 2 };
                    at += source[at..].iter().take(constant).take_while(|byte| **byte != b'\n').count();
                }
                b'/' if source.get(at + 1) == Some(&b'*') => break,
                _ => at += 1,
            }
        }
        self.at = at.min(source.len());
        start..start + source[start..self.at].trim_ascii_end().len()
    }
}

impl Iterator for Scanner<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let rest = &self.source[self.at..];
            match *rest.first()? {
                b'\n' => {
                    self.line_start = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => {
                    self.line_start = false;
                    self.at += 1;
                }
                b'#' => {
                    let first = self.line_start;
                    self.skip_line();
                    match rest {
                        [b'#', b'A', b'P', b'P', ..] if first => return Some(Item::InlineAssembly(true)),
                        [b'#', b'N', b'O', b'_', b'A', b'P', b'P', ..] if first => {
                            return Some(Item::InlineAssembly(false));
                        }
                        _ => {}
                    }
                }
                b'/' if rest.get(1) == Some(&b'*') => self.skip_block_comment(),
                b'/' if self.line_start => self.skip_line(),
                _ => {
                    self.line_start = false;
                    if let Some(name) = self.label() {
                        return Some(Item::Label(name));
                    }
                    // Empty where only a form feed stands. Whatever byte comes here is taken.
                    let range = self.statement();
                    if !range.is_empty() {
                        return Some(Item::Statement(range));
                    }
                }
            }
        }
    }
}

/// Whether a symbol may contain this.
pub fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || byte >= 0x80
}

/// The position after the string that begins at `at`.
pub fn string_end(source: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(&byte) = source.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            b'\n' => return at,
            _ => at += 1,
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(source: &str) -> Vec<String> {
        Scanner::new(source.as_bytes())
            .map(|item| match item {
                Item::Label(at) => format!("{}:", &source[at]),
                Item::Statement(at) => source[at].to_string(),
                Item::InlineAssembly(on) => format!("asm {on}"),
            })
            .collect()
    }

    #[test]
    fn labels_statements_and_comments() {
        assert_eq!(
            items("a: b:\tmovl $1, %eax # c; d\n1: lock; incl (%rdi) ; /* x\n ; */ ret\n/ line\nq = 3\n"),
            ["a:", "b:", "movl $1, %eax", "1:", "lock", "incl (%rdi)", "ret", "q = 3"]
        );
    }

    #[test]
    fn strings_and_characters_hide_separators() {
        assert_eq!(
            items(".ascii \"a;#\\\"b\"; movb $';', %al\n.ident \"x\"#y\n\"odd name\": nop"),
            [".ascii \"a;#\\\"b\"", "movb $';', %al", ".ident \"x\"", "\"odd name\":", "nop"]
        );
        assert_eq!(items("neg '\nnop\nneg '\\\nnop"), ["neg '", "nop", "neg '\\", "nop"]);
    }

    #[test]
    fn inline_assembly_is_marked() {
        assert_eq!(
            items("#APP\n# 4 \"a.c\" 1\n\tnop\n# 0 \"\" 2\n#NO_APP\n\t#APP\n\t#NO_APP\nret"),
            ["asm true", "nop", "asm false", "asm true", "asm false", "ret"]
        );
        assert_eq!(items("ret\n\x0c\n#APP\n"), ["ret", "asm true"], "a line may hold a form feed only");
    }

    #[test]
    fn nothing_makes_it_fail() {
        for source in
            ["\x0c", "\"", "'", "/*", "a", "a:", "\\", "\"\\", "#", ";;", "'\\", "x'", "/", "*", "a \t"]
        {
            let _ = items(source);
        }
    }
}
