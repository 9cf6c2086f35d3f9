//! What a trace of the built-in B+-tree workload takes on disk.

use trace::{Compression, Reader, Writer};
use workload::Workload;

#[test]
fn the_btree_workload_takes_less_than_4_bytes_per_event() {
    let workload = Workload::find("btree-fill").expect("it is built in");
    let mut params = workload.default_params();
    params.operations = 20_000;
    for compression in [Compression::None, Compression::Fast] {
        let mut file = Vec::new();
        let writer = Writer::new(&mut file, "memory").and_then(|writer| writer.compression(compression));
        let written = workload.record(&params, writer.expect("a writer"), pmem::Os::new);
        drop(written.expect("the workload runs"));
        let bytes = file.len() as u64;
        let events = Reader::new(std::io::Cursor::new(file), "memory").expect("a trace").info().events;
        assert!(events > 1_000_000, "{events} events");
        assert!(bytes < 4 * events, "{compression:?}: {bytes} bytes for {events} events");
        println!("{compression:?}: {bytes} bytes for {events} events");
    }
}
