//! Ranges of sorted sets: by rank, by score, by name.

use crate::commands::sorted::{pairs, sorted};
use crate::context::{Context, Fault, Outcome, c_text, integer, is, says, span};
use crate::data::layout::{self, Held, Kind};
use crate::number;
use crate::reply::Reply;

type Members = Vec<(Vec<u8>, f64)>;

/// What the ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// A range.
#[derive(Clone, Debug)]
enum Range {
    Rank(i64, i64),
    Score(Scores),
    Name(Names),
}

/// Scores between two, which belong to it or not.
#[derive(Clone, Copy, Debug)]
struct Scores {
    low: f64,
    high: f64,
    without_low: bool,
    without_high: bool,
}

/// One end of a range of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Before,
    /// A name, and whether the end lies behind it.
    At(Vec<u8>, bool),
    Behind,
}

/// Names between two ends.
#[derive(Clone, Debug)]
struct Names {
    low: End,
    high: End,
}

impl Scores {
    fn parse(low: &[u8], high: &[u8]) -> Result<Scores, Fault> {
        let end = |text: &[u8]| {
            let rest = text.strip_prefix(b"(");
            // As `strtod` has it: nothing is zero.
            let text = c_text(rest.unwrap_or(text)).trim_ascii_start();
            let score = if text.is_empty() { Some(0.0) } else { number::double(text) };
            let score = score.ok_or("ERR min or max is not a float")?;
            Ok::<_, Fault>((score, rest.is_some()))
        };
        let ((low, without_low), (high, without_high)) = (end(low)?, end(high)?);
        Ok(Scores { low, high, without_low, without_high })
    }

    fn is_behind_low(&self, score: f64) -> bool {
        if self.without_low { score > self.low } else { score >= self.low }
    }

    fn is_before_high(&self, score: f64) -> bool {
        if self.without_high { score < self.high } else { score <= self.high }
    }
}

impl Names {
    fn parse(low: &[u8], high: &[u8]) -> Result<Names, Fault> {
        let wrong = "ERR min or max not valid string range item";
        let end = |text: &[u8], low: bool| match text {
            b"-" => Ok(End::Before),
            b"+" => Ok(End::Behind),
            [b'(', name @ ..] => Ok(End::At(name.to_vec(), low)),
            [b'[', name @ ..] => Ok(End::At(name.to_vec(), !low)),
            _ => Err(Fault::from(wrong)),
        };
        Ok(Names { low: end(low, true)?, high: end(high, false)? })
    }

    fn is_behind_low(&self, name: &[u8]) -> bool {
        match &self.low {
            End::Before => true,
            End::At(low, behind) => {
                if *behind {
                    name > low.as_slice()
                } else {
                    name >= low.as_slice()
                }
            }
            End::Behind => false,
        }
    }

    fn is_before_high(&self, name: &[u8]) -> bool {
        match &self.high {
            End::Before => false,
            End::At(high, behind) => {
                if *behind {
                    name <= high.as_slice()
                } else {
                    name < high.as_slice()
                }
            }
            End::Behind => true,
        }
    }
}

impl Names {
    /// Whether the last member is behind the low end, and the first before the high one.
    fn reach(&self, context: &Context, prefix: &[u8]) -> Result<bool, Fault> {
        let one = |backwards| walk(context, prefix, None, backwards, 0, 1, |_, _| Some(true));
        let (first, last) = (one(false)?, one(true)?);
        let ends = first.first().zip(last.first());
        Ok(ends.is_some_and(|(first, last)| self.is_behind_low(&last.0) && self.is_before_high(&first.0)))
    }
}

impl Range {
    fn parse(by: By, low: &[u8], high: &[u8]) -> Result<Range, Fault> {
        Ok(match by {
            By::Rank => Range::Rank(integer(low)?, integer(high)?),
            By::Score => Range::Score(Scores::parse(low, high)?),
            By::Name => Range::Name(Names::parse(low, high)?),
        })
    }

    /// The members that it has, perhaps the last first, and of these those that are wanted.
    fn members(
        &self,
        context: &Context,
        held: &Held,
        backwards: bool,
        skip: u64,
        most: u64,
    ) -> Result<Members, Fault> {
        let prefix = layout::scores(held.body);
        let (mut skip, mut most) = (skip, most);
        if let Range::Rank(start, end) = self {
            (skip, most) = span(*start, *end, held.count);
            if skip > held.count / 2 {
                // The other end is nearer.
                let from_end = held.count - skip - most;
                let mut found = walk(context, &prefix, None, !backwards, from_end, most, |_, _| Some(true))?;
                found.reverse();
                return Ok(found);
            }
        }
        if most == 0 {
            return Ok(Members::new());
        }
        if let Range::Name(names) = self
            && !names.reach(context, &prefix)?
        {
            return Ok(Members::new());
        }
        let mut began = false;
        let wanted = |score: f64, name: &[u8]| {
            let (behind_low, before_high) = match self {
                Range::Rank(..) => (true, true),
                Range::Score(scores) => (scores.is_behind_low(score), scores.is_before_high(score)),
                // With several scores names have no order; as in Redis, the far end alone counts then.
                Range::Name(names) => (
                    (began && !backwards) || names.is_behind_low(name),
                    (began && backwards) || names.is_before_high(name),
                ),
            };
            let judged = judged(behind_low, before_high, backwards);
            began |= judged == Some(true);
            judged
        };
        let from = match (self, backwards) {
            (Range::Score(scores), false) => {
                Some([&prefix[..], &layout::ordered(scores.low).to_be_bytes()].concat())
            }
            (Range::Score(scores), true) => {
                // Behind all members of the highest score.
                let highest = [&prefix[..], &layout::ordered(scores.high).to_be_bytes()].concat();
                Some(layout::end(&highest))
            }
            _ => None,
        };
        walk(context, &prefix, from, backwards, skip, most, wanted)
    }
}

/// Whether a member belongs to a range; none if nothing behind it does.
fn judged(behind_low: bool, before_high: bool, backwards: bool) -> Option<bool> {
    match (behind_low, before_high, backwards) {
        (true, true, _) => Some(true),
        (true, false, false) | (false, true, true) => None,
        _ => Some(false),
    }
}

fn walk(
    context: &Context,
    prefix: &[u8],
    from: Option<Vec<u8>>,
    backwards: bool,
    mut skip: u64,
    most: u64,
    mut wanted: impl FnMut(f64, &[u8]) -> Option<bool>,
) -> Result<Members, Fault> {
    let mut found = Members::new();
    let visit = |record: &[u8], _: &[u8]| {
        let (score, name) = layout::score_of(record);
        match wanted(score, name) {
            None => return false,
            Some(false) => return true,
            Some(true) if skip > 0 => skip -= 1,
            Some(true) => found.push((name.to_vec(), score)),
        }
        (found.len() as u64) < most
    };
    if most > 0 {
        match backwards {
            false => context.tx.walk(prefix, &from.unwrap_or_else(|| prefix.to_vec()), visit)?,
            true => context.tx.walk_back(prefix, &from.unwrap_or_else(|| layout::end(prefix)), visit)?,
        }
    }
    Ok(found)
}

/// What a command of ranges asks for.
struct Asked {
    by: By,
    backwards: bool,
    with_scores: bool,
    limit: (i64, i64),
}

/// Reads the options; `fixed` are those that the command's name says already.
fn options(args: &[&[u8]], fixed: Option<(By, bool)>, store: bool) -> Result<Asked, Fault> {
    let mut by = fixed.map(|(by, _)| by);
    let mut backwards = fixed.is_some_and(|(_, backwards)| backwards);
    let (mut with_scores, mut limit, mut at) = (false, (0, -1), 0);
    while let Some(argument) = args.get(at) {
        match argument {
            word if !store && is(word, "WITHSCORES") => with_scores = true,
            word if is(word, "LIMIT") && at + 2 < args.len() => {
                limit = (integer(args[at + 1])?, integer(args[at + 2])?);
                at += 2;
            }
            word if fixed.is_none() && is(word, "REV") => backwards = true,
            word if by.is_none() && is(word, "BYLEX") => by = Some(By::Name),
            word if by.is_none() && is(word, "BYSCORE") => by = Some(By::Score),
            _ => return Err(says::SYNTAX.into()),
        }
        at += 1;
    }
    let by = by.unwrap_or(By::Rank);
    if limit.1 != -1 && by == By::Rank {
        let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(text.into());
    }
    if with_scores && by == By::Name {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    Ok(Asked { by, backwards, with_scores, limit })
}

/// The members that a command asks for, whose key and range are the first arguments.
fn asked(
    context: &mut Context,
    args: &[&[u8]],
    fixed: Option<(By, bool)>,
    store: bool,
) -> Result<(Members, bool), Fault> {
    let Asked { by, backwards, with_scores, limit } = options(&args[3..], fixed, store)?;
    let (low, high) = if backwards && by != By::Rank { (args[2], args[1]) } else { (args[1], args[2]) };
    let range = Range::parse(by, low, high)?;
    let Some(held) = sorted(context, args[0])? else { return Ok((Members::new(), with_scores)) };
    let most = u64::try_from(limit.1).unwrap_or(u64::MAX);
    // An offset below 0 leaves nothing.
    let Ok(skip) = u64::try_from(limit.0) else { return Ok((Members::new(), with_scores)) };
    Ok((range.members(context, &held, backwards, skip, most)?, with_scores))
}

fn range(context: &mut Context, args: &[&[u8]], fixed: Option<(By, bool)>) -> Outcome {
    let (found, with_scores) = asked(context, &args[1..], fixed, false)?;
    Ok(match with_scores {
        true => Reply::Pairs(pairs(found)),
        false => Reply::bulks(found.into_iter().map(|(member, _)| member)),
    })
}

pub fn zrange(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, None)
}

pub fn zrevrange(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, Some((By::Rank, true)))
}

pub fn zrangebyscore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, Some((By::Score, false)))
}

pub fn zrevrangebyscore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, Some((By::Score, true)))
}

pub fn zrangebylex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, Some((By::Name, false)))
}

pub fn zrevrangebylex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    range(context, args, Some((By::Name, true)))
}

/// Puts members under a key in the place of what is there.
pub fn store(context: &mut Context, key: &[u8], members: &Members) -> Outcome {
    let mut slot = context.slot(key)?;
    let mut held = Held { kind: Kind::Sorted, body: context.tx.new_body(), count: 0 };
    for (member, score) in members {
        context.tx.set_score(&mut held, member, *score)?;
    }
    context.tx.remove(&mut slot);
    context.keep(&mut slot, held);
    Ok(Reply::count(members.len()))
}

pub fn zrangestore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    let (found, _) = asked(context, &args[2..], None, true)?;
    store(context, args[1], &found)
}

fn in_range(context: &mut Context, args: &[&[u8]], by: By) -> Result<Option<(Held, Members)>, Fault> {
    let range = Range::parse(by, args[2], args[3])?;
    let Some(held) = sorted(context, args[1])? else { return Ok(None) };
    let found = range.members(context, &held, false, 0, u64::MAX)?;
    Ok(Some((held, found)))
}

fn count(context: &mut Context, args: &[&[u8]], by: By) -> Outcome {
    Ok(Reply::count(in_range(context, args, by)?.map_or(0, |(_, found)| found.len())))
}

pub fn zcount(context: &mut Context, args: &[&[u8]]) -> Outcome {
    count(context, args, By::Score)
}

pub fn zlexcount(context: &mut Context, args: &[&[u8]]) -> Outcome {
    count(context, args, By::Name)
}

fn remove(context: &mut Context, args: &[&[u8]], by: By) -> Outcome {
    let Some((mut held, found)) = in_range(context, args, by)? else { return Ok(Reply::Integer(0)) };
    let mut slot = context.slot(args[1])?;
    for (member, _) in &found {
        context.tx.remove_element(&mut held, member)?;
    }
    if !found.is_empty() {
        context.keep(&mut slot, held);
    }
    Ok(Reply::count(found.len()))
}

pub fn zremrangebyrank(context: &mut Context, args: &[&[u8]]) -> Outcome {
    remove(context, args, By::Rank)
}

pub fn zremrangebyscore(context: &mut Context, args: &[&[u8]]) -> Outcome {
    remove(context, args, By::Score)
}

pub fn zremrangebylex(context: &mut Context, args: &[&[u8]]) -> Outcome {
    remove(context, args, By::Name)
}
