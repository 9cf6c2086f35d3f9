//! What a program does to its files, in figures: of any program, also one that was not built with the compiler driver.

use std::path::Path;

use event::{Site, SiteId, Tee};
use report::human::{bytes, grouped, plural, shell};
use report::{Block, Cell, Page, Section, Table};
use serde_json::{Value, json};
use writes::{Figures, Lints, Sums};

use crate::check::Ordinary;
use crate::ending;
use crate::error::Error;
use crate::files;
use crate::input::{Input, Program};
use crate::observer::Observer;
use crate::traced;

/// Rows of a table on a terminal.
const ROWS: usize = 12;
/// Paths of files before the run that are looked at, at most.
const BEFORE: usize = 1_000_000;

/// A profile of ordinary files to be made.
#[derive(Clone, Debug)]
pub struct ProfileFiles {
    /// The program, with the files that it is about.
    pub program: Program,
}

/// What a program did to its files.
#[derive(Debug)]
pub struct ProfiledFiles {
    /// The figures.
    pub figures: Figures,
    /// Orders that a crash can break.
    pub lints: Ordinary,
    /// What a reader has to know.
    pub warnings: Vec<String>,
    /// How the program ended.
    pub exit: Value,
    program: Program,
    seconds: f64,
}

impl ProfileFiles {
    /// Runs the program.
    ///
    /// # Errors
    /// If the program can't be observed.
    pub fn run(&self, observer: &dyn Observer) -> Result<ProfiledFiles, Error> {
        self.program.refuse_missing()?;
        let program = Program { values: true, ..self.program.clone() };
        let mut figures = Figures::new();
        let mut lints = Lints::new(lengths(&files::absolute(&program.files)?));
        let unmodified = traced::applies(&program);
        let input = Input::Program(program.clone());
        let played = input.play("profiling", observer, &mut Tee(&mut figures, &mut lints), &mut [])?;
        let mut warnings = Vec::new();
        if unmodified {
            warnings.push(format!(
                "{} was not built with strandline cc: its calls on files were followed, not its loads, stores and flushes; \
                 to see these, build it with CC=\"strandline cc\"",
                program.name()
            ));
        }
        let outcome = played.recording.as_ref();
        warnings.extend(match outcome {
            Some(outcome) => ending::warnings(outcome, &played.warnings),
            None => played.warnings.clone(),
        });
        warnings.iter().for_each(|warning| observer.warn(warning));
        let exit = outcome.map_or(Value::Null, |outcome| json!(ending::ending(outcome.status)));
        let seconds = played.elapsed.as_secs_f64();
        Ok(ProfiledFiles { figures, lints: lints.into(), warnings, exit, program, seconds })
    }
}

/// Ordinary files at and below paths, with their lengths.
fn lengths(paths: &[String]) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut open: Vec<std::path::PathBuf> = paths.iter().map(std::path::PathBuf::from).collect();
    while let Some(path) = open.pop() {
        let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
        if about.is_dir() {
            let below = std::fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(below.map(|entry| entry.path()));
        } else if about.is_file()
            && let Some(path) = path.to_str()
        {
            found.push((path.to_owned(), about.len()));
        }
        if found.len() > BEFORE {
            break;
        }
    }
    found
}

/// `1.5`; a dash where nothing was synced.
fn times(amplification: Option<f64>) -> String {
    amplification.map_or_else(|| "–".to_owned(), |times| format!("{times:.1}"))
}

/// A path as it is shown: the last two parts.
fn short(path: &str) -> String {
    let path = Path::new(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match path.parent().and_then(Path::file_name) {
        Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
        None => name.into_owned(),
    }
}

impl ProfiledFiles {
    /// What is to be said first.
    #[must_use]
    pub fn headline(&self) -> String {
        let sums = self.figures.sums();
        let files = plural(self.figures.files().len(), "file");
        match sums.writes + sums.syncs {
            0 => "The program wrote nothing to these files".to_owned(),
            _ => format!(
                "{} in {} to {files}; {} waited for {}",
                bytes(sums.bytes),
                plural(sums.writes as usize, "write"),
                plural(sums.syncs as usize, "sync"),
                bytes(sums.synced_bytes)
            ),
        }
    }

    /// Advice, a sentence each.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let sums = self.figures.sums();
        let mut advice = Vec::new();
        let share = |part: u64, of: u64| 100 * part / of.max(1);
        if let Some(times) = sums.page_amplification().filter(|&times| times >= 2.0) {
            advice.push(format!(
                "each synced byte is written {times:.1} times, in 4 KiB pages ({:.1} times in sectors of 512 B): gather what is \
                 synced together, one page after the other",
                sums.sector_amplification().unwrap_or_default()
            ));
        }
        if sums.writes >= 100 && share(sums.sizes.small, sums.writes) >= 50 {
            advice.push(format!(
                "{} % of the writes are shorter than 512 B: buffer them, each is a call of its own",
                share(sums.sizes.small, sums.writes)
            ));
        }
        if sums.needless_syncs > 0 {
            advice.push(format!(
                "{} of {} found nothing to write: leave them out",
                grouped(sums.needless_syncs),
                plural(sums.syncs as usize, "sync")
            ));
        }
        if self.figures.failed_syncs() > 0 {
            advice.push(format!("{} failed", plural(self.figures.failed_syncs() as usize, "sync")));
        }
        let names = self.lints.findings.iter().filter(|one| one.kind == writes::Kind::FolderNotSynced);
        let names: u64 = names.map(|one| one.count).sum();
        if names > 0 {
            advice.push(format!(
                "{} given without a sync of the folder: a crash may take it back",
                plural(names as usize, "name")
            ));
        }
        advice
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let sums = self.figures.sums();
        let mut text = format!("{}\n", self.headline());
        for advice in self.advice() {
            text.push_str(&format!("- {advice}\n"));
        }
        if sums.writes > 0 {
            let sizes = sums.sizes;
            text.push_str(&format!(
                "\nwrites: {} below 512 B, {} below 4 KiB, {} below 64 KiB, {} above; aligned to 4 KiB: {}, to 512 B: {}\n",
                grouped(sizes.small),
                grouped(sizes.sectors),
                grouped(sizes.pages),
                grouped(sizes.large),
                grouped(sums.page_aligned),
                grouped(sums.sector_aligned)
            ));
        }
        for (title, rows) in [("file", self.file_rows()), ("call, with who called it", self.site_rows())] {
            if rows.is_empty() {
                continue;
            }
            text.push_str(&format!(
                "\n{:>8} {:>10} {:>7} {:>8} {:>10} {:>6} {:>6}  {title}\n",
                "writes", "bytes", "syncs", "needless", "waited for", "×4KiB", "×512B"
            ));
            for (name, sums) in rows.iter().take(ROWS) {
                text.push_str(&format!(
                    "{:>8} {:>10} {:>7} {:>8} {:>10} {:>6} {:>6}  {name}\n",
                    grouped(sums.writes),
                    bytes(sums.bytes),
                    grouped(sums.syncs),
                    grouped(sums.needless_syncs),
                    bytes(sums.synced_bytes),
                    times(sums.page_amplification()),
                    times(sums.sector_amplification())
                ));
            }
            if rows.len() > ROWS {
                text.push_str(&format!("{:>8} more\n", rows.len() - ROWS));
            }
        }
        if !self.lints.findings.is_empty() {
            text.push_str(&format!("\nWhat a crash can break: {}", self.lints.text()));
        }
        text
    }

    fn file_rows(&self) -> Vec<(String, Sums)> {
        self.figures.files().into_iter().map(|file| (short(&file.path), file.sums)).collect()
    }

    fn site_rows(&self) -> Vec<(String, Sums)> {
        let table = self.figures.table();
        self.figures.sites().into_iter().map(|one| (table.chain(one.site), one.sums)).collect()
    }

    /// As a self-contained HTML page; `command` is the command line that makes it again.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
        let table = |caption: &str, first: &str, rows: Vec<(String, Sums)>| {
            let columns = [
                first,
                "writes",
                "bytes",
                "< 512 B",
                "4 KiB aligned",
                "syncs",
                "needless",
                "waited for",
                "longest",
                "pages per byte",
                "sectors per byte",
            ];
            let cells = |(name, sums): (String, Sums)| {
                vec![
                    Cell::Code(name),
                    Cell::number(sums.writes, grouped),
                    Cell::number(sums.bytes, bytes),
                    Cell::number(sums.sizes.small, grouped),
                    Cell::number(sums.page_aligned, grouped),
                    Cell::number(sums.syncs, grouped),
                    Cell::number(sums.needless_syncs, grouped),
                    Cell::number(sums.synced_bytes, bytes),
                    Cell::number(sums.most_bytes, bytes),
                    Cell::optional(sums.page_amplification(), times),
                    Cell::optional(sums.sector_amplification(), times),
                ]
            };
            Block::Table(Table {
                caption: caption.to_owned(),
                head: columns.map(str::to_owned).to_vec(),
                rows: rows.into_iter().map(cells).collect(),
            })
        };
        let section =
            |id: &str, title: &str, blocks| Section { id: id.to_owned(), title: title.to_owned(), blocks };
        let mut sections = Vec::new();
        if !self.advice().is_empty() {
            sections.push(section("advice", "What to change", vec![Block::List(self.advice())]));
        }
        sections.push(section("files", "Files", vec![table("Per file", "file", self.file_rows())]));
        sections.push(section("calls", "Calls", vec![table("Per call stack", "call", self.site_rows())]));
        sections.extend(self.lints.section());
        report::page(&Page {
            verb: "profile".to_owned(),
            title: shell(&self.program.words()),
            meta: vec![super::host(), format!("strandline {}", env!("CARGO_PKG_VERSION"))],
            headline: self.headline(),
            story: vec!["Calls on files were followed; times are not in here.".to_owned()],
            cautions: self.warnings.clone(),
            sections,
            command,
        })
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let table = self.figures.table();
        let code = |site: SiteId| table.site(site).map(|site: &Site| json!(site.frames));
        let ratios = |sums: &Sums, mut value: Value| {
            value["page_amplification"] = json!(sums.page_amplification());
            value["sector_amplification"] = json!(sums.sector_amplification());
            value
        };
        let sites = self.figures.sites().into_iter().map(|one| {
            let mut value = ratios(&one.sums, json!(one.sums));
            value["code"] = json!(code(one.site));
            value
        });
        let files = self.figures.files().into_iter().map(|file| ratios(&file.sums, json!(file)));
        let sums = self.figures.sums();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.program.words(),
            "exit": self.exit,
            "seconds": self.seconds,
            "warnings": self.warnings,
            "all": ratios(&sums, json!(sums)),
            "failed_syncs": self.figures.failed_syncs(),
            "advice": self.advice(),
            "files": files.collect::<Vec<_>>(),
            "calls": sites.collect::<Vec<_>>(),
            "lints": self.lints.json(),
        })
    }
}
