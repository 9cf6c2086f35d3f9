//! Rules on text: width of lines, length of pages, words.

/// Longest line of code and comments, in columns.
pub const WIDTH_MAX: usize = 110;

/// Longest pages, in lines.
pub const PAGES: &[(&str, usize)] =
    &[("README.md", 150), ("ARCHITECTURE.md", 250), ("docs/performance.md", 60), ("docs/calibration.md", 60)];

/// Words that have a better one (CONTRIBUTING.md says which). Spelled in pieces, so that this file passes its
/// own test.
pub fn unwanted_words() -> Vec<String> {
    const PIECES: &[[&str; 2]] = &[
        ["to", "ld"],
        ["tel", "ls"],
        ["tel", "ling"],
        ["sett", "le"],
        ["giv", "er"],
        ["tak", "er"],
        ["past the", " cache"],
        ["ki", "n"],
        ["length", "en"],
        ["surp", "lus"],
        ["me", "lt"],
        ["by ha", "nd"],
        ["who gave", " it"],
        ["what others", " wrote"],
    ];
    PIECES.iter().map(|pieces| pieces.concat()).collect()
}

/// How many lines are wider than allowed.
pub fn wide_lines(text: &str) -> usize {
    text.lines().filter(|line| line.chars().count() > WIDTH_MAX).count()
}

/// How many lines have the word, in either case, not within another word. `_` separates words.
pub fn lines_with(text: &str, word: &str) -> usize {
    let has = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let joined = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !joined(line[..at].chars().next_back()) && !joined(line[at + word.len()..].chars().next())
        })
    };
    text.lines().filter(|line| has(&line.to_lowercase())).count()
}
