//! Pictures of crashes made by hand: a small one, and the ends of what can happen.

use crash::Fate;
use event::Frame;
use report::{Article, Block, Excerpt, Order, OrderStep, Page, Section, StepKind};

fn step(lane: usize, kind: StepKind, fate: Fate, what: &str, place: &str, line: u32) -> OrderStep {
    let code = if line > 0 { format!("put (btree.c:{line})") } else { String::new() };
    OrderStep { lane, kind, fate, what: what.to_owned(), place: place.to_owned(), code, left_out: 0 }
}

/// A token that survived before its key.
pub fn small() -> Order {
    let mut steps = vec![
        step(0, StepKind::Mark, Fate::Done, "region 3 begins", "", 0),
        step(0, StepKind::Store, Fate::Durable, "store 8 B", "pool+0x80", 9),
        step(0, StepKind::Flush, Fate::Done, "flush", "pool+0x80", 10),
        step(0, StepKind::Fence, Fate::Done, "fence", "", 10),
        step(0, StepKind::Store, Fate::Lost, "store 8 B", "pool+0xc0", 12),
        step(1, StepKind::Store, Fate::Survived, "nt store 16 B", "pool+0x100", 14),
        step(0, StepKind::Flush, Fate::NotReached, "flush", "pool+0xc0", 15),
        step(0, StepKind::Fence, Fate::NotReached, "fence", "", 16),
    ];
    steps[4].left_out = 12;
    steps[6].left_out = 1;
    Order {
        title: "The steps around the crash".to_owned(),
        lanes: vec!["thread 0".to_owned(), "thread 1".to_owned()],
        steps,
        crash: 6,
        carried: vec![(1, 2), (2, 3), (4, 6), (6, 7)],
        unordered: vec![(4, 5)],
    }
}

/// Many threads, rows and losses, and names that would like to be more than names.
pub fn crowd() -> Order {
    const HOSTILE: &str =
        "std::map<int, \"</title><script>alert(1)</script>\">::insert\u{202e} and much more ";
    let fates = [Fate::Durable, Fate::Survived, Fate::Lost, Fate::Done, Fate::NotReached];
    let kinds =
        [StepKind::Store, StepKind::Store, StepKind::Store, StepKind::Flush, StepKind::Fence, StepKind::Mark];
    let steps: Vec<OrderStep> = (0..60)
        .map(|at| OrderStep {
            lane: at % 24,
            kind: kinds[at % kinds.len()],
            fate: fates[at % fates.len()],
            what: HOSTILE.repeat(at % 3),
            place: HOSTILE.repeat(at % 2),
            code: HOSTILE.repeat(at % 4),
            left_out: if at % 7 == 0 { u64::MAX } else { 0 },
        })
        .collect();
    Order {
        title: HOSTILE.to_owned(),
        lanes: (0..24).map(|lane| format!("thread {}", lane * 4321)).collect(),
        steps,
        crash: 60,
        carried: (0..59).map(|at| (at, at + 1)).chain([(0, 59), (3, 900)]).collect(),
        unordered: (0..59).map(|at| (at, 59)).chain([(900, 3)]).collect(),
    }
}

/// A page with all of them.
pub fn page() -> Page {
    let frame = |line| Frame { function: "put".to_owned(), file: "/src/btree.c".to_owned(), line };
    let article = |(number, title, order): (usize, &str, Order)| {
        let mut blocks =
            vec![Block::List(vec!["what was lost".to_owned(), "what <b>survived</b>".to_owned()])];
        let places = [(&frame(12), "lost"), (&frame(14), "survived")];
        blocks.extend(Excerpt::of_places(&places, &super::sources).into_iter().map(Block::Excerpt));
        blocks.push(Block::Order(order));
        blocks.push(Block::Command(vec!["strandline".to_owned(), "check".to_owned(), "<token>".to_owned()]));
        Block::Article(Article { id: format!("finding {number}"), number, title: title.to_owned(), blocks })
    };
    let all = [(1, "key <3> is lost", small()), (2, "a crowd", crowd()), (3, "nothing", Order::default())];
    Page {
        verb: "check".to_owned(),
        title: "./app".to_owned(),
        headline: "Made up".to_owned(),
        sections: vec![Section {
            id: "findings".to_owned(),
            title: "Findings".to_owned(),
            blocks: all.into_iter().map(article).collect(),
        }],
        ..Page::default()
    }
}
