//! What findings say where names are known.

use event::{Field, Layout, Op, Order, SiteTable, Variable};
use locality::Names;

use crate::Stage;

/// A type with a hot field among cold ones.
fn particle() -> Layout {
    let field = |name: &str, offset| Field { name: name.to_owned(), offset, bytes: 8, element: 8 };
    let fields = ["x", "y", "mass", "name"].iter().zip((0..).step_by(8)).map(|(name, at)| field(name, at));
    Layout { name: "particle".to_owned(), bytes: 64, fields: fields.collect() }
}

#[test]
fn fields_are_named_where_their_type_is_known() {
    let mut stage = Stage::new();
    stage.alloc(7, 0x100_0000, 64 << 17);
    for round in 0..3 {
        for at in 0..1u64 << 17 {
            stage.load(0, 3, 0x100_0000 + at * 64);
            if at % 64 == 0 && round == 0 {
                stage.load(1, 4, 0x100_0000 + at * 64 + 16);
            }
        }
    }
    stage.watcher.set_names(Names { types: [(7, particle())].into(), ..Names::default() });
    let findings = stage.watcher.findings(&SiteTable::default());
    let found = findings.iter().find(|found| found.rule.name() == "unused-bytes").expect("it is named");
    let says = "Of each particle of 64 B it uses x (8 B); other code uses mass; none that was looked at uses y, name.";
    assert!(found.evidence.contains(says), "{}", found.evidence);
    let uses = stage.watcher.uses();
    let (layout, fields) = uses.of_site(7).expect("its type is known");
    assert_eq!((layout.name.as_str(), fields[0].threads, fields[2].threads), ("particle", 1, 2));
    assert!(fields[0].loads > 1000 && fields[1].loads == 0, "{fields:?}");
}

#[test]
fn who_prepares_counters_for_others_does_not_share_them() {
    let mut stage = Stage::new();
    for at in 0..8 {
        stage.store(0, 9, 0x5000 + at * 8);
    }
    for round in 0..40_000 {
        stage.store(1, 3, 0x5000);
        stage.store(2, 3, 0x5008);
        if round == 100 {
            stage.store(0, 9, 0x5008);
        }
    }
    assert_eq!(stage.rules(), ["false-sharing"]);
}

#[test]
fn a_lock_that_is_given_back_unread_is_no_dead_store() {
    let of = |synchronises: bool| {
        let mut stage = Stage::new();
        for _ in 0..20_000 {
            let seq = stage.seq();
            stage.load(0, 3, 0x5000);
            stage.store(0, 3, 0x5000);
            if synchronises {
                stage.op(0, 3, Op::Acquire { var: 0x5000, order: Order::SeqCst, seq });
            }
            stage.store(0, 4, 0x5000);
        }
        stage.rules().contains(&"dead-store")
    };
    assert_eq!((of(false), of(true)), (true, false));
}

#[test]
fn contested_bytes_have_the_names_of_fields_and_variables() {
    let mut stage = Stage::new();
    for _ in 0..40_000 {
        stage.store(1, 3, 0x5000);
        stage.store(2, 3, 0x5008);
    }
    let layout = Some(Layout { name: "long".to_owned(), bytes: 8, fields: Vec::new() });
    let counters = Variable { name: "global counters".to_owned(), addr: 0x4ff8, bytes: 64, layout };
    let threads = [(1, "serve".to_owned())].into();
    stage.watcher.set_names(Names { variables: vec![counters], threads, ..Names::default() });
    let findings = stage.watcher.findings(&SiteTable::default());
    let found = findings.iter().find(|found| found.rule.name() == "false-sharing").expect("it is named");
    for part in
        ["at byte 8 of the global counters", "thread 1 (serve) writes bytes 0-7 ([1])", "bytes 8-15 ([2])"]
    {
        assert!(found.evidence.contains(part), "{part}: {}", found.evidence);
    }
    stage.watcher.set_names(Names { stacks: vec![(2, 0x5800, 8192)], ..Names::default() });
    let findings = stage.watcher.findings(&SiteTable::default());
    let found = findings.iter().find(|found| found.rule.name() == "false-sharing").expect("it is named");
    assert!(found.evidence.contains("of the stack of thread 2"), "{}", found.evidence);
}
