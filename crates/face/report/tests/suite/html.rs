//! The page as a document: well-formed, complete, closed to the outside, and deaf to hostile names.

use crate::common;

use std::collections::BTreeSet;

use scraper::{ElementRef, Html, Selector};

fn page(report: &report::Report) -> (String, Html) {
    let text = report::html(report, &common::sources);
    let document = Html::parse_document(&text);
    (text, document)
}

fn select<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    document.select(&Selector::parse(selector).expect("a selector")).collect()
}

fn text(element: &ElementRef<'_>) -> String {
    element.text().collect()
}

#[test]
fn pages_parse_without_an_error() {
    for (name, report) in common::all() {
        let (_, document) = page(&report);
        assert!(document.errors.is_empty(), "{name}: {:?}", document.errors);
    }
    assert!(!Html::parse_document("<!DOCTYPE html><p></b>").errors.is_empty(), "the parser finds errors");
}

#[test]
fn nothing_points_outside() {
    for (name, report) in common::all() {
        let (text, document) = page(&report);
        for outside in ["http:", "https:", "@import", "url(", "<link", "<img", "<iframe", "fetch("] {
            assert!(!text.contains(outside), "{name} holds {outside}");
        }
        assert!(select(&document, "[src], [srcset], [data], object, base, form").is_empty(), "{name}");
        let ids: Vec<&str> = select(&document, "[id]").iter().filter_map(|e| e.attr("id")).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{name}: ids are unique");
        for link in select(&document, "a") {
            let target = link.attr("href").expect("a link has a target");
            let inside = target.strip_prefix('#').is_some_and(|id| ids.contains(&id));
            assert!(inside, "{name}: {target} leads nowhere");
        }
        let policy = select(&document, "meta[http-equiv='Content-Security-Policy']");
        assert!(policy[0].attr("content").is_some_and(|text| text.starts_with("default-src 'none'")));
    }
}

#[test]
fn a_full_report_shows_every_plot_and_table() {
    let (whole, document) = page(&common::full());
    assert!(whole.contains("One node of 128"), "the heat map of one object");
    let sections =
        ["summary", "traffic", "structures", "functions", "writes", "machine", "findings", "wear", "run"];
    for section in sections {
        assert_eq!(select(&document, &format!("section#{section}")).len(), 1, "{section}");
    }
    let titles: BTreeSet<String> = select(&document, "svg > title").iter().map(text).collect();
    let expected = [
        "Traffic over the run",
        "Bytes written to media by function",
        "Writes by size",
        "Media writes by new bytes",
        "Effective write ratio by site",
        "Bytes read from and written to memory",
        "Misses of the first-level caches",
        "Time on the model that cores stood still",
    ];
    assert_eq!(titles, expected.map(str::to_owned).into());
    for svg in select(&document, "svg") {
        let described = svg.select(&Selector::parse("desc").expect("a selector")).next();
        assert!(described.is_some_and(|desc| !text(&desc).is_empty()), "plots are described");
        let flames =
            svg.ancestors().filter_map(scraper::ElementRef::wrap).any(|one| one.attr("id") == Some("flames"));
        assert!(flames || svg.html().contains("class=\"axis\""), "plots name their axes");
    }
    let captions: Vec<String> = select(&document, "caption").iter().map(text).collect();
    let tables = [
        "Functions",
        "Sites that wrote",
        "Caches, all cores together",
        "DIMMs",
        "All DIMMs together, by memory",
        "Data structures by lines fetched",
        "Use of fields, in the accesses that were kept for trials",
        "What each counter-measure gives",
        "Hottest pages",
        "What wears the memory",
        "What the program did, to whatever memory",
    ];
    assert_eq!(captions, tables);
    assert_eq!(select(&document, "#functions tbody tr").len(), 6, "two sites are in one function");
    assert_eq!(select(&document, "#writes tbody tr").len(), 7);
}

#[test]
fn every_finding_is_there_with_its_source() {
    let report = common::full();
    let (_, document) = page(&report);
    let articles = select(&document, "#findings article");
    assert_eq!(articles.len(), report.findings.len());
    assert_eq!(select(&document, "#summary .brief li").len(), report.findings.len());
    for (article, finding) in articles.iter().zip(&report.findings) {
        let said = text(article);
        for part in [&finding.title, &finding.evidence, &finding.remedy, &finding.share_of] {
            assert!(said.contains(part.as_str()), "{part}");
        }
        assert!(said.contains(finding.rule.name()));
    }
    let meant: Vec<String> = select(&document, "#finding-1 .meant code").iter().map(text).collect();
    let line = common::BTREE_C.lines().nth(20).expect("line 21");
    assert_eq!(meant[0].trim_end(), line);
}

#[test]
fn without_sources_findings_stand_without_excerpts() {
    let text = report::html(&common::full(), &|_| None);
    let document = Html::parse_document(&text);
    assert!(select(&document, "figure.source").is_empty());
    assert_eq!(select(&document, "#findings article").len(), 3);
}

#[test]
fn hostile_names_stay_text() {
    let (page_text, document) = page(&common::hostile());
    assert_eq!(select(&document, "script").len(), 1, "only the page's own script");
    assert_eq!(select(&document, "style").len(), 1);
    assert!(!page_text.contains("<script>alert"));
    assert!(page_text.chars().all(|c| c == '\n' || !c.is_control()), "control characters are gone");
    assert!(text(&select(&document, "h1")[0]).contains("<script>alert(1)</script>"));
    assert!(!page_text.contains("width:NaN"), "a share that is no number breaks no style");
}

#[test]
fn plots_of_extremes_stay_inside_their_frames() {
    for (name, report) in common::all() {
        let (_, document) = page(&report);
        for svg in select(&document, "svg") {
            let frame: Vec<f64> = svg
                .attr("viewBox")
                .expect("a plot has a frame")
                .split(' ')
                .map(|number| number.parse().expect("a number"))
                .collect();
            for rect in svg.select(&Selector::parse("rect").expect("a selector")) {
                let length =
                    |name| rect.attr(name).and_then(|text| text.parse::<f64>().ok()).expect("a length");
                let (right, bottom) = (length("x") + length("width"), length("y") + length("height"));
                assert!(length("x") >= 0.0 && right <= frame[2] + 1.0, "{name}: {}", rect.html());
                assert!(length("y") >= 0.0 && bottom <= frame[3] + 1.0, "{name}: {}", rect.html());
            }
            for bad in ["NaN", "inf"] {
                assert!(!svg.html().contains(&format!("\"{bad}")), "{name}: {bad} in a plot");
            }
        }
    }
}

#[test]
fn the_same_report_gives_the_same_page() {
    let once = report::html(&common::everything(), &common::sources);
    assert_eq!(once, report::html(&common::everything(), &common::sources));
}

#[test]
fn that_nothing_looks_wrong_is_not_said_behind_what_recovery_found() {
    let mut report = common::everything();
    report.crash_lints.as_mut().expect("lints").lints.clear();
    let says = |report: &report::Report| {
        [report::html(report, &common::sources), report::terminal(report, 100, false)]
            .map(|text| text.contains("No place in the code looks wrong"))
    };
    assert_eq!(says(&report), [false, false]);
    // What can lose data is what a reader in a hurry has to see.
    let found = report.crash_findings.as_ref().expect("findings").headline();
    let page = report::html(&report, &common::sources);
    assert!(page.contains(&format!("class=\"headline\">{found}. ")), "{page}");
    report.crash_findings.as_mut().expect("findings").findings.clear();
    assert_eq!(says(&report), [true, true]);
}
