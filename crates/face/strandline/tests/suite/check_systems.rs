//! The same programs on the models of several file systems: what each forgives.

use std::fs;

use crate::common::{Scratch, stdout, strandline};

/// Whether something is found.
fn found(scratch: &Scratch, options: &str, recover: &str, program: &str) -> bool {
    let folder = scratch.path("d");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir(&folder).expect("the folder is made");
    fs::write(folder.join("f"), [b'0'; 4096]).expect("the file is written");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d"]).args(options.split_whitespace());
    let output = command.args(["--recover", recover, "--", "sh", "-c", program]).output().expect("it runs");
    match output.status.code() {
        Some(0) => false,
        Some(1) => true,
        _ => panic!("{options}: {}{}", stdout(&output), String::from_utf8_lossy(&output.stderr)),
    }
}

fn on_all(scratch: &Scratch, recover: &str, program: &str) -> Vec<&'static str> {
    let systems = ["posix", "ext4", "ext4-writeback", "xfs", "btrfs", "zfs"];
    let wrong = systems
        .into_iter()
        .filter(|system| found(scratch, &format!("--platform {system}"), recover, program));
    wrong.collect()
}

#[test]
fn each_file_system_forgives_what_its_rules_say() {
    let scratch = Scratch::new();
    // Replaced without a sync: ext4 with data=ordered writes the new one first.
    scratch.file("whole.sh", "[ -s \"$1/f\" ] || { echo empty; exit 1; }\n");
    let replaced = "cp d/f d/new; mv d/new d/f";
    assert_eq!(
        on_all(&scratch, "sh whole.sh POOL", replaced),
        ["posix", "ext4-writeback", "xfs", "btrfs", "zfs"]
    );
    assert!(on_all(&scratch, "sh whole.sh POOL", "cp d/f d/new; sync d/new; mv d/new d/f").is_empty());
    // A new file that was synced, whose folder was not: only POSIX loses its name.
    scratch.file(
        "named.sh",
        "! grep -q saved \"$STRANDLINE_STDOUT\" || [ -s \"$1/new\" ] || { echo lost; exit 1; }\n",
    );
    assert_eq!(on_all(&scratch, "sh named.sh POOL", "cp d/f d/new; sync d/new; echo saved"), ["posix"]);
    // Two names that have nothing to do with each other: a journal keeps their order.
    scratch.file("order.sh", "[ -e \"$1/first\" ] || [ ! -e \"$1/second\" ] || { echo order; exit 1; }\n");
    assert_eq!(on_all(&scratch, "sh order.sh POOL", "mkdir d/first; mkdir d/second"), ["posix", "btrfs"]);
}

#[test]
fn sectors_of_a_page_tear_no_page() {
    let scratch = Scratch::new();
    scratch.file("torn.sh", "case \"$(tr -s 01 < \"$1/f\")\" in 0|1) ;; *) echo torn; exit 1 ;; esac\n");
    let program =
        "head -c 4096 /dev/zero | tr '\\0' 1 | dd of=d/f conv=notrunc bs=4096 iflag=fullblock status=none";
    let torn = |options: &str| found(&scratch, options, "sh torn.sh POOL", program);
    assert!(torn("--platform ext4") && torn("--platform ext4 --sector 512"));
    assert!(!torn("--platform ext4 --sector 4096") && !torn("--platform posix-4k"));
    assert!(!torn("--platform btrfs"), "a block is copied on write");
}
