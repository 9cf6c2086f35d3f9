//! From text to a litmus test of a design.

use std::collections::BTreeSet;

use super::{Design, Instruction, Litmus, Values};

/// Instructions and stores of a test at most: images double with each store.
const INSTRUCTIONS: usize = 32;
const STORES: usize = 10;
/// Outcomes that one line may stand for.
const EXPANDED: usize = 4096;

/// Why a file is no litmus test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub struct LitmusError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what would be right.
    pub fault: String,
}

/// Whether a file is a test of a design, and not of a platform as `crash` has it.
#[must_use]
pub fn is_of_designs(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("design:"))
}

/// Reads a test.
///
/// # Errors
/// If it is none, with file and line.
pub fn parse(file: &str, text: &str) -> Result<Litmus, LitmusError> {
    let error = |line: usize, fault: String| LitmusError { file: file.to_owned(), line, fault };
    let mut litmus = Litmus {
        name: String::new(),
        design: Design::X86,
        locations: Vec::new(),
        locks: Vec::new(),
        threads: Vec::new(),
        exactly: None,
        allowed: Vec::new(),
        forbidden: Vec::new(),
    };
    let (mut last, mut has_design, mut conditions) = (1, false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        last = number + 1;
        let line = line.split('#').next().unwrap_or("").trim();
        match line.split_once(':') {
            _ if line.is_empty() => {}
            _ if line == "thread" => litmus.threads.push(Vec::new()),
            None => {
                let instruction = instruction(&mut litmus, line).map_err(|fault| error(last, fault))?;
                match litmus.threads.last_mut() {
                    Some(thread) => thread.push(instruction),
                    None => return Err(error(last, format!("`{line}` stands before the first `thread`"))),
                }
            }
            Some(("name", value)) => value.trim().clone_into(&mut litmus.name),
            Some(("from", _)) => {}
            Some(("design", value)) => {
                litmus.design = design(value.trim()).map_err(|fault| error(last, fault))?;
                has_design = true;
            }
            Some((key @ ("outcome" | "allowed" | "forbidden"), value)) => {
                conditions.push((last, key, value));
            }
            Some((key, _)) => {
                return Err(error(
                    last,
                    format!(
                        "`{key}:` is nothing a test has; there are name, from, design, outcome, allowed, forbidden"
                    ),
                ));
            }
        }
    }
    let whole: usize = litmus.threads.iter().map(Vec::len).sum();
    let stores = litmus.threads.iter().flatten().filter(|instruction| stores(**instruction)).count();
    let fault = match () {
        () if litmus.name.is_empty() => Some("the test has no `name:`".to_owned()),
        () if !has_design => Some("the test has no `design:`".to_owned()),
        () if litmus.locations.is_empty() => Some("no thread uses any location".to_owned()),
        () if whole > INSTRUCTIONS => {
            Some(format!("{whole} instructions are too many; at most {INSTRUCTIONS}"))
        }
        () if stores > STORES => Some(format!("{stores} stores are too many; at most {STORES}")),
        () if conditions.is_empty() => {
            Some("the test expects nothing; say `outcome:`, `allowed:` or `forbidden:`".to_owned())
        }
        () => None,
    };
    if let Some(fault) = fault {
        return Err(error(last, fault));
    }
    for (line, key, text) in conditions {
        condition(&mut litmus, key, text).map_err(|fault| error(line, fault))?;
    }
    Ok(litmus)
}

fn stores(instruction: Instruction) -> bool {
    matches!(instruction, Instruction::Store(..) | Instruction::Write(..) | Instruction::Ack(..))
}

fn design(text: &str) -> Result<Design, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or("");
    let found = Design::ALL.into_iter().find(|design| design.name() == name);
    let mut found = found.ok_or_else(|| {
        let known: Vec<&str> = Design::ALL.iter().map(|design| design.name()).collect();
        format!("`{name}` is no design; there are {}", known.join(", "))
    })?;
    if let (Design::Strands { buffers, entries }, Some(size)) = (&mut found, words.next()) {
        let parts = size.split_once('x').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts {
            Some(parts @ (1..=16, 1..=16)) => (*buffers, *entries) = parts,
            _ => return Err(format!("`{size}` is no size of strand buffers such as 4x4, 1x1 to 16x16")),
        }
    }
    Ok(found)
}

fn instruction(litmus: &mut Litmus, line: &str) -> Result<Instruction, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    Ok(match (word, rest) {
        ("sfence", "") => Instruction::Sfence,
        ("mfence", "") => Instruction::Mfence,
        ("PB", "") => Instruction::Barrier,
        ("NS", "") => Instruction::New,
        ("JS", "") => Instruction::Join,
        ("begin", "") => Instruction::Begin,
        ("end", "") => Instruction::End,
        ("read", "") => Instruction::Read,
        ("flush", "") => Instruction::Flush,
        ("wait", "") => Instruction::Wait,
        ("break", "") => Instruction::Break,
        ("clwb", name) => Instruction::Clwb(number(&mut litmus.locations, name)?),
        ("lock", name) => Instruction::Lock(number(&mut litmus.locks, name)?),
        ("unlock", name) => Instruction::Unlock(number(&mut litmus.locks, name)?),
        ("await", to) => assignment(litmus, to).map(|(at, value)| Instruction::Await(at, value))?,
        ("write", to) => assignment(litmus, to).map(|(at, value)| Instruction::Write(at, value))?,
        ("ack", to) => assignment(litmus, to).map(|(at, value)| Instruction::Ack(at, value))?,
        _ => match line.split_once('=') {
            Some((_, name)) if name.trim().parse::<u64>().is_err() => {
                Instruction::Load(number(&mut litmus.locations, name)?)
            }
            Some(_) => assignment(litmus, line).map(|(at, value)| Instruction::Store(at, value))?,
            None => return Err(format!("`{line}` is no instruction; a store is `A=1`, a flush `clwb A`")),
        },
    })
}

fn assignment(litmus: &mut Litmus, text: &str) -> Result<(usize, u64), String> {
    let fault = || format!("`{text}` is no assignment such as `A=1`");
    let (name, value) = text.split_once('=').ok_or_else(fault)?;
    let value = value.trim().parse().map_err(|_| fault())?;
    Ok((number(&mut litmus.locations, name)?, value))
}

/// The number of a name, which is entered if it is new.
fn number(names: &mut Vec<String>, name: &str) -> Result<usize, String> {
    let name = name.trim();
    let legal = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(legal) {
        return Err(format!("`{name}` is no name; names are letters, digits and `_`"));
    }
    Ok(names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    }))
}

fn condition(litmus: &mut Litmus, key: &str, text: &str) -> Result<(), String> {
    let mut values: Vec<(usize, Vec<u64>)> = Vec::new();
    for part in text.split_whitespace() {
        let fault = || format!("`{part}` is no value such as `A=1` or `A=0,1` of a location of the test");
        let (name, list) = part.split_once('=').ok_or_else(fault)?;
        let at = litmus.locations.iter().position(|known| known == name).ok_or_else(fault)?;
        let list: Vec<u64> =
            list.split(',').map(|value| value.parse().map_err(|_| fault())).collect::<Result<_, _>>()?;
        if values.iter().any(|(known, _)| *known == at) {
            return Err(format!("`{name}` has two values; write `{name}=0,1`"));
        }
        values.push((at, list));
    }
    if key != "outcome" {
        if values.is_empty() || values.iter().any(|(_, list)| list.len() != 1) {
            return Err("`allowed:` and `forbidden:` give locations one value each".to_owned());
        }
        let condition = values.into_iter().map(|(at, list)| (at, list[0])).collect();
        if key == "allowed" { &mut litmus.allowed } else { &mut litmus.forbidden }.push(condition);
        return Ok(());
    }
    if values.len() != litmus.locations.len() {
        return Err("an outcome names all locations".to_owned());
    }
    values.sort_by_key(|(at, _)| *at);
    let mut all: BTreeSet<Values> = BTreeSet::from([Vec::new()]);
    for (_, list) in &values {
        all =
            all.iter().flat_map(|start| list.iter().map(|&value| [&start[..], &[value]].concat())).collect();
        if all.len() > EXPANDED {
            return Err(format!("the line stands for more than {EXPANDED} outcomes"));
        }
    }
    litmus.exactly.get_or_insert_default().extend(all);
    Ok(())
}
