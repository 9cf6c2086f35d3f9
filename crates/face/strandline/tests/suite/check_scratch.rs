//! Where images of ordinary files are laid out, and what they share: the images are the same everywhere.

use std::process::{Command, Output};

use crate::common::{Scratch, ok, stderr, strandline};
use crate::unmodified_shapes::python;
use serde_json::Value;

/// Changes the files of a folder in all ways, also a long one, by a seed.
const PROGRAM: &str = r#"
import os, random, sys
chance = random.Random(int(sys.argv[1]))
os.chdir('d')
for step in range(40):
    names = sorted(name for name in os.listdir('.') if os.path.isfile(name))
    name, other = chance.choice(names), f'n{step}'
    with open(name, 'r+b', buffering=0) as file:
        match chance.randrange(9):
            case 0 | 1:
                piece = bytes([48 + step]) * chance.choice([10, 5000])
                os.pwrite(file.fileno(), piece, chance.randrange(200000))
            case 2: os.ftruncate(file.fileno(), chance.choice([0, 1000, 150000]))
            case 3 | 7 | 8: os.fsync(file.fileno())
            case 4: os.rename(name, other)
            case 5: open(other, 'w').write('new')
            case 6 if len(names) > 3: os.remove(name)
os.sync()
"#;

/// Notes what it finds, and leaves everything else than that: what it changed must be mended for the next
/// image.
const RECOVERY: &str = r#"
import hashlib, mmap, os, sys
list_of_sums = os.path.abspath(sys.argv[2])
os.chdir(sys.argv[1])
found = hashlib.sha256()
for name in sorted(os.listdir('.')):
    found.update(name.encode() + b'\0')
    if os.path.isfile(name):
        found.update(open(name, 'rb').read())
with open(list_of_sums, 'a') as sums:
    sums.write(found.hexdigest() + '\n')
files = [name for name in sorted(os.listdir('.')) if os.path.isfile(name)]
for at, name in enumerate(files):
    size = os.path.getsize(name)
    with open(name, 'r+b', buffering=0) as file:
        match (at + found.digest()[0]) % 6:
            case 0: os.pwrite(file.fileno(), b'recovered', size // 2)
            case 1: os.ftruncate(file.fileno(), size // 3)
            case 2: os.pwrite(file.fileno(), b'longer', size + 9000)
            case 3: os.remove(name)
            case 4: os.rename(name, name + '.old')
            case 5 if size: mmap.mmap(file.fileno(), size)[size // 2] = 33
os.mkdir('made')
"#;

fn fresh(scratch: &Scratch) {
    std::fs::remove_dir_all(scratch.path("d")).ok();
    std::fs::remove_file(scratch.path("sums")).ok();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
    for (name, len) in [("long", 300_000), ("b", 70_000), ("c", 5000), ("e", 0)] {
        std::fs::write(scratch.path("d").join(name), vec![name.as_bytes()[0]; len]).expect("a file");
    }
}

/// What recovery found in each image, and how the check says that images share files.
fn found(scratch: &Scratch, output: &Output) -> (Vec<String>, String) {
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)));
    let sums = std::fs::read_to_string(scratch.path("sums"));
    let sums = sums.unwrap_or_else(|_| panic!("recovery did not run: {answer:#}"));
    let sums = sums.lines().map(str::to_owned).collect();
    (sums, answer["images_share"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned())
}

fn words(python: &str, seed: u32, place: &str) -> String {
    format!(
        "check --json --jobs 1 --images 4 --platform posix --files d {place} \
         --recover '{python} -S r.py POOL sums' -- {python} -S p.py {seed}"
    )
}

#[test]
fn images_are_the_same_wherever_they_are_laid_out() {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    scratch.file("p.py", PROGRAM);
    scratch.file("r.py", RECOVERY);
    for folder in ["disk", "mount"] {
        std::fs::create_dir(scratch.path(folder)).expect("a folder");
    }
    let mounts = [
        ("reflink", "mkfs.xfs -q i", "mount -o loop i mount"),
        ("reflink", "mkfs.btrfs -q i", "mount -o loop i mount"),
        ("written", "true", "mount -t tmpfs none mount"),
        (
            "written",
            "true",
            "mount -t tmpfs none disk; mkdir disk/low disk/up disk/work; \
             mount -t overlay -o lowerdir=disk/low,upperdir=disk/up,workdir=disk/work none mount",
        ),
    ];
    for seed in 1..=2 {
        let run = |script: &str, namespace: bool| {
            fresh(&scratch);
            let mut command = Command::new(if namespace { "unshare" } else { "sh" });
            command.current_dir(scratch.dir()).args(if namespace {
                &["-m", "sh", "-ec"][..]
            } else {
                &["-ec"]
            });
            command.args([script, "sh"]).arg(strandline().get_program()).output().expect("it runs")
        };
        let (wanted, _) = found(&scratch, &run(&format!("\"$1\" {}", words(&python, seed, "")), false));
        assert!(wanted.len() > 20, "{} images", wanted.len());
        let there = run(&format!("\"$1\" {}", words(&python, seed, "--scratch disk")), false);
        assert_eq!(found(&scratch, &there).0, wanted, "seed {seed}, on disk");
        for (share, make, mount) in mounts {
            std::fs::remove_file(scratch.path("i")).ok();
            ok(Command::new("truncate").current_dir(scratch.dir()).args(["-s", "320M", "i"]));
            let made = Command::new("sh").current_dir(scratch.dir()).args(["-c", make]).output();
            let probe =
                Command::new("unshare").current_dir(scratch.dir()).args(["-m", "sh", "-ec", mount]).output();
            if ![made, probe].iter().all(|done| done.as_ref().is_ok_and(|output| output.status.success())) {
                println!("skipped: {make}; {mount}");
                continue;
            }
            let there = run(&format!("{mount}; \"$1\" {}", words(&python, seed, "--scratch mount")), true);
            assert_eq!(
                found(&scratch, &there),
                (wanted.clone(), share.to_owned()),
                "seed {seed}: {make}; {mount}"
            );
        }
    }
}
