//! Pre-stores in the report: where a program should clean, demote or skip.

use advise::prestores::{Advice, Choice, PlaceAdvice};
use maud::{Markup, html};
use serde::Serialize;

use crate::human::{bytes, percent, plain, shell};

/// Places that are listed.
const PLACES_MAX: usize = 8;
/// Lines of one function that are named.
const LINES_MAX: usize = 4;

/// The advice, and what it rests on.
#[derive(Clone, Debug)]
pub struct Prestores {
    /// What to do where.
    pub advice: Advice,
    /// Part of the events that were watched for it, 0 to 1.
    pub watched: f64,
    /// The command line that tries the advice on the modelled machine; empty if there is none.
    pub attempt: Vec<String>,
}

impl Prestores {
    /// The places at which something is to be done.
    pub(crate) fn advised(&self) -> impl Iterator<Item = &PlaceAdvice> {
        self.advice.places().filter(|place| place.choice != Choice::Nothing)
    }

    /// What to know before following it.
    pub(crate) fn caution(&self) -> String {
        let seen = if self.watched < 1.0 {
            format!("Seen in bursts, {} of the events, and not tried.", percent(self.watched))
        } else {
            "Not tried.".to_owned()
        };
        if self.attempt.is_empty() {
            return seen;
        }
        format!("{seen} This tries it on the model: {}", plain(&shell(&self.attempt)))
    }
}

/// Lines of one function that are to do the same.
pub(crate) struct Listed<'a> {
    place: &'a PlaceAdvice,
    lines: Vec<u32>,
    share: f64,
}

impl Listed<'_> {
    pub(crate) fn choice(&self) -> Choice {
        self.place.choice
    }

    /// `resid (mg.c:114)`.
    pub(crate) fn label(&self) -> String {
        let function = plain(&self.place.function);
        let file = self.place.file.rsplit('/').next().filter(|file| !file.is_empty());
        let Some(file) = file else { return function };
        let name = |line: &u32| if *line == 0 { "?".to_owned() } else { line.to_string() };
        let lines: Vec<String> = self.lines.iter().take(LINES_MAX).map(name).collect();
        let more = if self.lines.len() > LINES_MAX { " and more" } else { "" };
        format!("{function} ({}:{}{more})", plain(file), lines.join(", "))
    }

    /// Why, in a line.
    pub(crate) fn reason(&self) -> String {
        let place = self.place;
        let size = place.sizes.first().map(|row| format!(" in regions of up to {}", bytes(row.bytes)));
        let fenced = if place.fenced >= 0.5 {
            format!(", {} before fences", percent(place.fenced))
        } else {
            String::new()
        };
        format!(
            "writes {} of the bytes, {} in sequence{}{fenced}; {}",
            percent(self.share),
            percent(place.sequential),
            size.unwrap_or_default(),
            place.reason
        )
    }
}

/// What to do, in a word that can be looked up in the manual.
pub(crate) fn call(choice: Choice) -> &'static str {
    match choice {
        Choice::Clean => "sl_prestore(..., SL_CLEAN)",
        Choice::Demote => "sl_prestore(..., SL_DEMOTE)",
        Choice::Skip => "sl_copy_skip() or non-temporal stores",
        Choice::Nothing => "nothing",
    }
}

/// What is listed, the most important first, and how many more there are.
pub(crate) fn listed(prestores: &Prestores) -> (Vec<Listed<'_>>, usize) {
    let mut all: Vec<Listed<'_>> = Vec::new();
    for place in prestores.advised() {
        let same = |one: &&mut Listed<'_>| {
            (&one.place.function, &one.place.file, one.place.choice)
                == (&place.function, &place.file, place.choice)
        };
        match all.iter_mut().find(same) {
            Some(one) => {
                one.lines.push(place.line);
                one.share += place.share;
            }
            None => all.push(Listed { place, lines: vec![place.line], share: place.share }),
        }
    }
    all.iter_mut().for_each(|one| {
        one.lines.sort_unstable();
        one.lines.dedup();
    });
    let more = all.len().saturating_sub(PLACES_MAX);
    all.truncate(PLACES_MAX);
    (all, more)
}

/// The section of the page, or nothing.
pub(crate) fn section(prestores: Option<&Prestores>) -> Markup {
    let listed = prestores.map(|prestores| (prestores, listed(prestores)));
    html! {
        @if let Some((prestores, (places, more))) = listed {
            @if !places.is_empty() {
                section id="pre-stores" {
                    h2 { "Pre-stores" }
                    p { "Data that could be sent towards memory early, or stored non-temporally." }
                    ul class="places" {
                        @for one in places {
                            li {
                                span class="part" { (one.choice().name()) }
                                code { (one.label()) }
                                " " (one.reason()) ". In the code: " code { (call(one.choice())) }
                            }
                        }
                        @if more > 0 { li class="note" { "and " (more) " more" } }
                    }
                    p class="note" { (prestores.caution()) }
                }
            }
        }
    }
}

/// What `report.json` says of it.
#[derive(Serialize)]
pub(crate) struct PrestoresJson<'a> {
    watched: f64,
    attempt: &'a [String],
    phases: &'a [advise::prestores::PhaseAdvice],
}

impl<'a> PrestoresJson<'a> {
    pub(crate) fn new(prestores: &'a Prestores) -> Self {
        let Prestores { advice, watched, attempt } = prestores;
        PrestoresJson { watched: *watched, attempt, phases: &advice.phases }
    }
}
