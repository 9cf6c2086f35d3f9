//! Pictures of crashes: every step is there, drawn inside the frame, described in words, and no name is more
//! than a name.

use crate::common::orders;
use report::{Block, Order, Page, Section};
use scraper::{ElementRef, Html, Selector};

fn select<'a>(within: ElementRef<'a>, selector: &str) -> Vec<ElementRef<'a>> {
    within.select(&Selector::parse(selector).expect("a selector")).collect()
}

fn document(order: Order) -> Html {
    let section = Section { blocks: vec![Block::Order(order)], ..Section::default() };
    let document = Html::parse_document(&report::page(&Page { sections: vec![section], ..Page::default() }));
    assert!(document.errors.is_empty(), "{:?}", document.errors);
    document
}

fn texts(picture: ElementRef<'_>, selector: &str) -> Vec<String> {
    select(picture, selector).iter().map(|text| text.text().collect::<String>()).collect()
}

#[test]
fn each_step_has_its_mark_its_word_and_its_code_in_both_widths() {
    let document = document(orders::small());
    let pictures = select(document.root_element(), "svg.plot");
    assert_eq!(pictures.len(), 2, "a wide and a narrow one");
    for picture in pictures {
        assert_eq!(select(picture, "g.step").len(), 8);
        assert_eq!(select(picture, "g.step.never").len(), 2);
        for (fate, word, marks) in
            [("durable", "durable", 1), ("lost", "lost", 1), ("survived", "survived", 1)]
        {
            assert_eq!(select(picture, &format!("g.step .at.{fate}")).len(), marks, "{fate}");
            assert_eq!(texts(picture, &format!("text.value.{fate}")), [word]);
        }
        assert_eq!(select(picture, "g.step path.cross").len(), 1, "what is lost has a shape of its own");
        assert_eq!(select(picture, "g.step path.half").len(), 1, "what survived has a shape of its own");
        assert_eq!(texts(picture, "text.code").len(), 8);
        assert!(texts(picture, "text.code").contains(&"put (btree.c:12)".to_owned()));
        // The key has one of each, too.
        assert_eq!(select(picture, "path.bow.carried").len(), 4 + 1);
        assert_eq!(select(picture, "path.bow.missing").len(), 1 + 1);
        assert_eq!(select(picture, "path.crash").len(), 1);
        assert_eq!(texts(picture, "text.lost-note"), ["nothing makes 6 wait for 5"]);
        assert_eq!(
            texts(picture, "text.faint"),
            ["12 steps elsewhere not shown", "1 step elsewhere not shown"]
        );
    }
}

#[test]
fn words_tell_all_that_the_picture_shows() {
    let document = document(orders::small());
    let picture = select(document.root_element(), "svg.plot")[0];
    let description = texts(picture, "desc").concat();
    for part in [
        "5: store 8 B at pool+0xc0, put (btree.c:12), thread 0: lost",
        "12 steps elsewhere not shown",
        "The crash. 1 step elsewhere not shown. 7: flush",
        "nothing makes 6 wait for 5",
    ] {
        assert!(description.contains(part), "no `{part}` in {description}");
    }
    assert_eq!(picture.attr("role"), Some("img"));
    assert!(texts(picture, "g.step title")[4].starts_with("5: store 8 B"));
}

#[test]
fn the_crash_lies_between_what_happened_and_what_did_not() {
    let document = document(orders::small());
    for picture in select(document.root_element(), "svg.plot") {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok()).expect("a number");
        let rows: Vec<f64> = select(picture, "g.step text.tick:first-of-type")
            .iter()
            .map(|text| number(text.attr("y")))
            .collect();
        let crash = select(picture, "path.crash")[0].attr("d").expect("a path").to_owned();
        let crash = number(crash.split(['M', 'L', ' ']).nth(2));
        assert!(rows.is_sorted(), "{rows:?}");
        assert!(rows[5] < crash && crash < rows[6], "{crash} in {rows:?}");
    }
}

#[test]
fn a_crowd_stays_inside_the_frame_and_names_stay_names() {
    let document = document(orders::crowd());
    assert_eq!(select(document.root_element(), "script").len(), 1, "only the page's own");
    for picture in select(document.root_element(), "svg.plot") {
        let view: Vec<f64> = picture
            .attr("viewBox")
            .expect("a frame")
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert_eq!(select(picture, "g.step").len(), 60);
        // The last arrows of missing order, and the key's.
        assert_eq!(select(picture, "path.bow.missing").len(), 6 + 1);
        assert!(texts(picture, "text.lost-note").concat().contains("55 more"));
        for element in select(picture, "text, rect, line") {
            for (name, end) in
                [("x", view[2]), ("x1", view[2]), ("y", view[3]), ("y1", view[3]), ("y2", view[3])]
            {
                let Some(at) = element.attr(name) else { continue };
                let at: f64 = at.parse().expect("a number");
                assert!((0.0..=end).contains(&at), "{name} {at} of {view:?}: {}", element.html());
            }
        }
        for path in select(picture, "path.bow") {
            let d = path.attr("d").expect("a path").replace(['M', 'C', 'h'], " ");
            assert!(
                d.split_whitespace().all(|number| number.parse::<f64>().is_ok_and(f64::is_finite)),
                "{d}"
            );
        }
        let wide = view[2] > 500.0;
        for text in select(picture, "text") {
            let words: String = text.text().collect();
            let x: f64 = text.attr("x").and_then(|x| x.parse().ok()).expect("a place");
            // Letters are 7.3 wide on average; code is a little narrower.
            let width = words.chars().count() as f64 * 7.25;
            let start = match text.attr("text-anchor") {
                Some("start") => x,
                Some("middle") => x - width / 2.0,
                _ => x - width,
            };
            assert!(start > -8.0 && start + width < view[2] + 8.0, "{words} at {x}, wide: {wide}");
        }
    }
}

#[test]
fn nothing_makes_a_picture_too() {
    let document = document(Order::default());
    assert_eq!(select(document.root_element(), "path.crash").len(), 2);
}

#[test]
fn a_page_of_findings_is_whole_and_closed() {
    let text = report::page(&orders::page());
    let document = Html::parse_document(&text);
    assert!(document.errors.is_empty(), "{:?}", document.errors);
    for outside in ["http:", "https:", "@import", "url(", "<link", "<img"] {
        assert!(!text.contains(outside), "{outside}");
    }
    let root = document.root_element();
    assert_eq!(select(root, "article#finding-1 ul.steps li").len(), 2);
    assert_eq!(texts(root, "article#finding-1 .says"), ["lost", "survived"]);
    assert_eq!(select(root, "article#finding-1 .source").len(), 1, "two places close together, one excerpt");
    assert_eq!(texts(root, "article#finding-1 pre.command"), ["strandline check '<token>'"]);
    assert_eq!(text, report::page(&orders::page()), "the same page gives the same bytes");
}
