//! Folders of checkpoints and of migrations with damage of every kind in every part of every file: `restore --check`
//! refuses each, or what a restore makes of the folder is what it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fam::{FamFile, Owner};
use migrate::freeze::{Checkpoint, checkpoint};
use migrate::image::{Store, hash};
use migrate::live::{Lazy, Migrate, check, decided, migrate, restore_lazy};
use migrate::restore::exit_code;

#[path = "../../../../fuzz/damaged_state.rs"]
mod damaged_state;

mod common;

use common::{built, memory};

/// A small process whose memory changes all the time; it ends with what holds it.
struct Counts(Child);

impl Counts {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it was just built");
        std::thread::sleep(std::time::Duration::from_millis(100));
        Self(child)
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two checkpoints of a process in one folder, the second one of what had changed.
fn saved(program: &Path, folder: &Path) -> PathBuf {
    let (process, image) = (Counts::start(program), folder.join("image"));
    for _ in 0..2 {
        let how =
            Checkpoint { no_sync: true, leave_running: true, incremental: true, ..Checkpoint::default() };
        checkpoint(process.pid(), &image, &how).expect("it can be saved");
    }
    image
}

/// A process moved through a folder, and ended.
fn moved(program: &Path, folder: &Path, name: &str) -> PathBuf {
    let (process, fam) = (Counts::start(program), folder.join(name));
    let moved = migrate(process.pid(), &fam, &Migrate::default()).expect("it moves");
    let child = moved.child.expect("a target of ours");
    // SAFETY: our child.
    unsafe { libc::kill(child, libc::SIGKILL) };
    exit_code(child).expect("our child");
    fam
}

/// What a restore makes of a folder: all but pages and whose the tree is, and each page's hash by its owner and address.
type Content = (String, BTreeMap<(usize, u64), u64>);

fn content(folder: &Path) -> Content {
    let store = Store::new(folder);
    let image = store.read().expect("a state");
    let mut pages = BTreeMap::new();
    let mut put = |owner: usize, address: u64, bytes: &[u8]| {
        for (page, bytes) in (address..).step_by(4096).zip(bytes.chunks(4096)) {
            pages.insert((owner, page), hash(bytes));
        }
    };
    let own = image.processes.iter().map(|process| &process.pages);
    for (owner, runs) in own.chain(image.shared.iter().map(|shared| &shared.pages)).enumerate() {
        for run in runs {
            let mut bytes = vec![0; run.len as usize];
            let file = fs::File::open(store.path(&image.page_files[run.file])).expect("a file of pages");
            file.read_exact_at(&mut bytes, run.offset).expect("pages");
            put(owner, run.address, &bytes);
        }
    }
    for (owner, process) in image.processes.iter().enumerate() {
        let Some(name) = &process.lazy else { continue };
        let file = FamFile::open(&store.path(name), None).expect("a lazy-page file");
        for vector in file.layout().vectors() {
            let mut bytes = vec![0; vector.bytes as usize];
            file.memory().read(vector.offset, &mut bytes);
            put(owner, vector.start, &bytes);
        }
    }
    (format!("{image:?}, {:?}", decided(folder)), pages)
}

/// Where in a file it is worth a try: its parts, each as a range.
fn parts(path: &Path) -> Vec<(u64, u64)> {
    let len = fs::metadata(path).expect("there").len();
    if path.extension().is_none_or(|end| end != "lazy") {
        return if len == 0 { vec![] } else { vec![(0, len.min(64)), (0, len)] };
    }
    let file = FamFile::open(path, None).expect("a lazy-page file");
    let vectors = file.layout().vectors();
    let table = 4096 + 32 * vectors.len() as u64;
    let first = vectors.iter().map(|vector| vector.offset).min().unwrap_or(table);
    // Header, what is unused behind it, the first and the last entry of the table, all of it, what is unused
    // behind it, pages, and the end.
    let mut parts =
        vec![(0, 80), (80, 4096), (4096, 4128), (table - 32, table), (4096, table), (table, first)];
    parts.extend(vectors.iter().map(|vector| (vector.offset, vector.offset + vector.bytes)));
    parts.push((file.layout().end(), len));
    parts.retain(|(start, end)| start < end);
    parts
}

/// A folder as it was, and what has been tried.
struct Trials<'a> {
    folder: &'a Path,
    wanted: Content,
    refused: usize,
    accepted: usize,
}

impl<'a> Trials<'a> {
    fn new(folder: &'a Path) -> Self {
        check(folder).expect("it is whole");
        Self { folder, wanted: content(folder), refused: 0, accepted: 0 }
    }

    /// The folder has been changed: it is refused, or nothing of what matters has been.
    fn look(&mut self, what: &str) {
        match check(self.folder) {
            Err(error) => {
                assert!(error.to_string().len() > 20, "{what}: {error}");
                self.refused += 1;
            }
            Ok(_) => {
                assert!(content(self.folder) == self.wanted, "{what}: accepted, and it is another process");
                self.accepted += 1;
            }
        }
    }

    /// Each part of a file with some bits and bytes changed, and the file cut, longer, empty and gone.
    fn damage(&mut self, name: &str, random: &mut fastrand::Rng) {
        let path = self.folder.join(name);
        let whole = fs::read(&path).expect("there");
        let file = fs::File::options().write(true).open(&path).expect("there");
        for (start, end) in parts(&path) {
            let everywhere = end - start <= 128;
            let places: Vec<u64> = match everywhere {
                true => (start..end).collect(),
                false => [start, end - 1].into_iter().chain((0..6).map(|_| random.u64(start..end))).collect(),
            };
            for at in places {
                let was = whole[at as usize];
                let now = if random.bool() { was ^ 1 << random.u8(0..8) } else { !was };
                file.write_all_at(&[now], at).expect("written");
                self.look(&format!("{name}, byte {at}: {was:#x} is {now:#x}"));
                file.write_all_at(&[was], at).expect("written");
            }
        }
        drop(file);
        // A file of pages is empty if none of them had been written when the process was stopped.
        let len = whole.len();
        let cuts = [0, 1, len / 2, len.saturating_sub(1), random.usize(0..=len)];
        for cut in cuts.into_iter().filter(|cut| *cut < len) {
            fs::write(&path, &whole[..cut]).expect("written");
            self.look(&format!("{name}, cut at {cut}"));
        }
        fs::write(&path, [&whole[..], &[0; 100]].concat()).expect("written");
        self.look(&format!("{name}, longer"));
        fs::remove_file(&path).expect("there");
        self.look(&format!("{name}, gone"));
        fs::write(&path, &whole).expect("written");
    }

    /// A file in place of another one.
    fn swap(&mut self, name: &str, other: &Path) {
        let path = self.folder.join(name);
        let whole = fs::read(&path).expect("there");
        fs::copy(other, &path).expect("copied");
        self.look(&format!("{name} is {}", other.display()));
        fs::write(&path, &whole).expect("written");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        all.map(|one| one.file_name().to_str().expect("a name of ours").to_owned()).collect();
    names.sort();
    names
}

fn seeded() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn damage_anywhere_in_a_checkpoint_is_refused_or_does_not_matter() {
    let (folder, mut random) = (memory(), seeded());
    let Some(program) = built(folder.path(), "counts") else { return };
    let (image, other) = (saved(&program, folder.path()), saved(&program, &folder.path().join("other")));
    let mut trials = Trials::new(&image);
    assert_eq!(files(&image), ["1.pages", "2.pages", "state"]);
    for name in files(&image) {
        trials.damage(&name, &mut random);
        trials.swap(&name, &other.join(&name));
    }
    trials.swap("1.pages", &image.join("2.pages"));
    trials.swap("2.pages", &image.join("1.pages"));
    trials.swap("state", &image.join("1.pages"));
    println!("{} refused, {} accepted", trials.refused, trials.accepted);
    assert!(trials.refused > 100);
}

#[test]
fn damage_anywhere_in_what_a_migration_left_is_refused_or_does_not_matter() {
    let (folder, mut random) = (memory(), seeded());
    let Some(program) = built(folder.path(), "counts") else { return };
    let (fam, other) = (moved(&program, folder.path(), "one"), moved(&program, folder.path(), "two"));
    let mut trials = Trials::new(&fam);
    for name in files(&fam) {
        trials.damage(&name, &mut random);
    }
    for name in ["state", "eager.pages"] {
        trials.swap(name, &other.join(name));
    }
    println!("{} refused, {} accepted", trials.refused, trials.accepted);
    assert!(trials.refused > 200);
}

/// What a restore before its pages are read refuses, a check refuses by the same words.
#[test]
fn pages_of_another_process_and_a_tree_that_is_not_here_are_refused_alike() {
    let folder = memory();
    let Some(program) = built(folder.path(), "counts") else { return };
    let (fam, other) = (moved(&program, folder.path(), "one"), moved(&program, folder.path(), "two"));
    let lazy = |folder: &Path| {
        let files = files(folder);
        folder.join(files.iter().find(|name| name.ends_with(".lazy")).expect("pages"))
    };
    let (mine, decision) = (lazy(&fam), fam.join("decision"));
    let refused = |what: &str| {
        let check = check(&fam).expect_err(what).to_string();
        let restore = restore_lazy(&fam, Lazy::default()).map(drop).expect_err(what).to_string();
        assert!(check.contains(what) && check == restore, "{what}: {check}, but {restore}");
    };
    let whole = fs::read(&mine).expect("there");
    fs::copy(lazy(&other), &mine).expect("copied");
    refused("is of process ");
    // One with the same number, but an earlier or a later process.
    let owner = FamFile::open(&mine, None).expect("pages").owner();
    fs::write(&mine, &whole).expect("written");
    let (own, regions) = {
        let file = FamFile::open(&mine, None).expect("pages");
        (file.owner(), file.layout().regions().to_vec())
    };
    assert_ne!(own.pid, owner.pid);
    let later = FamFile::create(&mine, Owner { start: own.start + 1, ..own }, &regions).expect("room");
    for index in 0..later.layout().vectors().len() {
        later.set_present(index);
        later.seal(index);
    }
    assert!(later.complete());
    drop(later);
    refused("is of process ");
    fs::write(&mine, &whole).expect("written");
    for (word, what) in [
        ("source", "its migration was broken off"),
        ("tarGet", "`tarGet` is neither `source` nor `target`"),
        ("target\n", "is neither `source` nor `target`"),
        ("", "is neither"),
    ] {
        fs::write(&decision, word).expect("written");
        refused(what);
    }
    fs::remove_file(&decision).expect("there");
    refused("its migration was broken off");
    fs::write(&decision, "target").expect("written");
    check(&fam).expect("whole again");
}

#[test]
fn any_change_of_a_state_is_an_error_or_an_image() {
    let (folder, mut random) = (tempfile::tempdir().expect("a folder"), seeded());
    for seed in damaged_state::SEEDS {
        assert!(damaged_state::look(folder.path(), seed.as_bytes()), "a seed is whole");
    }
    let (mut errors, mut images) = (0, 0);
    for trial in 0..3000 {
        let changes = random.usize(1..4);
        let body = damaged_state::changed(trial, changes, &mut |most| random.usize(0..most));
        match damaged_state::look(folder.path(), &body) {
            true => images += 1,
            false => errors += 1,
        }
    }
    println!("{errors} errors, {images} images");
    assert!(errors > 300 && images > 300);
}
