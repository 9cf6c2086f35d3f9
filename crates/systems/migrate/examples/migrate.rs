//! Saves and restores: `migrate save PID DIR [keep]`, `migrate restore DIR`.

use std::path::Path;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["save", pid, folder, ref rest @ ..] => {
            let options = migrate::inspect::Options { close_connections: rest.contains(&"close") };
            let leave_running = rest.contains(&"keep");
            let how = migrate::freeze::Checkpoint { leave_running, options, no_sync: true };
            match pid.parse().map(|pid| migrate::freeze::checkpoint(pid, Path::new(folder), &how)) {
                Ok(Ok(times)) => eprintln!("{times:?}"),
                Ok(Err(error)) => eprintln!("{error}"),
                Err(error) => eprintln!("{pid}: {error}"),
            }
        }
        ["restore", folder] => match migrate::restore::restore(Path::new(folder)) {
            Ok(restored) => {
                eprintln!("{restored:?}");
                let status = migrate::remote::wait(restored.pid);
                eprintln!("ended: {status:?}");
            }
            Err(error) => eprintln!("{error}"),
        },
        _ => eprintln!("migrate save PID DIR [keep] [close] | migrate restore DIR"),
    }
}
