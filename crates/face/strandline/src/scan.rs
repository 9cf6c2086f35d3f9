//! `strandline scan`: text for many regular expressions, and what hardware makes of them.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use hare::{Expression, Hardware, Image, Limits, MODULES, Reading};
use serde_json::{Value, json};
use session::Scan;

use crate::progress::terminal;
use crate::{quiet_if_closed, say};

/// Arguments of `strandline scan`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strandline scan -e 'GET /[a-z]+' -e '[45][0-9]{2}$' access.log\n  \
                  strandline scan --json -e 'a[^b]{2,400}c' file.bin\n  \
                  strandline scan --ends -f rules.txt capture.bin\n  \
                  strandline scan explain -e '[a-d]{2,4}[abe]{2,3}'\n\n\
                  Without --json or --ends lines are printed, as grep does, and an expression matches within \
                  a line. With them the text is one piece: `^` and `$` are its start and its end, and all \
                  ends of matches are reported, those of overlapping matches, too. Expressions match bytes; \
                  one with a character or class beyond ASCII matches Unicode characters, as all do with \
                  --unicode."
)]
pub struct ScanArgs {
    /// Look at what becomes of expressions
    #[command(subcommand)]
    pub command: Option<ScanCommand>,
    /// The expressions
    #[command(flatten)]
    pub expressions: ExpressionArgs,
    /// Print each end of a match as JSON: {"re": 0, "end": 17}, with "file" if there are several
    #[arg(long, conflicts_with_all = ["ends", "count"])]
    pub json: bool,
    /// Print for each expression how many matches end
    #[arg(long, conflicts_with = "count")]
    pub ends: bool,
    /// Print the number of lines, not the lines
    #[arg(short, long)]
    pub count: bool,
    /// Print the number of each line before it
    #[arg(short = 'n', long, conflicts_with_all = ["json", "ends", "count"])]
    pub line_number: bool,
    /// The text; standard input if there is none, or for `-`
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Expressions, and how they are read.
#[derive(Debug, Args)]
pub struct ExpressionArgs {
    /// An expression (may be given again)
    #[arg(short = 'e', long = "expression", value_name = "RE")]
    pub expressions: Vec<String>,
    /// A file with an expression per line
    #[arg(short = 'f', long = "expressions-from", value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Ignore case
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Match Unicode characters, not bytes
    #[arg(long)]
    pub unicode: bool,
}

/// What becomes of expressions.
#[derive(Debug, Subcommand)]
pub enum ScanCommand {
    /// Components, precedence vectors and bounds of each expression, or why it is refused
    #[command(after_help = "Example:\n  strandline scan explain -e 'gr(e|a)y{2,9}' --width 4")]
    Explain(ExplainArgs),
    /// Hardware that scans for the expressions, as Verilog with the tables to load
    ///
    /// The Verilog depends on the width and the sizes only; other expressions need other tables.
    #[command(
        after_help = "Examples:\n  strandline scan verilog -e 'ab+c' -e 'x[0-9]{2,7}y' --width 4 -o hare\n  \
                            iverilog -s scan -o scan hare/*.v"
    )]
    Verilog(VerilogArgs),
}

/// Arguments of `strandline scan verilog`.
#[derive(Debug, Args)]
pub struct VerilogArgs {
    /// The expressions
    #[command(flatten)]
    pub expressions: ExpressionArgs,
    /// Bytes that the hardware takes per cycle
    #[arg(long, value_name = "W", default_value = "4", value_parser = width)]
    pub width: usize,
    /// Components and gates that it has room for
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    pub slots: u16,
    /// Character classes that it has room for
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub classes: u8,
    /// Folder for the modules, tables.hex and slots.json
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// Arguments of `strandline scan explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The expressions
    #[command(flatten)]
    pub expressions: ExpressionArgs,
    /// Bytes that the hardware takes per cycle
    #[arg(long, value_name = "W", default_value = "4", value_parser = width)]
    pub width: usize,
}

/// Runs the verb. Returns whether nothing was refused.
pub fn run(args: &ScanArgs) -> anyhow::Result<bool> {
    match &args.command {
        Some(ScanCommand::Explain(explain)) => explain_all(explain),
        Some(ScanCommand::Verilog(verilog)) => write_verilog(verilog).map(|()| true),
        None => scan(args).map(|()| true),
    }
}

impl ExpressionArgs {
    fn patterns(&self) -> anyhow::Result<Vec<String>> {
        let mut patterns = self.expressions.clone();
        if let Some(file) = &self.from {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("can't read expressions from {}", file.display()))?;
            patterns.extend(text.lines().map(str::to_owned));
        }
        if patterns.is_empty() {
            bail!("no expression; give one with -e RE, or a file of them with -f FILE");
        }
        Ok(patterns)
    }

    fn reading(&self, lines: bool) -> Reading {
        Reading { unicode: self.unicode, ignore_case: self.ignore_case, lines }
    }
}

fn scan(args: &ScanArgs) -> anyhow::Result<()> {
    let patterns = args.expressions.patterns()?;
    let whole = args.json || args.ends;
    let scan = Scan::new(&patterns, args.expressions.reading(!whole))?;
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut ends = vec![0u64; patterns.len()];
    for file in files {
        let named = (files.len() > 1).then(|| file.display().to_string());
        let done = if args.json {
            scan.ends(file, terminal(), |found| {
                write!(out, "{{\"re\": {}, \"end\": {}", found.expression, found.end)?;
                if let Some(name) = &named {
                    write!(out, ", \"file\": {}", json!(name))?;
                }
                out.write_all(b"}\n")
            })
        } else if args.ends {
            scan.ends(file, terminal(), |found| {
                ends[found.expression as usize] += 1;
                Ok(())
            })
        } else {
            print_lines(args, &scan, file, named.as_deref(), &mut out)
        };
        match done {
            Err(session::Error::Output(error)) => return quiet_if_closed(Err(error)),
            other => other?,
        }
    }
    for (number, (count, pattern)) in ends.iter().zip(&patterns).enumerate().filter(|_| args.ends) {
        quiet_if_closed(writeln!(out, "{count:>12}  {number}  {pattern}"))?;
    }
    quiet_if_closed(out.flush())
}

/// The lines of a file in grep's form, or their number.
fn print_lines(
    args: &ScanArgs,
    scan: &Scan,
    file: &Path,
    named: Option<&str>,
    out: &mut impl Write,
) -> Result<(), session::Error> {
    let prefix = named.map(|name| format!("{name}:")).unwrap_or_default();
    let mut count = 0u64;
    scan.lines(file, terminal(), |line| {
        count += 1;
        if args.count {
            return Ok(());
        }
        out.write_all(prefix.as_bytes())?;
        if args.line_number {
            write!(out, "{}:", line.number)?;
        }
        out.write_all(line.text)?;
        out.write_all(b"\n")
    })?;
    if args.count {
        writeln!(out, "{prefix}{count}").map_err(session::Error::Output)?;
    }
    Ok(())
}

fn explain_all(args: &ExplainArgs) -> anyhow::Result<bool> {
    let mut all = true;
    for pattern in args.expressions.patterns()? {
        match Expression::read(&pattern, args.expressions.reading(false)) {
            Ok(expression) => say(&hare::explain(&expression, Limits::published(args.width)))?,
            Err(refusal) => {
                all = false;
                say(&format!("{pattern}\n  refused: {refusal}\n"))?;
            }
        }
    }
    Ok(all)
}

fn write_verilog(args: &VerilogArgs) -> anyhow::Result<()> {
    let patterns = args.expressions.patterns()?;
    let reading = args.expressions.reading(false);
    let expressions: Vec<Expression> =
        patterns.iter().map(|pattern| Expression::read(pattern, reading)).collect::<Result<_, _>>()?;
    let hardware = Hardware {
        width: args.width,
        slots: usize::from(args.slots),
        classes: usize::from(args.classes),
        vector_every: usize::from(args.slots).min(16),
    };
    let image = Image::of(&expressions, hardware)?;
    let folder = &args.output;
    session::make_folder(folder)?;
    for (file, text) in MODULES {
        session::write(&folder.join(file), text)?;
    }
    session::write(&folder.join("scan.v"), &hardware.top())?;
    session::write(&folder.join("tables.hex"), &image.to_text())?;
    let slots: Vec<Value> = patterns
        .iter()
        .zip(&image.accepts)
        .map(|(pattern, slot)| json!({ "re": pattern, "slot": slot }))
        .collect();
    let about = json!({ "width": args.width, "latency": hardware.latency(), "expressions": slots });
    session::write(&folder.join("slots.json"), &format!("{about:#}\n"))?;
    Ok(())
}

/// A width that the hardware is made for.
fn width(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(width @ (1 | 2 | 4 | 8 | 16 | 32)) => Ok(width),
        _ => Err("1, 2, 4, 8, 16 or 32".to_owned()),
    }
}
