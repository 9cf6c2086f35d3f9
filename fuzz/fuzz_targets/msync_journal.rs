//! Any bytes, taken for the journal of failure-atomic `msync`: refused, or copied in bounded time and memory. They lie behind a
//! header that is right, unless the first of them is odd.
#![no_main]

use std::cell::RefCell;
use std::io::Result;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use sfr::journal::{Disk, Journal, Limits};

#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Disk for Bytes {
    fn read(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        let bytes = self.0.borrow();
        let there = bytes.get(at as usize..).unwrap_or_default();
        let got = there.len().min(to.len());
        to[..got].copy_from_slice(&there[..got]);
        Ok(got)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let (mut bytes, end) = (self.0.borrow_mut(), at as usize + from.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[at as usize..end].copy_from_slice(from);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.0.borrow_mut().resize(length as usize, 0);
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (disk, data) = (Bytes::default(), Bytes::default());
    if bytes.first().is_none_or(|first| first % 2 == 0) {
        _ = Journal::recover(disk.clone(), &data, Limits::default());
        disk.0.borrow_mut().resize(4096, 0);
    }
    disk.0.borrow_mut().extend_from_slice(bytes);
    _ = Journal::recover(disk, &data, Limits::default());
});
