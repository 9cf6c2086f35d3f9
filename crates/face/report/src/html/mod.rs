//! The page: one file that opens from disk, without scripts or network.
//!
//! `page` has summary and header of a profile; `figures` the plots and tables; `findings` the advisors'
//! findings with source excerpts. `content` renders the pages of other verbs, `blocks` their parts.

mod blocks;
mod content;
mod excerpt;
mod figures;
mod findings;
mod frame;
mod page;
mod table;

pub use content::page;
pub(crate) use table::table;

use maud::{DOCTYPE, html as markup};

use blocks::blocks;
use frame::{POLICY, SCRIPT, STYLE};

use crate::content::Block;
use crate::digest::Digest;
use crate::lints::CrashLints;
use crate::model::Report;
use crate::{costs, prestores, structures, wear};

/// The report as one self-contained HTML page.
///
/// `source` gives a source file's whole text by the name that the debug information has for it, or `None`;
/// findings quote a few lines around each place. It is asked once per place, so a caller that reads from
/// slow storage should remember.
#[must_use]
pub fn html(report: &Report, source: &dyn Fn(&str) -> Option<String>) -> String {
    let digest = Digest::new(report);
    let whole = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("strandline {}", report.run.version));
                title { (digest.subject()) " - Strandline profile" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                (page::header(&digest))
                main {
                    (page::summary(&digest))
                    (figures::sections(&digest))
                    (findings::section(&digest, source))
                    @if let Some(lints) = &report.crash_lints { (crash_lints(lints, report, source)) }
                    (costs::section(report))
                    (structures::section(&report.structures))
                    (prestores::section(report.prestores.as_ref()))
                    (wear::section(report.wear.as_ref(), &report.sites))
                    (page::run(&digest))
                }
                script { (maud::PreEscaped(SCRIPT)) }
            }
        }
    };
    whole.into_string()
}

/// What the order of stores, flushes and fences says about crashes.
fn crash_lints(lints: &CrashLints, report: &Report, source: &dyn Fn(&str) -> Option<String>) -> maud::Markup {
    let found: Vec<Block> = lints.articles(&report.sites, source).into_iter().map(Block::Article).collect();
    markup! {
        section id="crashes" {
            h2 { "Crashes" }
            @if let Some(crashes) = &report.crash_findings {
                p { (crashes.headline()) " (" (crashes.examined) ")." }
                (blocks(&crashes.findings.iter().map(|finding| Block::Article(finding.article.clone())).collect::<Vec<_>>()))
            }
            @if report.lints_are_news(lints) {
                p { (lints.headline()) ". This comes from the order of stores, flushes and fences alone; " code { "strandline check --recover" } " tries what a crash could leave." }
            }
            (blocks(&found))
        }
    }
}
