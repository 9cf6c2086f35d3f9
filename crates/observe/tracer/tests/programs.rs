//! Real programs under the tracer.

use event::{Collected, Op};
use tracer::{Options, record};

fn run(script: &str, folder: &std::path::Path) -> Collected {
    let files = vec![folder.canonicalize().expect("its path").display().to_string()];
    let command = vec!["sh".into(), "-c".into(), script.into(), "sh".into(), folder.into()];
    let mut sink = Collected::default();
    let options = Options { command, files, stdout_to_stderr: false, ..Options::default() };
    let outcome = record(&options, &mut sink).expect("it is traced");
    assert!(outcome.status.success(), "{outcome:?}");
    sink
}

#[test]
fn a_shell_and_its_children_are_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = run(
        "cd $1 && echo one > a && echo two >> a && (cat a | sort > b) && sync b && mv b c && rm a && mkdir d",
        folder.path(),
    );
    let ops: Vec<Op> = seen.events.iter().map(|(_, event)| event.op).collect();
    let names =
        |id| seen.table.name(id).unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
    let mut deeds = Vec::new();
    for op in ops {
        match op {
            Op::FileCreate { file, folder } => deeds.push(format!("create {} {folder}", names(file))),
            Op::FileWrite { file, offset, len } => {
                deeds.push(format!("write {} {offset} {len}", names(file)))
            }
            Op::FileSync { file, .. } => deeds.push(format!("sync {}", names(file))),
            Op::Rename { from, to } => deeds.push(format!("rename {} {}", names(from), names(to))),
            Op::Unlink { file } => deeds.push(format!("unlink {}", names(file))),
            _ => {}
        }
    }
    let wanted = [
        "create a false",
        "write a 0 4",
        "write a 4 4",
        "create b false",
        "write b 0 8",
        "sync b",
        "rename b c",
        "unlink a",
        "create d true",
    ];
    assert_eq!(deeds, wanted);
    assert_eq!(seen.values, b"one\ntwo\none\ntwo\n");
}

#[test]
fn stores_to_shared_mappings_are_found_at_the_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m"), [0; 4096]).expect("a file");
    let python = "python3 -c 'import mmap,sys;f=open(sys.argv[1]+\"/m\",\"r+b\");m=mmap.mmap(f.fileno(),4096);m[16:24]=b\"12345678\";m.flush()' $1";
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let seen = run(python, folder.path());
    let at = |wanted: fn(&Op) -> bool| seen.events.iter().position(|(_, event)| wanted(&event.op));
    let write = at(|op| matches!(op, Op::FileWrite { offset: 16, len: 8, .. })).expect("the word");
    let sync = at(|op| matches!(op, Op::FileRangeSync { offset: 0, len: 4096, data_only: true, .. }))
        .expect("the sync");
    assert!(write < sync);
    assert_eq!(seen.values, b"12345678");
}

#[test]
fn what_is_printed_comes_behind_what_was_synced() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = run("cd $1 && echo one > a && sync a && echo saved", folder.path());
    let ends = seen.events.iter().enumerate().filter_map(|(at, (_, event))| match event.op {
        Op::RegionEnd { region } => Some((at, event::printed(region, &seen.table).expect("its text"))),
        _ => None,
    });
    let ends = ends.collect::<Vec<_>>();
    let sync =
        seen.events.iter().position(|(_, event)| matches!(event.op, Op::FileSync { .. })).expect("a sync");
    assert_eq!(ends.len(), 1);
    assert!(sync < ends[0].0);
    assert_eq!(ends[0].1, b"saved\n");
}
