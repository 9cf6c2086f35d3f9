//! How fast the scanner is, beside Vectorscan where it is installed (libvectorscan-dev): by kind and number
//! of expressions, in processor time of one core. `cargo bench -p hare`; under `cargo test` it runs on little
//! text.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use hare::scan::Scanner;
use hare::{Expression, Reading};
use rustix::time::{ClockId, clock_gettime};

/// Seconds of processor time of this thread.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn word(random: &mut fastrand::Rng, letters: usize) -> String {
    (0..letters).map(|_| random.lowercase()).collect()
}

/// Expressions of a kind.
fn expressions(kind: &str, count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut one = || {
        let (a, b) = (word(&mut random, 7), word(&mut random, 7));
        match kind {
            "strings" => format!("{a}{b}"),
            "bounded repeats" => format!("{a}[^\\n]{{20,{}}}{b}", 60 + random.u32(0..200)),
            "dotstar" => format!("{a}.*{b}"),
            "classes" => format!("{a}[a-m]{{3}}[0-9x]+{b}"),
            _ => format!("[{}-z][0-9]{{2,4}}{}", &a[..1], &b[..2]),
        }
    };
    (0..count).map(|_| one()).collect()
}

/// Text of words and lines.
fn text(list: &[String], length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut text = Vec::with_capacity(length + 64);
    while text.len() < length {
        match random.u32(0..4000) {
            0 => {
                // The first word of an expression, now and then with the rest of a match.
                let one = list[random.usize(0..list.len())].as_bytes();
                text.extend(&one[..7.min(one.len())]);
                if random.u32(0..4) == 0 {
                    let between = ["", "abc9", "the rest of a match in between"][random.usize(0..3)];
                    text.extend(between.bytes());
                    text.extend(&one[one.len().saturating_sub(7)..]);
                }
            }
            1..400 => text.push(b'\n'),
            400..600 => text.extend(random.u32(0..100_000).to_string().bytes()),
            _ => {
                let letters = random.usize(2..9);
                text.extend(word(&mut random, letters).bytes());
            }
        }
        text.push(b' ');
    }
    text
}

/// Builds the other scanner, if its library is installed.
fn vectorscan(folder: &Path) -> Option<std::path::PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/vectorscan.c");
    let program = folder.join("vectorscan");
    let mut cc = Command::new("cc");
    cc.args(["-O2", source, "-I/usr/include/hs", "-o"]).arg(&program).arg("-lhs");
    let built = cc.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !built {
        println!("skipped: Vectorscan (apt-get install libvectorscan-dev)");
    }
    built.then_some(program)
}

fn main() {
    let bench = std::env::args().any(|argument| argument == "--bench");
    let length = if bench { 16 << 20 } else { 1 << 16 };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let other = vectorscan(folder);
    println!(
        "{:<16} {:>5} {:>10} {:>9} {:>12} {:>9}",
        "kind", "n", "matches", "GB/s", "Vectorscan", "matches"
    );
    for kind in ["strings", "bounded repeats", "dotstar", "classes", "no literal"] {
        for count in [1, 10, 100] {
            let list = expressions(kind, count);
            let text = text(&list, length);
            let read = |text: &String| Expression::read(text, Reading::default()).expect("it is accepted");
            let scanner =
                Scanner::new(&list.iter().map(read).collect::<Vec<_>>()).expect("they are accepted");
            let began = now();
            let mut stream = scanner.stream();
            let mut matches = 0u64;
            text.chunks(1 << 18).for_each(|piece| stream.feed(piece, |_| matches += 1));
            stream.finish(|_| matches += 1);
            let ours = text.len() as f64 / 1e9 / (now() - began);
            let (theirs, their_matches) = match &other {
                Some(program) => run_other(program, folder, &list, &text),
                None => ("-".to_owned(), "-".to_owned()),
            };
            println!("{kind:<16} {count:>5} {matches:>10} {ours:>9.2} {theirs:>12} {their_matches:>9}");
        }
    }
}

fn run_other(program: &Path, folder: &Path, list: &[String], text: &[u8]) -> (String, String) {
    let file = folder.join("text");
    std::fs::write(&file, text).expect("a file");
    let mut child = Command::new(program)
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("a pipe").write_all(list.join("\n").as_bytes()).expect("it reads");
    let printed = String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stdout).into_owned();
    match printed
        .split_once(' ')
        .and_then(|(matches, time)| Some((matches, time.trim().parse::<f64>().ok()?)))
    {
        Some((matches, time)) => (format!("{:.2}", text.len() as f64 / 1e9 / time), matches.to_owned()),
        None => ("failed".to_owned(), "-".to_owned()),
    }
}
