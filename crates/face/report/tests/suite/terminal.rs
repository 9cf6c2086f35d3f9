//! The terminal summary, whole, for a full report and for the ends of what can happen.

use crate::common;

use unicode_width::UnicodeWidthStr;

/// A change of the summary shows here as a difference to read; `INSTA_UPDATE=always cargo test` accepts it.
#[test]
fn summaries_read_as_they_did() {
    for (name, report) in common::all() {
        insta::assert_snapshot!(name, report::terminal(&report, 100, false));
    }
    insta::assert_snapshot!("full-80-columns", report::terminal(&common::full(), 80, false));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, report) in common::all() {
        for width in [60, 80, 100] {
            // A command to be copied stays on one line.
            let breaks = |line: &&str| !line.contains("--replay");
            for line in report::terminal(&report, width, false).lines().filter(breaks) {
                assert!(line.width() <= width, "{name}: {} columns of {width}: {line}", line.width());
            }
        }
    }
}

#[test]
fn the_command_that_repeats_a_crash_stays_on_one_line() {
    let mut report = common::everything();
    let crashes = report.crash_findings.as_mut().expect("it has findings");
    crashes.findings[0].token = format!("adr-p17-a0-b{}-h9f3a0c11", "3.".repeat(60));
    let token = crashes.findings[0].token.clone();
    let text = report::terminal(&report, 80, false);
    assert!(text.lines().any(|line| line.contains("again: ") && line.ends_with(&token)), "{text}");
}

#[test]
fn the_widths_that_are_out_of_range_are_brought_into_it() {
    let report = common::full();
    assert_eq!(report::terminal(&report, 0, false), report::terminal(&report, 60, false));
    assert_eq!(report::terminal(&report, 1_000, false), report::terminal(&report, 100, false));
}

#[test]
fn colours_change_no_letter_and_names_bring_none() {
    for (name, report) in common::all() {
        let plain = report::terminal(&report, 100, false);
        assert!(plain.chars().all(|c| c == '\n' || !c.is_control()), "{name} holds a control character");
        let colored = report::terminal(&report, 100, true);
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m"];
        let stripped = codes.iter().fold(colored.clone(), |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain, "{name}");
        assert!(colored.contains(codes[1]), "{name} has a bold heading");
    }
}

#[test]
fn every_finding_says_what_to_do_and_what_it_explains() {
    let report = common::full();
    let text = report::terminal(&report, 100, false);
    let mut at = 0;
    for (number, finding) in (1..).zip(&report.findings) {
        let found = text[at..].find(&format!("{number}. {}", finding.title));
        at += found.unwrap_or_else(|| panic!("finding {number} is missing or out of order"));
        let first_words = &finding.remedy[..20];
        assert!(text[at..].contains(first_words), "{first_words}");
        let share = format!("{} of the {}", report::human::percent(finding.share), finding.share_of);
        assert!(text[at..].contains(&share), "{share}");
    }
}

#[test]
fn fields_of_a_structure_are_listed_with_their_use() {
    let text = report::terminal(&common::full(), 100, false);
    for part in [
        "   0 key",
        "\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588} 90.0 K loads, 0 stores, threads 0-2, 5",
        "  16 cold",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_stays_in_the_caches_is_not_called_reading() {
    let mut report = common::full();
    let figures = &mut report.figures;
    for memory in [&mut figures.persistent, &mut figures.volatile] {
        memory.total.controller_write_bytes = 0;
        memory.total.controller_read_bytes = 8 << 20;
    }
    let text = report::terminal(&report, 100, false);
    assert!(text.contains("Nothing was written back") && !text.contains("only read"), "{text}");
    (report.counts.stores, report.counts.nt_stores) = (0, 0);
    assert!(report::terminal(&report, 100, false).contains("only read"));
}
