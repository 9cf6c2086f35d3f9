//! An order as SVG.

use crash::Fate;
use maud::{Markup, html};

use super::{Order, OrderStep, StepKind, no_order, not_shown, word};
use crate::chart::{LETTER, Room, letters, line, name_width, px, svg, text};
use crate::human::{elide, plain};

/// Half the size of a step's mark.
const MARK: f64 = 6.0;
/// Arrows of missing order that are drawn; more would hide each other.
const MISSING_MAX: usize = 6;
/// Pixels of an average letter of code, and of small letters.
const CODE_LETTER: f64 = 7.25;

/// Where everything is.
struct Frame<'a> {
    order: &'a Order,
    wide: bool,
    width: f64,
    /// The first lane, and how far they are apart.
    left: f64,
    pitch: f64,
    /// Where the bows of missing order reach to, and where words begin.
    gutter: f64,
    words: f64,
    /// Top of the rows.
    top: f64,
    /// Middle of each step.
    steps: Vec<f64>,
    /// Middle of the lines that say what is not shown: before which step.
    gaps: Vec<(f64, u64)>,
    crash: f64,
    notes: Vec<(f64, String)>,
    bottom: f64,
}

/// The picture in one width.
pub fn order(order: &Order, room: Room) -> Markup {
    let (keys, keys_height) = keys(order, room.width());
    let frame = Frame::new(order, room, keys_height + 44.0);
    let inner = html! {
        (keys)
        (lanes(&frame))
        @for &(y, steps) in &frame.gaps { (gap(&frame, y, steps)) }
        (crash(&frame))
        @for (from, to) in order.known(&order.carried) { (carried(&frame, from, to)) }
        @for at in 0..order.steps.len() { (step(&frame, at)) }
        @for (from, to) in order.known(&order.unordered).rev().take(MISSING_MAX) { (missing(&frame, from, to)) }
        @for (y, note) in &frame.notes {
            (text(frame.words, y + 4.5, "start", "lost-note", &elide(note, letters(frame.width - frame.words))))
        }
    };
    svg(room.width(), frame.bottom, &plain(&order.title), &plain(&order.description()), &inner)
}

impl<'a> Frame<'a> {
    fn new(order: &'a Order, room: Room, top: f64) -> Self {
        let wide = room == Room::Wide;
        let between = order.lanes.len().saturating_sub(1).max(1) as f64;
        let (widest, left) = if wide { (330.0, 86.0) } else { (104.0, 56.0) };
        let pitch = (widest / between).min(if wide { 66.0 } else { 36.0 });
        let last = left + pitch * order.lanes.len().saturating_sub(1) as f64;
        let gutter = last + if wide { 46.0 } else { 26.0 };
        let mut frame = Frame {
            order,
            wide,
            width: room.width(),
            left,
            pitch,
            gutter,
            words: gutter + if wide { 14.0 } else { 6.0 },
            top,
            steps: Vec::new(),
            gaps: Vec::new(),
            crash: 0.0,
            notes: Vec::new(),
            bottom: 0.0,
        };
        frame.place(if wide { 26.0 } else { 42.0 });
        frame
    }

    /// Goes down the rows.
    fn place(&mut self, row: f64) {
        let mut y = self.top;
        let missing = self.order.missing();
        for (at, step) in self.order.steps.iter().enumerate() {
            if at == self.order.crash {
                y = self.fall(y);
            }
            if step.left_out > 0 {
                self.gaps.push((y + 11.0, step.left_out));
                y += 24.0;
            }
            self.steps.push(y + row / 2.0);
            y += row;
            for (survivor, lost) in missing.iter().filter(|(survivor, _)| *survivor == at + 1) {
                self.notes.push((y + 7.0, no_order(*survivor, lost)));
                y += 22.0;
            }
        }
        if self.order.crash >= self.order.steps.len() {
            y = self.fall(y);
        }
        self.bottom = y + 6.0;
    }

    fn fall(&mut self, y: f64) -> f64 {
        self.crash = y + 20.0;
        y + 40.0
    }

    fn lane(&self, lane: usize) -> f64 {
        self.left + self.pitch * lane.min(self.order.lanes.len().saturating_sub(1)) as f64
    }

    fn point(&self, at: usize) -> (f64, f64) {
        (self.lane(self.order.steps[at].lane), self.steps[at])
    }
}

/// The threads' lines: whole up to the crash, faint behind it.
fn lanes(frame: &Frame<'_>) -> Markup {
    let head = frame.top - 12.0;
    let room = letters(if frame.order.lanes.len() > 1 { frame.pitch - 4.0 } else { 100.0 });
    // Too narrow for names: their numbers; too narrow for these: some of them.
    let fits = frame.order.lanes.iter().all(|name| name.len() <= room);
    let short = |name: &str| plain(name.rsplit(' ').next().unwrap_or_default());
    let longest = frame.order.lanes.iter().map(|name| name_width(&short(name))).fold(0.0, f64::max);
    let every = if fits { 1 } else { ((longest + 8.0) / frame.pitch).ceil().max(1.0) as usize };
    html! {
        @if !fits { (text(frame.left - if frame.wide { 46.0 } else { 12.0 }, head, "end", "tick", "thread")) }
        @for (number, name) in frame.order.lanes.iter().enumerate() {
            @let x = frame.lane(number);
            @if number % every == 0 {
                (text(x, head, "middle", "key", &if fits { plain(name) } else { short(name) }))
            }
            (line((x, frame.top - 4.0), (x, frame.crash), "lane"))
            (line((x, frame.crash), (x, frame.bottom), "lane after"))
        }
    }
}

fn gap(frame: &Frame<'_>, y: f64, steps: u64) -> Markup {
    html! {
        @for lane in 0..frame.order.lanes.len() {
            @let x = frame.lane(lane);
            rect class="blank" x=(px(x - 2.0)) y=(px(y - 9.0)) width="4" height="18" {}
            (line((x, y - 9.0), (x, y + 9.0), "lane gap"))
        }
        (text(frame.words, y + 4.0, "start", "tick faint", &elide(&not_shown(steps), letters(frame.width - frame.words))))
    }
}

/// The crash: a jagged line across everything.
fn crash(frame: &Frame<'_>) -> Markup {
    const TOOTH: f64 = 8.0;
    let teeth = (frame.width / TOOTH) as usize;
    let path: String = (0..=teeth)
        .map(|tooth| {
            let (lead, side) = (if tooth == 0 { 'M' } else { 'L' }, if tooth % 2 == 0 { 3.0 } else { -3.0 });
            format!("{lead}{} {}", px(tooth as f64 * TOOTH), px(frame.crash + side))
        })
        .collect();
    let last = frame.order.crash >= frame.order.steps.len();
    let words = match (last, frame.wide) {
        (true, _) => "the crash, at the end of the run",
        (false, true) => "the crash: nothing below happened",
        (false, false) => "the crash",
    };
    html! {
        path class="crash" d=(path) {}
        rect class="blank" x=(px(frame.words - 6.0)) y=(px(frame.crash - 10.0)) width=(px(name_width(words) * 1.06 + 16.0)) height="20" {}
        (text(frame.words, frame.crash + 4.5, "start", "value", words))
    }
}

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::Durable => "durable",
        Fate::Survived => "survived",
        Fate::Lost => "lost",
        Fate::Done => "done",
        Fate::NotReached => "never",
    }
}

/// A step's mark and words.
fn step(frame: &Frame<'_>, at: usize) -> Markup {
    let step = &frame.order.steps[at];
    let (x, y) = frame.point(at);
    let fate = word(step.fate);
    let faint = if step.fate == Fate::NotReached { "step never" } else { "step" };
    html! {
        g class=(faint) {
            title { (plain(&frame.order.sentence(at))) }
            (text(frame.left - if frame.wide { 46.0 } else { 32.0 }, y + 4.5, "end", "tick", &(at + 1).to_string()))
            (mark(step.kind, step.fate, x, y))
            @if frame.wide { (words_wide(frame, step, y, fate)) } @else { (words_narrow(frame, step, y, fate)) }
        }
    }
}

/// Columns: what, its fate, where, by which code.
fn words_wide(frame: &Frame<'_>, step: &OrderStep, y: f64, fate: &str) -> Markup {
    let what = frame.words;
    let (fated, place, code) = (what + 124.0, what + 224.0, what + 394.0);
    // What has neither fate nor place may take their room.
    let next = if !fate.is_empty() {
        fated
    } else if !step.place.is_empty() {
        place
    } else {
        code
    };
    let what_room = next - what - 8.0;
    let code_room = (frame.width - code) / CODE_LETTER;
    html! {
        (text(what, y + 4.5, "start", "label", &elide(&plain(&step.what), letters(what_room))))
        (text(fated, y + 4.5, "start", fate_class(step.fate), fate))
        (text(place, y + 4.5, "start", "label", &elide(&plain(&step.place), letters(code - place - 10.0))))
        (text(code, y + 4.5, "start", "code", &elide(&plain(&step.code), code_room.max(0.0) as usize)))
    }
}

/// Two lines: what, where and its fate; the code.
fn words_narrow(frame: &Frame<'_>, step: &OrderStep, y: f64, fate: &str) -> Markup {
    let end = frame.width - 2.0;
    let first = [plain(&step.what), plain(&step.place)].join("  ");
    let room = end - frame.words - name_width(fate) - 10.0;
    let code_room = ((end - frame.words) / CODE_LETTER).max(0.0) as usize;
    // One line stands in the middle.
    let y = if step.code.is_empty() { y + 9.0 } else { y };
    html! {
        (text(frame.words, y - 4.0, "start", "label", &elide(first.trim_end(), letters(room))))
        (text(end, y - 4.0, "end", fate_class(step.fate), fate))
        (text(frame.words, y + 13.0, "start", "code", &elide(&plain(&step.code), code_room)))
    }
}

fn fate_class(fate: Fate) -> &'static str {
    match fate {
        Fate::Durable => "value durable",
        Fate::Survived => "value survived",
        Fate::Lost => "value lost",
        Fate::Done | Fate::NotReached => "tick",
    }
}

/// The mark of a step. Of stores: full if durable, half if it survived by chance, crossed out if lost, hollow
/// if it was never made.
fn mark(kind: StepKind, fate: Fate, x: f64, y: f64) -> Markup {
    let class = format!("at {}", class(fate));
    let square = |class: &str| {
        html! { rect class=(class) x=(px(x - MARK)) y=(px(y - MARK)) width=(px(2.0 * MARK)) height=(px(2.0 * MARK)) rx="1.5" {} }
    };
    let path = |d: String| html! { path class=(class) d=(d) {} };
    match (kind, fate) {
        (StepKind::Store, Fate::Survived) => html! {
            (square(&class))
            path class="half" d=(format!("M{} {}h{}L{} {}z", px(x - MARK), px(y + MARK), px(2.0 * MARK), px(x + MARK), px(y - MARK))) {}
        },
        (StepKind::Store, Fate::Lost) => html! {
            (square(&class))
            path class="cross" d=(format!("M{0} {2}L{1} {3}M{0} {3}L{1} {2}", px(x - 3.6), px(x + 3.6), px(y - 3.6), px(y + 3.6))) {}
        },
        (StepKind::Store, _) => square(&class),
        (StepKind::Flush, _) => path(format!("M{} {}h10l-5 8.5z", px(x - 5.0), px(y - 4.0))),
        (StepKind::Fence, _) => path(format!("M{} {}h18v4h-18z", px(x - 9.0), px(y - 2.0))),
        (StepKind::Mark, _) => path(format!("M{} {}l5 5-5 5-5-5z", px(x), px(y - 5.0))),
    }
}

/// A bow on the left: a flush takes a store along, a fence a flush.
fn carried(frame: &Frame<'_>, from: usize, to: usize) -> Markup {
    let ((x0, y0), (x1, y1)) = (frame.point(from), frame.point(to));
    let reach =
        (8.0 + 0.12 * (y1 - y0).abs()).min(if frame.wide { 34.0 } else { 20.0 }).min(frame.pitch * 0.8);
    let (x0, x1) = (x0 - MARK - 1.0, x1 - 10.0);
    let faint = frame.order.steps[to].fate == Fate::NotReached;
    bow((x0, y0), (x1, y1), -reach, if faint { "carried after" } else { "carried" })
}

/// A dashed bow on the right, from what was lost to what did not wait for it.
fn missing(frame: &Frame<'_>, from: usize, to: usize) -> Markup {
    let ((x0, y0), (x1, y1)) = (frame.point(from), frame.point(to));
    let (x0, x1) = (x0 + MARK + 2.0, x1 + 11.0);
    // A bow goes three quarters of the way to where it is drawn to.
    let reach = (frame.gutter - x0.max(x1)) * 4.0 / 3.0;
    bow((x0, y0), (x1, y1), reach, "missing")
}

/// A curve that leaves and arrives sideways, with a head.
fn bow((x0, y0): (f64, f64), (x1, y1): (f64, f64), reach: f64, class: &str) -> Markup {
    let side = if reach < 0.0 { -1.0 } else { 1.0 };
    let beyond = if reach < 0.0 { x0.min(x1) } else { x0.max(x1) } + reach;
    // The line ends where the head begins.
    let neck = x1 + side * 5.0;
    let path = format!(
        "M{} {}C{} {} {} {} {} {}",
        px(x0),
        px(y0),
        px(beyond),
        px(y0),
        px(beyond),
        px(y1),
        px(neck),
        px(y1)
    );
    let head = [(x1, y1), (neck + side, y1 - 3.6), (neck + side, y1 + 3.6)];
    let head: Vec<String> = head.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
    html! {
        path class=(format!("bow {class}")) d=(path) {}
        polygon class=(format!("head {class}")) points=(head.join(" ")) {}
    }
}

/// What the shapes mean, of those that are there; and the height of that.
fn keys(order: &Order, width: f64) -> (Markup, f64) {
    let store = |fate| order.steps.iter().any(|step| step.kind == StepKind::Store && step.fate == fate);
    let kind = |kind| order.steps.iter().any(|step| step.kind == kind);
    let entries = [
        (Some((StepKind::Store, Fate::Durable)), "store: durable", store(Fate::Durable)),
        (Some((StepKind::Store, Fate::Survived)), "survived by chance", store(Fate::Survived)),
        (Some((StepKind::Store, Fate::Lost)), "lost", store(Fate::Lost)),
        (Some((StepKind::Flush, Fate::Done)), "flush", kind(StepKind::Flush)),
        (Some((StepKind::Fence, Fate::Done)), "fence", kind(StepKind::Fence)),
        (Some((StepKind::Mark, Fate::Done)), "said by the program", kind(StepKind::Mark)),
        (None, "takes it to memory", !order.carried.is_empty()),
        (None, "missing order", !order.unordered.is_empty()),
    ];
    let (mut x, mut y) = (10.0, 10.0);
    let mut places = Vec::new();
    for (shape, name, _) in entries.into_iter().filter(|(.., present)| *present) {
        let sample = if shape.is_some() { 12.0 } else { 34.0 };
        let needed = sample + name.len() as f64 * LETTER;
        if x > 10.0 && x + needed > width {
            (x, y) = (10.0, y + 20.0);
        }
        places.push((x, y, shape, name));
        x += needed + 22.0;
    }
    let markup = html! {
        @for (x, y, shape, name) in places {
            @match shape {
                Some((kind, fate)) => {
                    (mark(kind, fate, x, y))
                    (text(x + 12.0, y + 4.5, "start", "key", name))
                }
                None => {
                    @let class = if name == "missing order" { "missing" } else { "carried" };
                    path class=(format!("bow {class}")) d=(format!("M{} {}h19", px(x - 6.0), px(y))) {}
                    polygon class=(format!("head {class}")) points=(format!("{0},{1} {2},{3} {2},{4}", px(x + 19.0), px(y), px(x + 13.0), px(y - 3.6), px(y + 3.6))) {}
                    (text(x + 26.0, y + 4.5, "start", "key", name))
                }
            }
        }
    };
    (markup, y)
}
