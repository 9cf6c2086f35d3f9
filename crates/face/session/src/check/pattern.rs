//! A text that recovery prints when it rejects an image.

use std::cell::RefCell;

use regex_automata::hybrid::regex::{Cache, Regex};

use super::CheckError;

/// A regular expression, looked for in lines.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    cache: RefCell<Cache>,
}

impl Pattern {
    /// Of a text.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub fn new(text: &str) -> Result<Pattern, CheckError> {
        let wrong = |error: &dyn std::error::Error| CheckError::FailOn {
            pattern: text.to_owned(),
            reason: error.source().map_or_else(|| error.to_string(), ToString::to_string),
        };
        let regex = Regex::new(text).map_err(|error| wrong(&error))?;
        let cache = RefCell::new(regex.create_cache());
        Ok(Pattern { regex, cache })
    }

    /// Whether a line has it.
    pub fn is_in(&self, line: &str) -> bool {
        self.regex.is_match(&mut self.cache.borrow_mut(), line)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_is_found_in_a_line_or_is_refused() {
        let pattern = Pattern::new("(?i)corrupt|lost [0-9]+").expect("a pattern");
        assert!(pattern.is_in("database is CORRUPT") && pattern.is_in("lost 3 keys"));
        assert!(!pattern.is_in("lost no key"));
        let refused = Pattern::new("(lost").expect_err("no pattern").to_string();
        assert!(refused.contains("(lost"), "{refused}");
    }
}
