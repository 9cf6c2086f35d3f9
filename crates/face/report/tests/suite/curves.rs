//! Pages of curves and tables: well-formed, closed to the outside, and drawn inside their frames.

use report::{Axis, Block, Cell, Curve, Curves, Page, Section, Table, Unit};
use scraper::{ElementRef, Html, Selector};

fn select<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    document.select(&Selector::parse(selector).expect("a selector")).collect()
}

fn chart(x: Axis, y: Axis, curves: Vec<Curve>) -> Block {
    Block::Curves(Curves { title: "Bandwidth by <access> size".to_owned(), x, y, curves })
}

fn page(blocks: Vec<Block>) -> Page {
    Page {
        verb: "measure".to_owned(),
        title: "xpoint <script>alert(1)</script>".to_owned(),
        meta: vec!["xpoint".to_owned(), "seed 1".to_owned()],
        headline: "Reads peak at 38.9 GB/s".to_owned(),
        cautions: vec!["Prefetchers were on.".to_owned()],
        sections: vec![Section { id: "access size".to_owned(), title: "Access size".to_owned(), blocks }],
        command: vec!["strandline".to_owned(), "measure".to_owned()],
        ..Page::default()
    }
}

fn curve(name: &str, points: &[(f64, f64)], published: &[(f64, f64)]) -> Curve {
    Curve { name: name.to_owned(), points: points.to_vec(), published: published.to_vec() }
}

#[test]
fn a_page_is_whole_and_closed() {
    let read = curve("load", &[(64.0, 1.5), (256.0, 6.4), (4096.0, 6.5)], &[(64.0, 1.65), (256.0, 6.6)]);
    let table = Table {
        caption: "Points".to_owned(),
        head: vec!["size".to_owned(), "GB/s".to_owned()],
        rows: vec![vec![Cell::Number("64 B".to_owned(), 64.0), Cell::Number("1.5".to_owned(), 1.5)]],
    };
    let axes = (Axis::log("access size", Unit::Bytes), Axis::linear("bandwidth, GB/s"));
    let page = page(vec![chart(axes.0, axes.1, vec![read]), Block::Table(table)]);
    let text = report::page(&page);
    let document = Html::parse_document(&text);
    assert!(document.errors.is_empty(), "{:?}", document.errors);
    assert_eq!(select(&document, "script").len(), 1, "only the page's own");
    for outside in ["http:", "https:", "@import", "url(", "<link", "<img"] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert_eq!(select(&document, "nav a")[0].attr("href"), Some("#access-size"));
    assert_eq!(select(&document, "section#access-size svg").len(), 2, "a wide and a narrow one");
    // In each of them: a line, a dot for each point and one for the key, a ring for each published
    // point and one for the key.
    assert_eq!(select(&document, "path.curve").len(), 2 * 2);
    assert_eq!(select(&document, "circle.dot").len(), 2 * 4);
    assert_eq!(select(&document, "circle.ring").len(), 2 * 3);
    assert_eq!(select(&document, "tbody td.number").len(), 2);
    assert_eq!(text, report::page(&page), "the same page gives the same bytes");
}

/// Numbers of an element's attributes of these names.
fn numbers(element: &ElementRef<'_>, names: &[&str]) -> Vec<f64> {
    let parse = |text: &str| -> Vec<f64> {
        text.split(|c: char| !c.is_ascii_digit() && !".-".contains(c))
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().expect("a number"))
            .collect()
    };
    names.iter().filter_map(|name| element.attr(name)).flat_map(parse).collect()
}

#[test]
fn curves_of_extremes_stay_inside_their_frames() {
    let extreme = [(0.0, 0.0), (-1.0, 5.0), (1e-12, 1e15), (f64::NAN, 1.0), (3.0, f64::INFINITY), (7.0, 7.0)];
    let many: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), f64::from(i * i))).collect();
    let long = "a curve whose name is longer than any page has room for ".repeat(6);
    for log in [false, true] {
        for unit in [Unit::Number, Unit::Bytes, Unit::Nanoseconds] {
            let axis = Axis { title: "x".to_owned(), unit, log };
            let mut curves =
                vec![curve("none", &[], &[]), curve("extreme", &extreme, &extreme), curve(&long, &many, &[])];
            curves.extend((0..20).map(|n| curve(&format!("curve {n}"), &[(1.0, 2.0)], &[])));
            let text = report::page(&page(vec![chart(axis.clone(), axis, curves)]));
            let document = Html::parse_document(&text);
            for svg in select(&document, "svg") {
                let frame = numbers(&svg, &["viewBox"]);
                for element in
                    svg.select(&Selector::parse("circle, text, path, polygon").expect("a selector"))
                {
                    assert!(!element.html().contains("NaN") && !element.html().contains("inf"));
                    for x in numbers(&element, &["cx", "x"]) {
                        assert!((0.0..=frame[2]).contains(&x), "{}", element.html());
                    }
                    for y in numbers(&element, &["cy", "y"]) {
                        assert!((0.0..=frame[3]).contains(&y), "{}", element.html());
                    }
                }
            }
        }
    }
}
