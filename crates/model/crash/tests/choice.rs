//! Which images are tried where there are more than `--images` allows.

mod on_files;

use crash::files::Entry;
use crash::{Bounds, Checker, Platform};
use event::Op;
use on_files::{Judge, Run};

/// Bytes of each of three files, far more sectors than images.
const LEN: usize = 16 << 10;

/// A run that writes three files piece by piece and syncs none of them before the end.
fn run(platform: Platform) -> crash::files::FilesRun {
    let before = vec![b'-'; LEN];
    let files = ["/one", "/two", "/three"];
    let mut run = Run::new(platform, &files.map(|file| (file, &before[..])));
    for file in files {
        for piece in 0..LEN / 1024 {
            let name = run.name(file);
            let op = Op::FileWrite { file: name, offset: piece as u64 * 1024, len: 1024 };
            run.push(op, &[b'a'; 1024]);
        }
    }
    run.run()
}

/// All of one file is lost and all others survive, or the other way round: a log of which nothing is there
/// while the next one is.
#[test]
fn each_file_is_lost_and_kept_alone_however_few_images_there_are() {
    for platform in Platform::OF_FILES {
        let run = run(platform);
        for (file, alone) in
            [("/one", false), ("/two", false), ("/three", false), ("/one", true), ("/three", true)]
        {
            let mut checker = Checker::new(&run.history, &run.contents);
            checker.bounds = Bounds { per_cut: 16, ..Bounds::default() };
            let judge = |tree: &crash::files::Tree, _: &crash::Image<'_>| {
                let has = |path: &str, byte| match &tree[path] {
                    Entry::File(bytes) => bytes.iter().all(|&other| other == byte),
                    _ => false,
                };
                let mut others = ["/one", "/two", "/three"].into_iter().filter(|&other| other != file);
                let (own, rest) = if alone { (b'a', b'-') } else { (b'-', b'a') };
                match has(file, own) && others.all(|other| has(other, rest)) {
                    true => Err("met".to_owned()),
                    false => Ok(()),
                }
            };
            let outcome = checker.run(&mut Judge { disk: run.disk.clone(), judge });
            assert!(!outcome.findings.is_empty(), "{platform}: {file}, alone: {alone}");
            assert!(outcome.cut_short > 0, "{platform}: all images were tried, so this says nothing");
        }
    }
}
