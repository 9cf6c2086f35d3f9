//! The page in a real browser: plots and tables take their place, the page fits, and nothing is fetched.

use crate::common;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Before the page's own content: counts what the page tries to load and what fails.
const BEFORE: &str = "<script>window.refused = []; window.failures = [];\
    addEventListener('securitypolicyviolation', (e) => refused.push(e.blockedURI));\
    addEventListener('error', (e) => failures.push(String(e.message)));</script>";

/// After it: writes what there is to see into an attribute, which the dumped document shows.
const AFTER: &str = "<script>addEventListener('load', () => {\
    const shown = (e) => e.getBoundingClientRect().width > 100 && e.getBoundingClientRect().height > 40;\
    const ewr = [...document.querySelectorAll('#functions thead button')].find((b) => b.textContent === 'EWR');\
    if (ewr) { ewr.click(); ewr.click(); }\
    document.body.dataset.seen = JSON.stringify({\
      fetched: performance.getEntriesByType('resource').length, refused, failures,\
      plots: [...document.querySelectorAll('svg')].filter(shown).length,\
      tables: [...document.querySelectorAll('table')].filter(shown).length,\
      first: document.querySelector('#functions tbody tr')?.cells[4].textContent ?? '',\
      wide: document.documentElement.scrollWidth, window: innerWidth });\
    });</script>";

/// The browser's name, or `None` with a line that says that the test was skipped.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: no Chromium (tried {})", names.join(", "));
    }
    found
}

fn run(browser: &str, folder: &Path, size: &str, arguments: &[String]) -> Vec<u8> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let quiet = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                 --disable-component-update --disable-sync --hide-scrollbars";
    let output = Command::new(browser)
        .args(quiet.split_whitespace())
        .args([profile, format!("--window-size={size}")])
        .args(arguments)
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What a browser of that size sees of a page.
fn seen(browser: &str, page: &str, size: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let page = page.replacen("<head>", &format!("<head>{BEFORE}"), 1).replacen(
        "</body>",
        &format!("{AFTER}</body>"),
        1,
    );
    let file = folder.path().join("report.html");
    std::fs::write(&file, page).expect("the page is written");
    let arguments = ["--dump-dom".to_owned(), format!("file://{}", file.display())];
    let dom = String::from_utf8(run(browser, folder.path(), size, &arguments)).expect("the document is text");
    let document = scraper::Html::parse_document(&dom);
    let body = scraper::Selector::parse("body").expect("a selector");
    let seen =
        document.select(&body).next().and_then(|body| body.attr("data-seen")).expect("the page has loaded");
    serde_json::from_str(seen).expect("what was seen is JSON")
}

#[test]
fn plots_and_tables_show_at_both_widths_and_nothing_is_fetched() {
    let Some(browser) = browser() else { return };
    let page = report::html(&common::full(), &common::sources);
    for size in ["1200,900", "500,900"] {
        let seen = seen(browser, &page, size);
        assert_eq!(seen["plots"], 8, "{size}: {seen}");
        assert_eq!(seen["tables"], 11, "{size}: {seen}");
        assert_eq!(seen["fetched"], 0, "{size}: {seen}");
        assert_eq!(seen["refused"], Value::Array(Vec::new()), "{size}: {seen}");
        assert_eq!(seen["failures"], Value::Array(Vec::new()), "{size}: {seen}");
        assert_eq!(seen["first"], "0.25", "{size}: sorted by EWR, upwards: {seen}");
        assert!(seen["wide"].as_u64() <= seen["window"].as_u64(), "{size}: scrolls sideways: {seen}");
    }
}

#[test]
fn hostile_names_neither_run_nor_widen_the_page() {
    let Some(browser) = browser() else { return };
    let seen = seen(browser, &report::html(&common::hostile(), &common::sources), "500,900");
    assert_eq!(seen["failures"], Value::Array(Vec::new()), "{seen}");
    assert_eq!(seen["plots"], 8, "{seen}");
    assert!(seen["wide"].as_u64() <= seen["window"].as_u64(), "scrolls sideways: {seen}");
}

/// The check for requests can fail: a page that asks for a picture is refused by its own policy.
#[test]
fn a_request_would_be_seen() {
    let Some(browser) = browser() else { return };
    let page = report::html(&common::one_site(), &common::sources).replacen(
        "<main>",
        "<main><img src=\"file:///missing.png\">",
        1,
    );
    let seen = seen(browser, &page, "1200,900");
    assert_ne!(seen["refused"], Value::Array(Vec::new()), "{seen}");
}

#[test]
fn a_screenshot_has_the_size_and_more_than_one_colour() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (page, picture) = (folder.path().join("report.html"), folder.path().join("report.png"));
    std::fs::write(&page, report::html(&common::full(), &common::sources)).expect("the page is written");
    let arguments = [format!("--screenshot={}", picture.display()), format!("file://{}", page.display())];
    run(browser, folder.path(), "1200,2400", &arguments);
    let png = std::fs::read(&picture).expect("a screenshot");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]);
    assert_eq!((side(16), side(20)), (1200, 2400));
    // A blank page of this size compresses to some ten thousand bytes.
    assert!(png.len() > 60_000, "{} bytes: the page is nearly blank", png.len());
}
