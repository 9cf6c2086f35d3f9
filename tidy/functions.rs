//! Where functions begin and end, by indentation: rustfmt puts a function's closing brace under its `fn`.

/// A function of a formatted source file.
pub struct Function {
    pub name: String,
    /// Line of the signature, from 1.
    pub line: usize,
    /// From the signature to the closing brace.
    pub lines: usize,
}

/// The functions of a file, nested ones too.
pub fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let opens = lines[start..]
            .iter()
            .take(20)
            .position(|l| l.ends_with('{') || l.ends_with(';') || l.ends_with('}'));
        let Some(opens) = opens else { continue };
        if !lines[start + opens].ends_with('{') {
            continue;
        }
        if let Some(length) = lines[start + opens..].iter().position(|l| **l == closing) {
            found.push(Function { name, line: start + 1, lines: opens + length + 1 });
        }
    }
    found
}

/// The name, if the line starts a function.
fn function_name(line: &str) -> Option<String> {
    let mut rest = line.trim_start();
    let qualifiers = ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe ", "extern \"C\" "];
    while let Some(after) = qualifiers.iter().find_map(|q| rest.strip_prefix(q)) {
        rest = after;
    }
    let name: String =
        rest.strip_prefix("fn ")?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}
