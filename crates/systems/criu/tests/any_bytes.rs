//! Without a process: what is written reads back the same, and any change of it is an error or an image, never a panic.

mod small;

use std::fs;

use migrate::image::{FileKind, Store, VmaKind};

#[test]
fn an_image_reads_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = small::write(folder.path());
    let again = criu::read(folder.path()).expect("whole");
    let (ours, theirs) = (&image.processes[0], &again.processes[0]);
    assert_eq!((theirs.pid, theirs.group, theirs.umask, theirs.oom_score_adj), (77, 77, 18, -7));
    assert_eq!((&theirs.exe, &theirs.cwd, &theirs.itimers), (&ours.exe, &ours.cwd, &ours.itimers));
    assert_eq!(theirs.mm.bounds, ours.mm.bounds);
    let mut registers = ours.threads[0].registers.clone();
    registers[15] = u64::MAX;
    assert_eq!(theirs.threads[0].registers, registers);
    assert_eq!((theirs.threads[0].mask, theirs.threads[0].schedule), (5, [0, -3, 0]));
    assert_eq!((&theirs.threads[0].robust, theirs.threads[0].clear_tid), (&[0x1000, 24], 0x2000));
    assert_eq!(theirs.pages.len(), 1);
    assert_eq!((theirs.pages[0].address, theirs.pages[0].hash), (ours.pages[0].address, ours.pages[0].hash));
    for (vma, other) in theirs.vmas.iter().zip(&ours.vmas) {
        assert_eq!((vma.start, vma.end, vma.protection, &vma.advice), (other.start, other.end, 3, &vec![14]));
    }
    assert!(matches!(theirs.vmas[1].kind, VmaKind::Shared { .. }) && theirs.vmas[2].shared);
    assert_eq!(theirs.fds.len(), 7);
    for (fd, other) in theirs.fds.iter().zip(&ours.fds) {
        assert_eq!((fd.fd, fd.close_on_exec), (other.fd, other.close_on_exec));
        let (kind, wanted) =
            (&again.descriptions[fd.description].kind, &image.descriptions[other.description].kind);
        if !matches!(wanted, FileKind::Memory(_) | FileKind::Path { .. }) {
            assert_eq!(kind, wanted);
        }
    }
    assert_eq!(again.shared.iter().filter(|shared| shared.pages.len() == 1 && shared.len == 8192).count(), 2);
}

/// criu sets timers as it finds them: one that stood still because nobody had noticed that it expired would
/// do so for ever.
#[test]
fn a_timer_that_had_expired_unnoticed_is_written_as_one_that_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut image = small::write(folder.path());
    let timer =
        |set_flags, value| FileKind::Timer { clock: 1, ticks: 2, set_flags, value, interval: [0, 50] };
    image.descriptions[3].kind = timer(libc::TFD_TIMER_ABSTIME, [0; 2]);
    image.processes[0].itimers = [[0, 50, 0, 0], [1, 2, 0, 0], [0; 4]];
    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    criu::write(&image, &Store::new(&folder.path().join("within")), &other).expect("it can be written");
    let again = criu::read(&other).expect("whole");
    let process = &again.processes[0];
    let found = &again.descriptions[process.fds[3].description].kind;
    assert_eq!(*found, timer(0, [0, 50]), "what is left counts from now");
    assert_eq!(process.itimers, [[0, 50, 0, 50], [1, 2, 0, 0], [0; 4]]);
}

#[test]
fn any_change_is_an_error_or_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    small::write(folder.path());
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let files: Vec<_> = fs::read_dir(folder.path())
        .expect("the image")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some())
        .collect();
    let (mut errors, mut images) = (0, 0);
    for _ in 0..3000 {
        let path = random.choice(&files).expect("files");
        let whole = fs::read(path).expect("a file");
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.u8(0..8),
                2 => drop(bytes.drain(at..(at + random.usize(1..9)).min(bytes.len()))),
                _ => bytes.splice(at..at, (0..random.usize(1..9)).map(|_| random.u8(..))).for_each(drop),
            }
            if bytes.is_empty() {
                break;
            }
        }
        fs::write(path, &bytes).expect("written");
        match criu::read(folder.path()) {
            Ok(_) => images += 1,
            Err(error) => {
                errors += 1;
                assert!(error.to_string().len() > 20, "{error}");
            }
        }
        fs::write(path, &whole).expect("written");
    }
    println!("{errors} errors, {images} images");
    assert!(errors > 500 && images > 0);
}
