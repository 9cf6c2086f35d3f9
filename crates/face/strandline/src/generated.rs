//! `strandline manual` and `strandline completions`: pages and completions that come from the table of flags.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::{print, say};

/// Arguments of `strandline manual`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  strandline manual ~/.local/share/man/man1 && man strandline-check")]
pub struct ManualArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Arguments of `strandline completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        strandline completions bash > ~/.local/share/bash-completion/completions/strandline\n  \
                        strandline completions zsh > ~/.zfunc/_strandline\n  \
                        strandline completions fish > ~/.config/fish/completions/strandline.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes a page for each verb, and one for those below it.
pub fn manual(args: &ManualArgs) -> anyhow::Result<()> {
    let failed = || format!("can't write pages into {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::documented(), &args.folder).with_context(failed)?;
    say(&format!(
        "pages of all verbs are in {}; man -l {0}/strandline.1 shows the first\n",
        args.folder.display()
    ))
}

/// Prints a shell's completions.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::documented(), "strandline", &mut text);
    print(&String::from_utf8_lossy(&text)).context("standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verbs with those below them, as `trace dump`.
    fn verbs(command: &clap::Command, before: &str, all: &mut Vec<(String, clap::Command)>) {
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let name = format!("{before}{}", verb.get_name());
            if verb.has_subcommands() {
                verbs(verb, &format!("{name} "), all);
            }
            // A verb that only holds others is shown by theirs.
            if !verb.is_subcommand_required_set() {
                all.push((name, verb.clone()));
            }
        }
    }

    fn all() -> Vec<(String, clap::Command)> {
        let mut found = Vec::new();
        verbs(&Cli::documented(), "", &mut found);
        assert!(found.len() > 25, "{}", found.len());
        found
    }

    #[test]
    fn the_help_of_every_verb_has_an_example_and_its_statuses() {
        for (name, verb) in all() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example") && help.contains("strandline"), "{name}: {help}");
            assert!(help.contains("Exit status"), "{name}: {help}");
        }
    }

    /// A line that starts with `strandline` in an example must be one that the command line takes.
    #[test]
    fn every_example_of_a_help_is_a_valid_command_line() {
        let mut tried = 0;
        for (name, verb) in all() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().map(str::trim).filter(|line| line.starts_with("strandline ")) {
                let words = words(line);
                let taken = Cli::documented().try_get_matches_from(&words);
                assert!(taken.is_ok(), "{name}: {line}: {}", taken.unwrap_err());
                tried += 1;
            }
        }
        assert!(tried > 50, "{tried}");
    }

    #[test]
    fn a_line_with_a_wrong_flag_is_not_valid() {
        assert!(Cli::documented().try_get_matches_from(words("strandline profile --no-such-flag")).is_err());
    }

    /// A shell line's words, up to the first operator or to a wide gap, behind which an explanation stands.
    fn words(line: &str) -> Vec<String> {
        let line = line.split("   ").next().unwrap_or(line);
        let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in line.chars() {
            match (quote, c) {
                (Some(q), c) if c == q => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, ' ' | '|' | '>' | '&' | ';' | '#') => {
                    if !word.is_empty() {
                        all.push(std::mem::take(&mut word));
                    }
                    if c != ' ' {
                        return all;
                    }
                }
                (_, c) => word.push(c),
            }
        }
        if !word.is_empty() {
            all.push(word);
        }
        all
    }

    #[test]
    fn every_verb_has_a_page_and_completions() {
        let folder = std::env::temp_dir().join(format!("strandline-manual-{}", std::process::id()));
        manual(&ManualArgs { folder: folder.clone() }).expect("pages");
        let mut completions = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::documented(), "strandline", &mut completions);
        let completions = String::from_utf8(completions).expect("text");
        for (name, _) in all() {
            let page = folder.join(format!("strandline-{}.1", name.replace(' ', "-")));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
            assert!(text.contains("SYNOPSIS") && text.contains("Example"), "{name}");
            let last = name.rsplit(' ').next().expect("a word");
            assert!(completions.contains(&format!(",{last})")), "{name} can't be completed");
        }
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/verbs.md");

    /// The chapter of the book that lists all verbs.
    fn chapter() -> String {
        let mut text = "# Every verb\n\nWritten from the table of flags by `STRANDLINE_UPDATE_DOCS=1 cargo test -p strandline \
                        --bin strandline chapter`.\n`strandline VERB --help` has the options.\n"
            .to_owned();
        let mut found = all();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, verb) in found {
            let about = verb.get_long_about().or_else(|| verb.get_about()).map(ToString::to_string);
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help
                .lines()
                .skip_while(|line| !line.starts_with("Example"))
                .skip(1)
                .take_while(|line| !line.is_empty())
                .collect();
            let examples: Vec<&str> = examples.into_iter().map(str::trim).collect();
            let about = about.unwrap_or_default();
            text += &format!("\n## strandline {name}\n\n{about}\n\n```text\n{}\n```\n", examples.join("\n"));
        }
        text
    }

    #[test]
    fn the_chapter_of_the_book_lists_every_verb_as_it_is() {
        if std::env::var_os("STRANDLINE_UPDATE_DOCS").is_some() {
            std::fs::write(CHAPTER, chapter()).expect("written");
        }
        let there = std::fs::read_to_string(CHAPTER).unwrap_or_default();
        assert!(
            there == chapter(),
            "docs/verbs.md is old: STRANDLINE_UPDATE_DOCS=1 cargo test -p strandline --bin strandline chapter"
        );
    }
}
