//! Programs that write files, by hand: what may be left of them on each platform.

mod on_files;

use std::collections::BTreeSet;

use crash::files::{Entry, FilesRun, Tree};
use crash::{Bounds, Checker, Image, Outcome, Platform, Strategy};
use event::{Op, ThreadId};
use on_files::{Judge, Run};
use proptest::prelude::*;

/// Those that write sectors in place.
const IN_PLACE: [Platform; 4] = [Platform::POSIX, Platform::EXT4, Platform::EXT4_WRITEBACK, Platform::XFS];

impl Run {
    fn create(&mut self, path: &str) -> &mut Self {
        let file = self.name(path);
        self.push(Op::FileCreate { file, folder: false }, &[])
    }

    fn write(&mut self, path: &str, offset: u64, bytes: &[u8]) -> &mut Self {
        let file = self.name(path);
        self.push(Op::FileWrite { file, offset, len: bytes.len() as u32 }, bytes)
    }

    fn truncate(&mut self, path: &str, len: u64) -> &mut Self {
        let file = self.name(path);
        self.push(Op::FileTruncate { file, len }, &[])
    }

    fn sync(&mut self, path: &str) -> &mut Self {
        let file = self.name(path);
        self.push(Op::FileSync { file, data_only: false }, &[])
    }

    fn data_sync(&mut self, path: &str) -> &mut Self {
        let file = self.name(path);
        self.push(Op::FileSync { file, data_only: true }, &[])
    }

    fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        let (from, to) = (self.name(from), self.name(to));
        self.push(Op::Rename { from, to }, &[])
    }

    fn unlink(&mut self, path: &str) -> &mut Self {
        let file = self.name(path);
        self.push(Op::Unlink { file }, &[])
    }

    /// A call of the same code as the one before.
    fn push_again(&mut self, op: Op, values: &[u8]) -> &mut Self {
        self.calls -= 1;
        self.push(op, values)
    }

    fn end(&mut self) -> &mut Self {
        self.push(Op::RegionEnd { region: 1 }, &[])
    }
}

fn check(run: &FilesRun, judge: impl FnMut(&Tree, &Image<'_>) -> Result<(), String>) -> Outcome {
    let mut checker = Checker::new(&run.history, &run.contents);
    checker.strategy = Strategy::Exhaustive;
    checker.bounds = Bounds { per_cut: 1 << 16, ..Bounds::default() };
    let outcome = checker.run(&mut Judge { disk: run.disk.clone(), judge });
    assert_eq!(outcome.cut_short, 0);
    outcome
}

/// Every content that the file may have after the crash; none where it is not there.
fn states(run: &FilesRun, path: &str) -> BTreeSet<Option<String>> {
    let mut states = BTreeSet::new();
    check(run, |tree, _| {
        states.insert(tree.get(path).map(|entry| match entry {
            Entry::File(bytes) => String::from_utf8_lossy(bytes).replace('\0', "0"),
            Entry::Folder => "folder".to_owned(),
            other => format!("{other:?}"),
        }));
        Ok(())
    });
    states
}

fn wanted(states: &[&str]) -> BTreeSet<Option<String>> {
    states.iter().map(|state| (*state != "-").then(|| (*state).to_owned())).collect()
}

#[test]
fn an_overwrite_of_a_sector_is_whole_and_of_two_sectors_in_any_order() {
    let before = [b'a'; 1024];
    for platform in IN_PLACE {
        let run = Run::new(platform, &[("/f", &before)]).write("/f", 510, b"bbbb").run();
        let middles: BTreeSet<String> =
            states(&run, "/f").into_iter().flatten().map(|state| state[509..515].to_owned()).collect();
        let all = ["aaaaaa", "abbaaa", "aaabba", "abbbba"].map(str::to_owned);
        assert_eq!(middles, BTreeSet::from(all), "{platform}");
        let run =
            Run::new(platform, &[("/f", &before)]).write("/f", 510, b"bbbb").data_sync("/f").end().run();
        let outcome = check(&run, |tree, image| match &tree["/f"] {
            Entry::File(bytes) if image.ended == 1 && &bytes[510..514] != b"bbbb" => Err("lost".into()),
            _ => Ok(()),
        });
        assert_eq!(outcome.findings, []);
    }
}

#[test]
fn a_file_grows_before_or_after_its_bytes() {
    let grown = |platform| {
        let mut run = Run::new(platform, &[("/f", b"old")]);
        states(&run.write("/f", 3, b"new").write("/f", 6, b"er").run(), "/f")
    };
    assert_eq!(grown(Platform::BTRFS), wanted(&["old", "oldnew", "oldnewer"]));
    // The bytes of the sector survive in order, the length for itself.
    let pessimistic = ["old", "old000", "oldnew", "old00000", "oldnew00", "oldnewer"];
    assert_eq!(grown(Platform::POSIX), wanted(&pessimistic));
    // The block is there already, so the journal does not wait for what is written to it.
    assert_eq!(grown(Platform::EXT4), wanted(&pessimistic));
    let mut appended = Run::new(Platform::EXT4, &[("/f", &[b'a'; 4096])]);
    let lens: BTreeSet<Option<String>> = states(&appended.write("/f", 4096, b"new").run(), "/f");
    assert_eq!(lens.len(), 3, "the length of a new block comes with or without its bytes");
}

#[test]
fn a_lost_write_is_reported_with_its_own_bytes_and_not_with_the_length_that_it_made() {
    for platform in Platform::OF_FILES {
        let run = Run::new(platform, &[("/f", b"old")]).write("/f", 3, b"longer").end().run();
        let outcome = check(&run, |tree, image| match &tree["/f"] {
            Entry::File(bytes) if image.ended == 1 && bytes.len() != 9 => Err("lost".into()),
            _ => Ok(()),
        });
        let [finding] = &outcome.findings[..] else { panic!("{platform}: {:?}", outcome.findings) };
        let story = finding.story(&run.history).join(" ");
        // On POSIX the bytes may be there, and the length alone is missing.
        let in_one = [Platform::BTRFS, Platform::ZFS].contains(&platform);
        let reported = if in_one { "(6 B" } else { "the new length of f, 9 B, by" };
        assert!(story.contains(reported), "{platform}: {story}");
    }
}

#[test]
fn lost_calls_of_one_code_are_counted_whichever_way_they_go_through_the_file() {
    let mut calls = Run::new(Platform::POSIX, &[("/f", &[0; 2048])]);
    let file = calls.write("/f", 1024, b"high").name("/f");
    calls.push_again(Op::FileWrite { file, offset: 0, len: 3 }, b"low").end();
    let run = calls.run();
    let outcome = check(&run, |tree, image| match &tree["/f"] {
        Entry::File(bytes) if image.ended == 1 && bytes[0] == 0 && bytes[1024] == 0 => Err("lost".into()),
        _ => Ok(()),
    });
    let missing = &outcome.findings[0].missing;
    assert_eq!((missing.len(), missing[0].count, missing[0].part), (1, 2, None), "{missing:?}");
}

#[test]
fn a_file_that_is_replaced_is_old_or_new_or_worse() {
    let replaced = |platform, sync: bool| {
        let mut run = Run::new(platform, &[("/d/f", b"old")]);
        run.create("/d/new").write("/d/new", 0, b"contents");
        if sync {
            run.sync("/d/new");
        }
        states(&run.rename("/d/new", "/d/f").run(), "/d/f")
    };
    assert_eq!(replaced(Platform::EXT4, false), wanted(&["old", "contents"]));
    assert_eq!(replaced(Platform::EXT4, true), wanted(&["old", "contents"]));
    assert_eq!(replaced(Platform::POSIX, false), wanted(&["old", "", "00000000", "contents"]));
    assert_eq!(replaced(Platform::POSIX, true), wanted(&["old", "contents"]));
}

/// Only a renaming that replaces a file brings the contents along.
#[test]
fn a_file_that_gets_a_free_name_may_be_empty() {
    let named = |platform, sync: bool| {
        let mut run = Run::new(platform, &[]);
        run.create("/d/new").write("/d/new", 0, b"contents").sync("/d");
        if sync {
            run.sync("/d/new");
        }
        states(&run.rename("/d/new", "/d/f").sync("/d").run(), "/d/f")
    };
    for platform in Platform::OF_FILES {
        let empty = Some(String::new());
        assert!(named(platform, false).contains(&empty), "{platform}");
        assert!(!named(platform, true).contains(&empty), "{platform}");
    }
}

#[test]
fn a_new_name_is_durable_when_its_folder_was_synced() {
    for platform in Platform::OF_FILES {
        for folder in [false, true] {
            let mut run = Run::new(platform, &[("/d/f", b"old")]);
            run.create("/d/new").write("/d/new", 0, b"x").sync("/d/new").rename("/d/new", "/d/f");
            if folder {
                run.sync("/d");
            }
            let run = run.end().run();
            let outcome = check(&run, |tree, image| match &tree["/d/f"] {
                Entry::File(bytes) if image.ended == 1 && bytes != b"x" => Err("the old file is back".into()),
                _ => Ok(()),
            });
            assert_eq!(outcome.findings.len(), usize::from(!folder), "{platform} {folder}");
            for finding in &outcome.findings {
                let story = finding.story(&run.history).join("; ");
                assert!(
                    story.contains("the rename of `new` to `f` by") && story.contains("no sync covers it"),
                    "{story}"
                );
                assert!(story.contains("when region 1 had ended"), "{story}");
                // The token leads there again.
                let text = finding.token.to_string();
                let checker = Checker::new(&run.history, &run.contents);
                let mut judge = Judge {
                    disk: run.disk.clone(),
                    judge: |tree: &Tree, image: &Image<'_>| match &tree["/d/f"] {
                        Entry::File(bytes) if image.ended == 1 && bytes == b"old" => {
                            Err("the old file is back".into())
                        }
                        _ => Ok(()),
                    },
                };
                let again = checker.replay(&text.parse().expect("a token"), &mut judge).expect("it fits");
                assert_eq!(again.map(|again| again.missing), Some(finding.missing.clone()));
            }
        }
    }
}

#[test]
fn names_that_have_nothing_to_do_with_each_other() {
    let made = |platform| {
        let run = Run::new(platform, &[("/c", b"")]).create("/a").create("/b").unlink("/c").run();
        let mut states = BTreeSet::new();
        check(&run, |tree, _| {
            states.insert(tree.keys().cloned().collect::<Vec<_>>().join(" "));
            Ok(())
        });
        states
    };
    let all = ["", "/a", "/b", "/c", "/a /b", "/a /c", "/b /c", "/a /b /c"].map(str::to_owned);
    assert_eq!(made(Platform::POSIX), BTreeSet::from(all));
    let in_order = ["/c", "/a /c", "/a /b /c", "/a /b"].map(str::to_owned);
    assert_eq!(made(Platform::EXT4), BTreeSet::from(in_order));
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    for platform in Platform::OF_FILES {
        let mut run = Run::new(platform, &[("/f", b"secret words")]);
        let run = run.write("/f", 0, b"public").truncate("/f", 3).truncate("/f", 12).run();
        let states = states(&run, "/f");
        let ends = |end: &str| states.iter().flatten().any(|state| state.ends_with(end));
        assert!(ends(" words") && ends("000000000"), "{states:?}");
        assert!(
            states.iter().flatten().all(|state| state.len() < 12 || ends(" words") || ends("000")),
            "{states:?}"
        );
        let mixed =
            |state: &&String| state.len() == 12 && state.contains('0') && !state.ends_with("000000000");
        assert_eq!(states.iter().flatten().find(mixed), None);
    }
}

#[test]
fn blocks_that_are_given_up_are_not_seen_as_zeros() {
    let mut run = Run::new(Platform::BTRFS, &[("/log", b"entries")]);
    let run = run.write("/log", 7, b" more").truncate("/log", 0).write("/log", 0, b"new").run();
    assert_eq!(states(&run, "/log"), wanted(&["entries", "entries more", "", "new"]));
}

#[test]
fn a_thread_begins_behind_what_its_maker_did() {
    for (recorded, findings) in [(true, 0), (false, 1)] {
        for platform in Platform::OF_FILES {
            let child = ThreadId(1);
            let mut run = Run::new(platform, &[("/log", b"old"), ("/done", b"0")]);
            run.write("/log", 0, b"new").sync("/log");
            if recorded {
                run.push(Op::Spawn { child, seq: 1 }, &[]);
            }
            run.push_by(child, Op::ThreadStart { seq: 2 }, &[]);
            let file = run.name("/done");
            run.push_by(child, Op::FileWrite { file, offset: 0, len: 1 }, b"1");
            let outcome = check(&run.run(), |tree, _| match (&tree["/done"], &tree["/log"]) {
                (Entry::File(done), Entry::File(log)) if done == b"1" && log != b"new" => Err("early".into()),
                _ => Ok(()),
            });
            assert_eq!(outcome.findings.len(), findings, "{platform}");
        }
    }
}

#[test]
fn who_reads_a_mapping_comes_behind_who_stored_to_it() {
    for (reads, findings) in [(true, 0), (false, 1)] {
        for platform in Platform::OF_FILES {
            let other = ThreadId(1);
            let mut run = Run::new(platform, &[("/a", &[0; 8192]), ("/b", &[0; 512])]);
            // Two mappings of two files, one behind the other, which one call syncs.
            let [a, b] = ["/a", "/b"].map(|path| run.name(path));
            run.push_by(other, Op::ThreadStart { seq: 1 }, &[]);
            run.push(Op::Map { addr: 0x10000, len: 4096, name: b }, &[]);
            run.push(Op::Map { addr: 0x11000, len: 8192, name: a }, &[]);
            run.push(Op::Store { addr: 0x10FFC, len: 8 }, &[1; 8]);
            run.push(Op::MapSync { addr: 0x10FFC, len: 8 }, &[]);
            run.push(Op::Store { addr: 0x12000, len: 8 }, &[2; 8]);
            if reads {
                run.push_by(other, Op::Load { addr: 0x12000, len: 8 }, &[]);
            }
            run.push_by(other, Op::Store { addr: 0x12800, len: 8 }, &[3; 8]);
            let outcome = check(&run.run(), |tree, _| match &tree["/a"] {
                Entry::File(bytes) if bytes[4096 + 2048] == 3 && bytes[..4] != [1; 4] => Err("early".into()),
                _ => Ok(()),
            });
            assert_eq!(outcome.findings.len(), findings, "{platform}");
        }
    }
}

#[test]
fn stores_to_a_mapping_are_durable_when_their_pages_were_synced() {
    for (len, findings) in [(512, 1), (4096, 0)] {
        for platform in IN_PLACE {
            let mut run = Run::new(platform, &[("/f", &[0; 8192])]);
            let name = run.name("/f");
            run.push(Op::Map { addr: 0x10000, len: 4096, name }, &[]);
            run.push(Op::MapOffset { addr: 0x10000, offset: 4096 }, &[]);
            run.push(Op::Store { addr: 0x10000, len: 8 }, &[1; 8]);
            run.push(Op::Store { addr: 0x10200, len: 8 }, &[2; 8]);
            run.push(Op::MapSync { addr: 0x10000, len }, &[]);
            let run = run.end().run();
            let outcome = check(&run, |tree, image| match &tree["/f"] {
                Entry::File(bytes) if image.ended == 1 && bytes[4608] != 2 => Err("lost".into()),
                Entry::File(bytes) if image.ended == 1 && bytes[4096] != 1 => {
                    Err("lost what was synced".into())
                }
                _ => Ok(()),
            });
            assert_eq!(outcome.findings.len(), findings, "{platform} {len}");
            assert!(outcome.findings.iter().all(|finding| finding.message == "lost"));
        }
    }
}

#[test]
fn a_synchronous_write_waits_for_its_own_bytes() {
    for platform in IN_PLACE {
        let mut run = Run::new(platform, &[("/f", &[0; 2048])]);
        run.write("/f", 0, b"data").write("/f", 1024, b"meta");
        let file = run.name("/f");
        run.push(Op::FileRangeSync { file, offset: 1024, len: 4, data_only: true }, &[]);
        let outcome = check(&run.end().run(), |tree, image| match &tree["/f"] {
            Entry::File(bytes) if image.ended == 1 && &bytes[1024..1028] != b"meta" => Err("meta".into()),
            Entry::File(bytes) if image.ended == 1 && &bytes[..4] != b"data" => Err("data".into()),
            _ => Ok(()),
        });
        let messages: Vec<&str> = outcome.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, ["data"], "{platform}");
    }
}

#[test]
fn folders_take_their_files_with_them() {
    let mut run = Run::new(Platform::EXT4, &[]);
    let folder = run.name("/d");
    run.push(Op::FileCreate { file: folder, folder: true }, &[]);
    run.create("/d/f")
        .write("/d/f", 0, b"x")
        .sync("/d/f")
        .rename("/d", "/e")
        .write("/e/f", 0, b"y")
        .sync("/e");
    let mut states = BTreeSet::new();
    check(&run.run(), |tree, _| {
        states.insert(tree.keys().cloned().collect::<Vec<_>>().join(" "));
        Ok(())
    });
    assert_eq!(states, BTreeSet::from(["", "/d", "/d /d/f", "/e /e/f"].map(str::to_owned)));
}

/// What a program may do to three files.
#[derive(Clone, Debug)]
enum Call {
    Create(usize),
    Write(usize, u64, Vec<u8>),
    Truncate(usize, u64),
    Rename(usize, usize),
    Unlink(usize),
    Sync(usize),
    SyncFolder,
}

fn call() -> impl Strategy_<Value = Call> {
    let bytes = prop::collection::vec(1u8..=255, 1..700);
    prop_oneof![
        2 => (0usize..3).prop_map(Call::Create),
        4 => (0usize..3, 0u64..6000, bytes).prop_map(|(file, at, bytes)| Call::Write(file, at, bytes)),
        1 => (0usize..3, 0u64..6000).prop_map(|(file, len)| Call::Truncate(file, len)),
        1 => (0usize..3, 0usize..3).prop_map(|(from, to)| Call::Rename(from, to)),
        1 => (0usize..3).prop_map(Call::Unlink),
        1 => (0usize..3).prop_map(Call::Sync),
        1 => Just(Call::SyncFolder),
    ]
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn with_nothing_lost_the_disk_is_what_the_calls_made(
        calls in prop::collection::vec(call(), 0..20), platform in prop::sample::select(&Platform::OF_FILES[..]),
    ) {
        const PATHS: [&str; 3] = ["/d/a", "/d/b", "/d/c"];
        let mut run = Run::new(platform, &[("/d/a", b"before")]);
        let mut model = Tree::from([("/d".into(), Entry::Folder), ("/d/a".into(), Entry::File(b"before".to_vec()))]);
        // Nothing is done to a file that is not there: the kernel would not have it either.
        for call in calls {
            match call {
                Call::Create(at) if !model.contains_key(PATHS[at]) => {
                    run.create(PATHS[at]);
                    model.insert(PATHS[at].into(), Entry::File(Vec::new()));
                }
                Call::Write(at, offset, bytes) => {
                    let Some(Entry::File(old)) = model.get_mut(PATHS[at]) else { continue };
                    let end = offset as usize + bytes.len();
                    old.resize(old.len().max(end), 0);
                    old[offset as usize..end].copy_from_slice(&bytes);
                    run.write(PATHS[at], offset, &bytes);
                }
                Call::Truncate(at, len) => {
                    let Some(Entry::File(old)) = model.get_mut(PATHS[at]) else { continue };
                    old.resize(len as usize, 0);
                    run.truncate(PATHS[at], len);
                }
                Call::Rename(from, to) if from != to => {
                    let Some(moved) = model.remove(PATHS[from]) else { continue };
                    model.insert(PATHS[to].into(), moved);
                    run.rename(PATHS[from], PATHS[to]);
                }
                Call::Unlink(at) if model.remove(PATHS[at]).is_some() => drop(run.unlink(PATHS[at])),
                Call::Sync(at) if model.contains_key(PATHS[at]) => drop(run.sync(PATHS[at])),
                Call::SyncFolder => drop(run.sync("/d")),
                _ => {}
            }
        }
        for path in PATHS {
            if model.contains_key(path) {
                run.sync(path);
            }
        }
        let run = run.sync("/d").end().run();
        // Behind the last syncs nothing can be lost, so that every image with the mark is the whole disk.
        let mut checker = Checker::new(&run.history, &run.contents);
        checker.strategy = Strategy::Random;
        checker.bounds = Bounds { per_cut: 40, ..Bounds::default() };
        let mut complete = 0;
        checker.run(&mut Judge { disk: run.disk.clone(), judge: |tree: &Tree, image: &Image<'_>| {
            if image.ended == 1 {
                complete += 1;
                assert_eq!(tree, &model);
            }
            Ok(())
        }});
        prop_assert!(complete > 0);
    }
}

/// The stories of what is found if recovery demands, once region 1 has ended, that `/f` is this.
fn stories(run: &FilesRun, wanted: &[u8]) -> Vec<String> {
    let outcome = check(run, |tree, image| match tree.get("/f") {
        Some(Entry::File(bytes)) if bytes == wanted => Ok(()),
        _ if image.ended == 0 => Ok(()),
        _ => Err("lost".into()),
    });
    let text = outcome.findings.iter().map(|finding| finding.story(&run.history).join("; "));
    text.map(|text| text.replace(" by unknown site", "")).collect()
}

#[test]
fn the_story_of_a_torn_write_says_which_bytes_are_lost() {
    let before = [b'a'; 4096];
    let mut wanted = before;
    wanted[100..2100].fill(b'b');
    for platform in IN_PLACE {
        let run = Run::new(platform, &[("/f", &before)]).write("/f", 100, &[b'b'; 2000]).run();
        let outcome = check(&run, |tree, _| match &tree["/f"] {
            Entry::File(bytes) if bytes[..512] == before[..512] || *bytes == wanted => Ok(()),
            Entry::File(bytes) if bytes[512..] != before[512..] => Ok(()),
            _ => Err("torn".into()),
        });
        let [finding] = &outcome.findings[..] else { panic!("{platform}: {:?}", outcome.findings) };
        let story = finding.story(&run.history).join("; ").replace(" by unknown site", "");
        assert_eq!(
            story,
            "bytes 412 to 1999 of the 2000 B written to f at 100 (thread 0) were not durable: \
             no sync covers it; \
             when bytes 0 to 411 of the same write were",
            "{platform}"
        );
    }
}

#[test]
fn a_call_within_a_sector_is_reported_whole_though_half_of_it_would_fail() {
    let mut calls = Run::new(Platform::EXT4, &[("/f", &[b'a'; 16])]);
    let run = calls.write("/f", 4, b"newsign!").data_sync("/f").write("/f", 4, b"restored").run();
    let outcome = check(&run, |tree, _| match &tree["/f"] {
        Entry::File(bytes) if bytes[4] == b'n' => Err("no sign is good".into()),
        _ => Ok(()),
    });
    let story = outcome.findings[0].story(&run.history).join("; ");
    assert!(!story.contains("bytes ") && !story.contains("half"), "{story}");
}

#[test]
fn the_story_of_a_length_names_the_truncation_and_of_a_sync_its_file() {
    for platform in Platform::OF_FILES {
        let run = Run::new(platform, &[("/f", &[b'a'; 4096])]).truncate("/f", 0).end().sync("/f").run();
        assert_eq!(
            stories(&run, b""),
            ["the truncation of f from 4096 to 0 B (thread 0) was not durable: \
              f is synced only later, at unknown site; \
              when region 1 had ended"],
            "{platform}"
        );
        let run = Run::new(platform, &[("/f", b"")]).truncate("/f", 2).end().run();
        assert_eq!(
            stories(&run, &[0, 0]),
            ["the extension of f from 0 to 2 B (thread 0) was not durable: \
              no sync covers it; when region 1 had ended"],
            "{platform}"
        );
    }
}

#[test]
fn a_truncation_that_is_durable_in_part_is_not_missing_and_there_at_once() {
    let before = [b'a'; 1024];
    for (len, left) in [(0, 0), (100, 100)] {
        let run = Run::new(Platform::POSIX, &[("/f", &before)]).truncate("/f", len).run();
        let outcome = check(&run, |tree, _| match &tree["/f"] {
            Entry::File(bytes) if bytes.len() == 1024 && bytes[left] == 0 => Err("torn".into()),
            _ => Ok(()),
        });
        let story = outcome.findings[0].story(&run.history).join("; ").replace(" by unknown site", "");
        let length = format!("the length that the truncation of f from 1024 to {len} B sets (thread 0)");
        let zeros = format!("when zeros that the same truncation leaves at {left} were");
        assert_eq!(story, format!("{length} was not durable: no sync covers it; {zeros}"));
    }
    // Where it is one step, or all of it is lost, it is named as a whole.
    let run = Run::new(Platform::POSIX, &[("/f", &before)]).truncate("/f", 0).write("/f", 0, b"b").run();
    let outcome = check(&run, |tree, _| match &tree["/f"] {
        Entry::File(bytes) if bytes.len() == 1024 && bytes[0] == b'b' => Err("long".into()),
        _ => Ok(()),
    });
    let story = outcome.findings[0].story(&run.history).join("; ");
    assert!(story.starts_with("the truncation of f from 1024 to 0 B by"), "{story}");
    assert!(story.ends_with("when what was written to f at 0 by unknown site (thread 0) was"), "{story}");
}

#[test]
fn a_renaming_of_which_one_folder_is_synced_is_not_missing_and_there_at_once() {
    let mut calls = Run::new(Platform::POSIX, &[("/new/f", b"a"), ("/cur/g", b"b")]);
    let run = calls.rename("/new/f", "/cur/f").sync("/cur").sync("/new").run();
    let outcome = check(&run, |tree, _| match tree.contains_key("/new/f") && tree.contains_key("/cur/f") {
        true => Err("twice".into()),
        false => Ok(()),
    });
    let story = outcome.findings[0].story(&run.history).join("; ").replace(" by unknown site", "");
    assert_eq!(
        story,
        "the removal of the old name in the rename of `new/f` to `cur/f` (thread 0) was not durable: \
         new is synced only later, at unknown site; when the new name in the same rename was"
    );
}

#[test]
fn what_was_acknowledged_and_never_written_blames_no_other_store() {
    for platform in Platform::OF_FILES {
        let run = |later: bool| {
            let mut run = Run::new(platform, &[("/f", b""), ("/other", b"")]);
            run.end().write("/other", 0, b"unrelated").sync("/other");
            if later { run.write("/f", 0, b"record").run() } else { run.run() }
        };
        assert_eq!(
            stories(&run(true), b"record"),
            ["nothing that the run had stored by then holds it; \
              the next store to f is 6 B at 0 (thread 0); \
              when region 1 had ended"],
            "{platform}"
        );
        assert_eq!(
            stories(&run(false), b"record"),
            ["nothing that the run had stored by then holds it, \
              nor does any later store; when region 1 had ended"],
            "{platform}"
        );
    }
}
