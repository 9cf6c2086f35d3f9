//! Replies that clients leave unread.

use serve::Options;

use crate::servers::{Client, ours_with};

fn request(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Who leaves most unread is dropped, and not who asks for what is then too much. A connection takes some MiB
/// that no longer count.
#[test]
fn who_leaves_most_unread_is_dropped() {
    const MIB: usize = 1 << 20;
    let address = ours_with(Options { queued_all: 40 * MIB, ..Options::default() });
    let [mut slow, mut other] = [(); 2].map(|()| Client::connect(address, false));
    let long = "x".repeat(MIB);
    assert_eq!(other.ask(&request(&["SET", "long", &long])), b"+OK\r\n");
    let mut asked = vec![request(&["GET", "long"]); 38];
    asked.push(request(&["SET", "done", "1"]));
    slow.send(&asked);
    while other.ask(&request(&["GET", "done"])) != b"$1\r\n1\r\n" {}
    // Together it is too much, and the slow one has left more.
    other.send(&vec![request(&["GET", "long"]); 20]);
    for _ in 0..20 {
        assert_eq!(other.receive().len(), MIB + 12);
    }
    assert!(slow.rest() < 38 * MIB as u64, "it got all of it");
    assert_eq!(other.ask(&request(&["GET", "done"])), b"$1\r\n1\r\n");
}
