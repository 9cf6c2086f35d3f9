//! Saves, restores and moves, as the command line does: `migrate save PID DIR [keep] [close]`, `migrate restore DIR [lazy]`,
//! `migrate move PID DIR [socket] [map] [huge] [pcm] [precopy] [page]` (`page`: a fault brings one page).

use std::path::Path;

use migrate::live::{Lazy, Migrate, Way, restore_lazy};

fn lazy(words: &[&str]) -> Lazy {
    let medium = if words.contains(&"pcm") { fam::Medium::PCM } else { fam::Medium::DRAM };
    let grain = if words.contains(&"page") { fam::PAGE } else { Lazy::default().grain };
    Lazy { map: words.contains(&"map"), huge: words.contains(&"huge"), medium, grain, ..Lazy::default() }
}

fn main() -> migrate::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["save", pid, folder, ref rest @ ..] => {
            let options = migrate::inspect::Options {
                close_connections: rest.contains(&"close"),
                ..migrate::inspect::Options::default()
            };
            let leave_running = rest.contains(&"keep");
            let how =
                migrate::freeze::Checkpoint { leave_running, options, no_sync: true, ..Default::default() };
            eprintln!(
                "{:?}",
                migrate::freeze::checkpoint(pid.parse().unwrap_or(0), Path::new(folder), &how)?
            );
        }
        ["restore", folder, ref rest @ ..] => {
            let restored = if rest.contains(&"lazy") {
                restore_lazy(Path::new(folder), lazy(rest))?.0
            } else {
                migrate::restore::restore(Path::new(folder))?
            };
            eprintln!("{restored:?}, ended: {}", migrate::restore::exit_code(restored.pid)?);
        }
        ["move", pid, folder, ref rest @ ..] => {
            let way = if rest.contains(&"socket") { Way::Socket } else { Way::Fam };
            let how =
                Migrate { way, lazy: lazy(rest), precopy: rest.contains(&"precopy"), ..Migrate::default() };
            let moved = migrate::live::migrate(pid.parse().unwrap_or(0), Path::new(folder), &how)?;
            eprintln!("{moved:?}");
            eprintln!("ended: {}", migrate::restore::exit_code(moved.child.unwrap_or(0))?);
        }
        _ => eprintln!("migrate save PID DIR [keep] [close] | restore DIR [lazy] | move PID DIR [socket]"),
    }
    Ok(())
}
