//! Any bytes behind the first line of a sweep's results: an error, or results that are read again as they were. The file is not touched by an error.
#![no_main]

use std::collections::BTreeMap;
use std::fs;

use libfuzzer_sys::fuzz_target;
use measure::{Header, Results, ResultsError};

fuzz_target!(|bytes: &[u8]| {
    let header = Header::new("a fuzzed sweep", BTreeMap::new());
    let path = std::env::temp_dir().join(format!("strandline-fuzz-results-{}", std::process::id()));
    // The first byte says whether the header is given, too.
    let (given, bytes) = bytes.split_first().map_or((&0, bytes), |(first, rest)| (first, rest));
    fs::write(&path, b"").expect("there is room");
    if given % 2 == 0 {
        drop(Results::open(&path, &header).expect("an empty file is a new one"));
    }
    let whole = [&fs::read(&path).expect("it was written"), bytes].concat();
    fs::write(&path, &whole).expect("there is room");
    match Results::open(&path, &header) {
        Ok(results) => {
            let found = results.measurements().to_vec();
            drop(results);
            let again = Results::open(&path, &header).expect("what is read is read again");
            assert_eq!(format!("{:?}", again.measurements()), format!("{found:?}"));
        }
        Err(ResultsError::Damaged { .. } | ResultsError::Different { .. }) => {
            assert_eq!(fs::read(&path).expect("it is there"), whole, "an error leaves the file as it is");
        }
        Err(error) => panic!("{error}"),
    }
    fs::remove_file(&path).expect("it is there");
});
