//! Any expression over any text, cut anywhere: the scanner finds what the positions find byte by byte, and
//! the cycle model what both find.
#![no_main]

use hare::scan::{Nfa, Scanner};
use hare::{Counting, Design, Expression, Limits, Lowering, Machine, Reading, Tables};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8], u8)| {
    let (pattern, text, cut) = input;
    if pattern.len() > 60 || text.len() > 2000 {
        return;
    }
    let Ok(expression) = Expression::read(pattern, Reading::default()) else { return };
    let expressions = [expression];
    let small = Lowering { positions: 400, ..Lowering::SOFTWARE };
    let Ok(positions) = expressions[0].positions(&small) else { return };
    let Ok(scanner) = Scanner::new(&expressions) else { return };
    let nfa = Nfa::of(&positions);
    let mut state = nfa.start();
    let before = |at: usize| at.checked_sub(1).map(|before| text[before]);
    let ends: Vec<u64> = (0..=text.len())
        .filter(|&at| nfa.step(&mut state, at as u64, before(at), text.get(at).copied(), true))
        .map(|at| at as u64)
        .collect();
    let mut found = Vec::new();
    let mut stream = scanner.stream();
    text.chunks(usize::from(cut) + 1).for_each(|piece| stream.feed(piece, |one| found.push(one.end)));
    stream.finish(|one| found.push(one.end));
    assert_eq!(found, ends);
    let Ok(design) = Design::of(&expressions, Limits { slots: 400, ..Limits::published(4) }) else { return };
    let tables = Tables::of(&design);
    let mut machine = Machine::new(&design, &tables, Counting::Exact);
    let mut modelled = Vec::new();
    for (number, window) in text.chunks(4).enumerate() {
        machine.window(window, text.get((number + 1) * 4).copied(), |position, _| {
            modelled.push((number * 4 + position + 1) as u64);
        });
    }
    assert_eq!(modelled, ends);
});
