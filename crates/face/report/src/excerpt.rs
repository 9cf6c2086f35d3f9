//! A few lines of a source file around those that are meant.

use event::Frame;

use crate::human::plain;

/// Lines before and after the one that is meant.
const CONTEXT_LINES: usize = 3;
/// Letters of a source line; generated code has lines of megabytes.
const LINE_LETTERS_MAX: usize = 240;

/// Lines of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    pub(crate) file: String,
    /// Lines that are meant, each with a word on it.
    pub(crate) meant: Vec<(usize, String)>,
    pub(crate) lines: Vec<(usize, String)>,
}

impl Excerpt {
    /// The lines around a place. `source` gives a file's whole text by the name that the debug information
    /// has for it. `None` if it has no such file, or a version that is too short.
    #[must_use]
    pub fn of(frame: &Frame, source: &dyn Fn(&str) -> Option<String>) -> Option<Excerpt> {
        let named = !frame.file.is_empty() && frame.line > 0;
        let text = named.then(|| source(&frame.file)).flatten()?;
        let line = frame.line as usize;
        let lines = around(&text, line);
        let meant = vec![(line, String::new())];
        (!lines.is_empty()).then(|| Excerpt { file: frame.file.clone(), meant, lines })
    }

    /// The lines around several places, each with a word on it; places close to each other share an excerpt.
    #[must_use]
    pub fn of_places(places: &[(&Frame, &str)], source: &dyn Fn(&str) -> Option<String>) -> Vec<Excerpt> {
        let mut excerpts: Vec<Excerpt> = Vec::new();
        for (frame, word) in places {
            let Some(mut new) = Excerpt::of(frame, source) else { continue };
            new.meant[0].1 = (*word).to_owned();
            match excerpts.iter_mut().find(|known| known.touches(&new)) {
                Some(known) => known.join(new),
                None => excerpts.push(new),
            }
        }
        excerpts
    }

    fn span(&self) -> (usize, usize) {
        let number = |line: Option<&(usize, String)>| line.map_or(0, |(number, _)| *number);
        (number(self.lines.first()), number(self.lines.last()))
    }

    /// Whether nothing lies between the two.
    fn touches(&self, other: &Excerpt) -> bool {
        let ((first, last), (other_first, other_last)) = (self.span(), other.span());
        self.file == other.file && other_first <= last + 1 && first <= other_last + 1
    }

    fn join(&mut self, other: Excerpt) {
        self.lines.extend(other.lines);
        self.lines.sort();
        self.lines.dedup();
        for (line, word) in other.meant {
            match self.meant.iter_mut().find(|(known, _)| *known == line) {
                Some((_, words)) if *words == word => {}
                Some((_, words)) => *words = format!("{words}, {word}"),
                None => self.meant.push((line, word)),
            }
        }
    }
}

/// The numbered lines around `line`; none if the text is too short, which means that it is another version.
fn around(text: &str, line: usize) -> Vec<(usize, String)> {
    let first = line.saturating_sub(CONTEXT_LINES).max(1);
    let lines: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .skip(first - 1)
        .take(line + CONTEXT_LINES + 1 - first)
        .map(|(number, line)| (number, plain(&line.replace('\t', "    "))))
        .map(|(number, line)| (number, line.chars().take(LINE_LETTERS_MAX).collect()))
        .collect();
    if lines.iter().any(|(number, _)| *number == line) { lines } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_stop_at_the_ends_of_the_file() {
        let text = "a\nb\nc\nd\ne\n";
        let numbers = |line| around(text, line).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers(1), [1, 2, 3, 4]);
        assert_eq!(numbers(5), [2, 3, 4, 5]);
        assert!(numbers(6).is_empty(), "a line that the file lacks is not quoted");
        assert!(around("", 1).is_empty());
    }

    #[test]
    fn long_lines_and_tabs_are_tamed() {
        let text = format!("\tx\u{1b}{}", "y".repeat(10_000));
        let lines = around(&text, 1);
        assert!(lines[0].1.starts_with("    x\u{fffd}y"));
        assert_eq!(lines[0].1.chars().count(), LINE_LETTERS_MAX);
    }

    #[test]
    fn places_close_to_each_other_share_an_excerpt() {
        let text = (1..=40).map(|line| format!("line {line}\n")).collect::<String>();
        let frame = |line| Frame { function: String::new(), file: "a.c".to_owned(), line };
        let (a, b, c) = (frame(20), frame(14), frame(30));
        let places = [(&a, "lost"), (&b, "survived"), (&b, "survived"), (&c, "lost"), (&c, "survived")];
        let excerpts = Excerpt::of_places(&places, &|_| Some(text.clone()));
        assert_eq!(excerpts.iter().map(Excerpt::span).collect::<Vec<_>>(), [(11, 23), (27, 33)]);
        let numbers: Vec<usize> = excerpts[0].lines.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (11..=23).collect::<Vec<_>>());
        assert_eq!(excerpts[0].meant, [(20, "lost".to_owned()), (14, "survived".to_owned())]);
        assert_eq!(excerpts[1].meant, [(30, "lost, survived".to_owned())]);
    }
}
