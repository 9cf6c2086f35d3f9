//! Ways of writing memory out, on the file system of a folder: `writes FOLDER [BYTES]`.

use std::path::Path;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let bytes = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(64 << 20);
    match fam::study::writes(Path::new(&folder), bytes, 3) {
        Ok(found) => {
            for dump in &found.dumps {
                println!(
                    "{} MiB in {} ranges: pairs over writev {:.2}",
                    dump.bytes >> 20,
                    dump.ranges,
                    dump.ratio
                );
            }
            for stores in &found.stores {
                let flushed: Vec<String> = stores
                    .flushed_s
                    .iter()
                    .map(|(name, seconds)| format!("{name} {:.2}", seconds / stores.nt_s))
                    .collect();
                println!(
                    "{} KiB: over ntstore: store {:.2}, store and {}",
                    stores.bytes >> 10,
                    stores.store_s / stores.nt_s,
                    flushed.join(", ")
                );
            }
            for calls in &found.calls {
                println!(
                    "{} KiB a call: write over mmap {:.2}",
                    calls.bytes >> 10,
                    calls.write_s / calls.mapped_s
                );
            }
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
