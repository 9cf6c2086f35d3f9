//! What `strandline trace` prints as JSON says what the text says, and the stored bytes besides.

use crate::common::{Scratch, compile, dump, number, ok, record, stdout, strandline};
use serde_json::Value;

fn objects(scratch: &Scratch, options: &[&str]) -> Vec<Value> {
    let mut command = strandline();
    command.args(["trace", "dump", "--json"]).args(options).arg(scratch.path("t.slt"));
    let text = stdout(&ok(&mut command));
    text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect()
}

#[test]
fn a_dump_as_json_has_the_events_of_the_text_and_their_bytes() {
    let scratch = Scratch::new();
    scratch.file(
        "a.c",
        r"
#include <immintrin.h>
#include <pthread.h>
#include <stdlib.h>
volatile long a[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *argument) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 50; i++) a[i] = 0x1122334455667700 + i;
    pthread_mutex_unlock(&lock);
    return argument;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, work, NULL);
    pthread_join(other, NULL);
    _mm_clflush((void *)&a[0]);
    _mm_mfence();
    free((void *)malloc(100));
    return a[7] == 0;
}
",
    );
    compile(scratch.dir(), "cc", "-O2 -g -pthread -o a a.c");
    record(&scratch, &["--values"], &["./a"]);
    let whole = objects(&scratch, &[]);
    let lines = dump(&scratch.path("t.slt"));
    assert_eq!(whole.len(), lines.len());
    for (at, (object, line)) in whole.iter().zip(&lines).enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(number(object, "event"), at as u64);
        assert_eq!(format!("T{}", number(object, "thread")), words[0], "{line}");
        assert_eq!(object["op"], words[1], "{line}");
        if let Some(addr) = object["addr"].as_u64() {
            assert_eq!(format!("{addr:#x}"), words[2], "{line}");
        }
        match object["label"].as_str() {
            Some(label) => assert!(line.ends_with(label), "{line}"),
            None => assert!(!line.contains("a.c:"), "{line}"),
        }
        let stored = object["op"] == "store" || object["op"] == "ntstore";
        let hexadecimal = object["value"].as_str().map(str::len);
        assert_eq!(hexadecimal, stored.then(|| 2 * number(object, "len") as usize), "{line}");
    }
    let in_loop =
        whole.iter().filter(|o| o["label"].as_str().is_some_and(|label| label.starts_with("work (")));
    let values: Vec<&str> = in_loop.filter_map(|object| object["value"].as_str()).collect();
    assert_eq!((values.len(), values[0], values[49]), (50, "0077665544332211", "3177665544332211"));

    assert_eq!(objects(&scratch, &["--from", "20", "--limit", "30"]), whole[20..50]);
    let own: Vec<&Value> = whole.iter().filter(|object| object["thread"] == 1).collect();
    let window = objects(&scratch, &["--thread", "1", "--from", "10", "--limit", "5"]);
    for (object, same) in window.iter().zip(&own[10..15]) {
        assert_eq!(
            (&object["op"], &object["addr"], &object["value"]),
            (&same["op"], &same["addr"], &same["value"])
        );
    }
    assert_eq!(window.len(), 5);
}

#[test]
fn an_import_tells_what_it_made() {
    let scratch = Scratch::new();
    scratch.file("l.txt", "I  100,3\n L 10,8\n S 18,4\nI  103,2\n M 20,4\n");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["trace", "import", "--json", "-o", "t.slt", "l.txt"]);
    let reported: Value = serde_json::from_slice(&ok(&mut command).stdout).expect("JSON");
    let wanted = [("events", 4), ("instructions", 2), ("lines", 5)];
    for (key, value) in wanted {
        assert_eq!(number(&reported, key), value, "{key}: {reported:#}");
    }
    assert_eq!(reported["file"], "t.slt");
    let bytes = std::fs::metadata(scratch.path("t.slt")).expect("the trace is there").len();
    assert_eq!(number(&reported, "bytes"), bytes);
    assert_eq!(objects(&scratch, &[]).len(), 4);
}
