//! `check --files` of programs that nobody recompiled: shell, C with a mapped file, Python's SQLite. Each fault has a
//! twin without it, of which nothing may be said.

use std::process::{Command, Output};

use crate::common::{Scratch, stdout, strandline};

fn check(scratch: &Scratch, options: &str, recover: &str, program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d"]).args(options.split_whitespace());
    command.args(["--recover", recover, "--"]).args(program);
    command.output().expect("it runs")
}

/// A folder `d` as the program finds it.
fn fresh(scratch: &Scratch, file: Option<&str>) {
    let folder = scratch.path("d");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    if let Some(text) = file {
        std::fs::write(folder.join("f"), text).expect("the file is written");
    }
}

#[test]
fn a_shell_script_that_renames_without_a_sync_is_found() {
    let scratch = Scratch::new();
    scratch.file(
        "save.sh",
        "set -e\necho new > d/f.tmp\n[ \"$1\" = no ] || sync d/f.tmp\nmv d/f.tmp d/f\n[ \"$1\" = no ] || sync d\necho saved\n",
    );
    scratch.file(
        "recover.sh",
        "case \"$(cat \"$1/f\")\" in old) ! grep -q saved \"$STRANDLINE_STDOUT\" ;; new) ;; *) exit 1 ;; esac\n",
    );
    for (way, findings) in [("no", 2), ("sync", 0)] {
        fresh(&scratch, Some("old\n"));
        let output = check(&scratch, "--platform posix", "sh recover.sh POOL", &["sh", "save.sh", way]);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(i32::from(findings > 0)), "{way}: {said}");
        if findings > 0 {
            assert!(said.contains("2 findings") && said.contains("when `saved` had been printed"), "{said}");
            assert!(said.contains("the rename of `f.tmp` to `f`"), "{said}");
        } else {
            assert!(said.contains("nothing found"), "{said}");
        }
    }
}

#[test]
fn a_flag_before_its_payload_in_a_mapped_file_is_found() {
    let scratch = Scratch::new();
    scratch.file(
        "map.c",
        r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open("d/p", O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 8192)) return 1;
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED || fsync(file)) return 1;
    strcpy(memory + 4096, "payload");
    if (count > 1) msync(memory, 8192, MS_SYNC);
    memory[0] = 1;
    msync(memory, 8192, MS_SYNC);
    return 0;
}
"#,
    );
    let mut gcc = Command::new("gcc");
    crate::common::ok(gcc.current_dir(scratch.dir()).args(["-O1", "-o", "map", "map.c"]));
    scratch.file(
        "recover.sh",
        "[ -s \"$1/p\" ] || exit 0\n[ \"$(head -c1 \"$1/p\" | od -An -tu1 | tr -d ' ')\" = 1 ] || exit 0\n\
         tail -c +4097 \"$1/p\" | head -c 7 | grep -q payload\n",
    );
    for (words, status, said) in
        [(&["./map"][..], 1, "store to a shared mapping"), (&["./map", "sync"][..], 0, "nothing found")]
    {
        fresh(&scratch, None);
        let output = check(&scratch, "", "sh recover.sh POOL", words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stdout(&output));
        assert!(stdout(&output).contains(said), "{words:?}: {}", stdout(&output));
    }
}

/// SQLite's documentation: with a rollback journal, `FULL` may lose a transaction that had been committed, since the
/// journal's removal is not synced; `EXTRA` syncs it.
#[test]
fn sqlite_from_python_keeps_what_its_documentation_promises() {
    let scratch = Scratch::new();
    let make = "import sqlite3\ndb=sqlite3.connect('d/x.db')\ndb.execute('create table t(k)')\ndb.commit()\n";
    let made =
        |scratch: &Scratch| Command::new("python3").current_dir(scratch.dir()).args(["-c", make]).status();
    scratch.file(
        "save.py",
        "import sqlite3,sys\ndb=sqlite3.connect('d/x.db')\ndb.execute('pragma synchronous='+sys.argv[1])\n\
         with db: db.execute('insert into t values(1)')\nprint('saved',flush=True)\n",
    );
    scratch.file(
        "recover.py",
        "import sqlite3,sys,os\nsaid='saved' in open(os.environ['STRANDLINE_STDOUT']).read()\n\
         db=sqlite3.connect(sys.argv[1]+'/x.db')\nrows=db.execute('select count(*) from t').fetchone()[0]\n\
         whole=db.execute('pragma integrity_check').fetchone()[0]=='ok'\nsys.exit(0 if whole and rows>=said else 1)\n",
    );
    for (level, status) in [("full", 1), ("extra", 0)] {
        fresh(&scratch, None);
        if !made(&scratch).is_ok_and(|status| status.success()) {
            println!("skipped: no python3 with sqlite3");
            return;
        }
        let program = ["python3", "save.py", level];
        let output = check(&scratch, "--images 20", "python3 recover.py POOL", &program);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(status), "{level}: {said}");
        assert!(status == 0 || said.contains("the removal of `x.db-journal`"), "{level}: {said}");
    }
}

#[test]
fn how_the_program_ended_is_said() {
    let scratch = Scratch::new();
    for (script, said) in
        [("echo a > d/x; exit 3", "exit status: 3"), ("echo a > d/x; kill -9 $$", "SIGKILL")]
    {
        fresh(&scratch, None);
        let output = check(&scratch, "", "true POOL", &["sh", "-c", script]);
        let error = crate::common::stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{error}");
        assert!(error.contains(said) && error.contains("everything it did up to then is kept"), "{error}");
    }
}
