//! Whatever the registers of a call and the memory behind them are, decoding ends without a panic, and in
//! little memory. `fuzz/fuzz_targets/tracer_calls.rs` gives the same entry point any bytes.

mod shape;

use proptest::prelude::{ProptestConfig, any, prop, proptest};
use shape::tried;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_call_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let found: usize = tried(&bytes).iter().map(String::len).sum();
        assert!(found < 16 << 20, "{found} B");
    }

    /// As above, mostly with calls and arguments that mean something.
    #[test]
    fn likely_calls_are_decoded(
        call in 0_u8..46,
        kinds in prop::array::uniform6((0_u8..8, 0_u8..40, 0_u8..2)),
        result in 0_u16..70,
        words in prop::collection::vec((any::<u16>(), any::<bool>()), 8..60),
    ) {
        let mut bytes = vec![call];
        bytes.extend(kinds.iter().flat_map(|&(kind, low, high)| [kind, low, high]));
        bytes.extend(result.to_le_bytes());
        for (number, address) in words {
            bytes.extend((u64::from(number) | if address { 0xAA << 56 } else { 0 }).to_le_bytes());
        }
        let found: usize = tried(&bytes).iter().map(String::len).sum();
        assert!(found < 16 << 20, "{found} B");
    }
}

/// The numbers of the calls are those of this machine.
#[test]
fn a_call_is_taken_for_what_it_is() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "0123456789").expect("it is written");
    let own = std::fs::OpenOptions::new().write(true).open(file.path()).expect("it opens");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&own) as u64;
    let text = b"abcdef";
    let found = tracer::decoded(libc::SYS_pwrite64, [fd, text.as_ptr() as u64, 6, 4, 0, 0], 6);
    let path = file.path().canonicalize().expect("its path");
    let wanted = format!("6 B at 4 of {}", path.display());
    assert!(found.contains(&wanted), "{found:?}");
}
