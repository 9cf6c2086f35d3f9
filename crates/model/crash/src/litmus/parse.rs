//! From text to a litmus test.

use std::collections::BTreeSet;

use event::{FenceKind, FlushKind, StrandMark};

use super::{Condition, Instruction, Litmus, Values};

/// More interleavings than this are not tried.
const INTERLEAVINGS: u64 = 1_000_000;
/// Each store may be missing, so images double with each.
const STORES: usize = 16;
/// Instructions of all threads.
pub(super) const INSTRUCTIONS: usize = 64;
/// Words of a line.
const WORDS: usize = 8;
/// Outcomes that one line may stand for.
const EXPANDED: usize = 1 << 16;

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

pub(super) fn parse(file: &str, text: &str) -> Result<Litmus, LitmusError> {
    let error = |line: usize, fault: String| LitmusError { file: file.to_owned(), line, fault };
    let mut parser = Parser::default();
    let mut last = 1;
    for (number, line) in text.lines().enumerate() {
        last = number + 1;
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            parser.line(last, line).map_err(|fault| error(last, fault))?;
        }
    }
    parser.finish().map_err(|(line, fault)| error(line.unwrap_or(last), fault))
}

/// What was read so far. Conditions wait for the end, when all locations are known.
#[derive(Debug, Default)]
struct Parser {
    litmus: Litmus,
    platform: bool,
    same_line: Vec<(usize, Vec<String>)>,
    conditions: Vec<(usize, Expect, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Outcome,
    Allowed,
    Forbidden,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line == "thread" {
            self.litmus.threads.push(Vec::new());
            return Ok(());
        }
        let Some((key, value)) = line.split_once(':') else { return self.instruction(line) };
        let value = value.trim();
        let mut expect = |expect| self.conditions.push((number, expect, value.to_owned()));
        match key.trim() {
            "name" => self.litmus.name = value.to_owned(),
            "from" => self.litmus.from = value.to_owned(),
            "platform" => {
                self.litmus.platform = value.parse()?;
                if self.litmus.platform.is_files() {
                    return Err(format!(
                        "litmus tests are about memory, and `{value}` is a platform of files"
                    ));
                }
                self.platform = true;
            }
            "same line" => {
                self.same_line.push((number, value.split_whitespace().map(str::to_owned).collect()));
            }
            "outcome" => expect(Expect::Outcome),
            "allowed" => expect(Expect::Allowed),
            "forbidden" => expect(Expect::Forbidden),
            other => {
                return Err(format!(
                    "`{other}:` is nothing a test has; there are name, platform, from, same line, outcome, allowed and forbidden"
                ));
            }
        }
        Ok(())
    }

    fn instruction(&mut self, line: &str) -> Result<(), String> {
        if self.litmus.threads.is_empty() {
            return Err(format!("`{line}` stands before the first `thread`"));
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let instruction = match (word, rest) {
            ("sfence", "") => Instruction::Fence(FenceKind::Store),
            ("mfence", "") => Instruction::Fence(FenceKind::Full),
            ("PB", "") => Instruction::Strand(StrandMark::Barrier),
            ("NS", "") => Instruction::Strand(StrandMark::New),
            ("JS", "") => Instruction::Strand(StrandMark::Join),
            ("clwb", at) => Instruction::Flush(self.location(at)?, FlushKind::Clwb),
            ("clflushopt", at) => Instruction::Flush(self.location(at)?, FlushKind::Clflushopt),
            ("clflush", at) => Instruction::Flush(self.location(at)?, FlushKind::Clflush),
            ("ntstore", to) => self.assignment(to).map(|(at, value)| Instruction::StoreNt(at, value))?,
            ("xchg", to) => self.assignment(to).map(|(at, value)| Instruction::Exchange(at, value))?,
            ("await", to) => self.assignment(to).map(|(at, value)| Instruction::Await(at, value))?,
            ("release", name) => Instruction::Release(self.variable(name)?),
            ("acquire", name) => Instruction::Acquire(self.variable(name)?),
            ("lock", name) => Instruction::Lock(self.variable(name)?),
            ("unlock", name) => Instruction::Unlock(self.variable(name)?),
            _ => match line.split_once('=') {
                Some((register, at)) if at.trim().parse::<u64>().is_err() => {
                    self.checked(register)?;
                    Instruction::Load(self.location(at)?)
                }
                Some(_) => self.assignment(line).map(|(at, value)| Instruction::Store(at, value))?,
                None => {
                    return Err(format!(
                        "`{line}` is no instruction; a store is `A=1`, a load `r=A`, a flush `clwb A`, a fence `sfence`"
                    ));
                }
            },
        };
        if let Some(thread) = self.litmus.threads.last_mut() {
            thread.push(instruction);
        }
        Ok(())
    }

    fn checked<'t>(&self, name: &'t str) -> Result<&'t str, String> {
        let name = name.trim();
        let starts = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        let legal = |letter: char| letter.is_ascii_alphanumeric() || "_.->".contains(letter);
        if starts && name.chars().all(legal) {
            Ok(name)
        } else {
            Err(format!("`{name}` is no name; names are letters, digits, `_`, `.` and `->`"))
        }
    }

    fn location(&mut self, name: &str) -> Result<usize, String> {
        let name = self.checked(name)?;
        Ok(number(&mut self.litmus.locations, name))
    }

    fn variable(&mut self, name: &str) -> Result<usize, String> {
        let name = self.checked(name)?;
        Ok(number(&mut self.litmus.variables, name))
    }

    fn assignment(&mut self, text: &str) -> Result<(usize, u64), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is no assignment such as `A=1`"))?;
        Ok((self.location(name)?, parse_value(value)?))
    }

    fn finish(mut self) -> Result<Litmus, (Option<usize>, String)> {
        self.sizes().map_err(|fault| (None, fault))?;
        self.lay_out().map_err(|(line, fault)| (Some(line), fault))?;
        for (line, expect, text) in std::mem::take(&mut self.conditions) {
            self.condition(expect, &text).map_err(|fault| (Some(line), fault))?;
        }
        let litmus = &self.litmus;
        if litmus.exactly.is_none() && litmus.allowed.is_empty() && litmus.forbidden.is_empty() {
            return Err((
                None,
                "the test expects nothing; say `outcome:`, `allowed:` or `forbidden:`".into(),
            ));
        }
        Ok(self.litmus)
    }

    fn sizes(&self) -> Result<(), String> {
        let litmus = &self.litmus;
        if litmus.name.is_empty() {
            return Err("the test has no `name:`".into());
        }
        if !self.platform {
            return Err("the test has no `platform:`".into());
        }
        if litmus.locations.is_empty() {
            return Err("no thread stores to or loads from any location".into());
        }
        let instructions: usize = litmus.threads.iter().map(Vec::len).sum();
        if instructions > INSTRUCTIONS {
            return Err(format!("{instructions} instructions are too many; at most {INSTRUCTIONS}"));
        }
        let stores = litmus.threads.iter().flatten().filter(|instruction| instruction.stores().is_some());
        let stores = stores.count();
        if stores > STORES {
            return Err(format!("{stores} stores are too many for all images of them; at most {STORES}"));
        }
        if interleavings(litmus.threads.iter().map(|thread| thread.len() as u64)).is_none() {
            return Err(format!(
                "the threads have more than {INTERLEAVINGS} interleavings; make the test shorter"
            ));
        }
        Ok(())
    }

    /// Gives each location its line.
    fn lay_out(&mut self) -> Result<(), (usize, String)> {
        let litmus = &mut self.litmus;
        let mut lines: Vec<usize> = (0..litmus.locations.len()).collect();
        let mut placed = BTreeSet::new();
        for (line, names) in &self.same_line {
            let mut on_it = Vec::new();
            for name in names {
                let at = find(&litmus.locations, name).map_err(|fault| (*line, fault))?;
                if !placed.insert(at) {
                    return Err((*line, format!("`{name}` is on a line already")));
                }
                on_it.push(at);
            }
            // A line has the number of its first location.
            let first = on_it.iter().copied().min().unwrap_or(0);
            on_it.iter().for_each(|&at| lines[at] = first);
            if names.len() > WORDS {
                return Err((*line, format!("a line has {WORDS} words")));
            }
        }
        litmus.lines = lines;
        Ok(())
    }

    fn condition(&mut self, expect: Expect, text: &str) -> Result<(), String> {
        let litmus = &mut self.litmus;
        // Per location the values that the line gives it.
        let mut values: Vec<Vec<u64>> = vec![Vec::new(); litmus.locations.len()];
        for part in text.split_whitespace() {
            let (name, list) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is no value such as `A=1`"))?;
            let at = find(&litmus.locations, name)?;
            if !values[at].is_empty() {
                return Err(format!("`{name}` has two values; write `{name}=0,1`"));
            }
            values[at] = list.split(',').map(parse_value).collect::<Result<_, _>>()?;
        }
        if expect == Expect::Outcome {
            if let Some(at) = values.iter().position(Vec::is_empty) {
                return Err(format!(
                    "an outcome names all locations, and `{}` is missing",
                    litmus.locations[at]
                ));
            }
            let count = values.iter().try_fold(1usize, |count, list| count.checked_mul(list.len()));
            if count.is_none_or(|count| count > EXPANDED) {
                return Err(format!("the line stands for more than {EXPANDED} outcomes"));
            }
            litmus.exactly.get_or_insert_default().extend(all(&values));
            return Ok(());
        }
        let mut condition = Vec::new();
        for (at, list) in values.iter().enumerate() {
            match list[..] {
                [] => {}
                [value] => condition.push((at, value)),
                _ => return Err("only `outcome:` may give a location several values".into()),
            }
        }
        if condition.is_empty() {
            return Err("names no location".into());
        }
        match expect {
            Expect::Allowed => litmus.allowed.push(Condition(condition)),
            _ => litmus.forbidden.push(Condition(condition)),
        }
        Ok(())
    }
}

fn parse_value(text: &str) -> Result<u64, String> {
    let text = text.trim();
    text.parse().map_err(|_| format!("`{text}` is no value; values are whole numbers"))
}

/// The number of a name, which is entered if it is new.
fn number(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn find(names: &[String], name: &str) -> Result<usize, String> {
    let found = names.iter().position(|known| known == name);
    found.ok_or_else(|| format!("no thread uses a location `{name}`"))
}

/// All combinations.
fn all(values: &[Vec<u64>]) -> Vec<Values> {
    let mut combinations = vec![Values::new()];
    for list in values {
        combinations = combinations
            .iter()
            .flat_map(|start| list.iter().map(move |&value| [&start[..], &[value]].concat()))
            .collect();
    }
    combinations
}

/// How many interleavings threads of these lengths have, unless they are too many.
fn interleavings(lengths: impl Iterator<Item = u64>) -> Option<u64> {
    let mut count = 1u64;
    let mut total = 0u64;
    for length in lengths {
        for taken in 1..=length {
            total += 1;
            // A binomial coefficient after each factor, so the division leaves nothing.
            count = count.checked_mul(total)? / taken;
            if count > INTERLEAVINGS {
                return None;
            }
        }
    }
    Some(count)
}
