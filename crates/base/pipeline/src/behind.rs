//! Write-behind: the last step of a sink on a thread of its own.
//!
//! Encoding the events of an observed program takes about as long as the program runs, and so does
//! compressing and writing the result. The two need not wait for each other. Pieces are moved, not copied,
//! and their memory is used again.

use std::sync::mpsc;
use std::thread::JoinHandle;

use event::SinkError;

use crate::queue::{Sender, queue};

/// Pieces under way.
const PIECES: usize = 16;

/// A thread that works on pieces in the order in which they are put.
pub struct WriteBehind<T> {
    name: &'static str,
    out: Option<Sender<T>>,
    used: mpsc::Receiver<T>,
    thread: Option<JoinHandle<Result<(), SinkError>>>,
}

impl<T: Default + Send + 'static> WriteBehind<T> {
    /// Starts the thread. `work` gets each piece and returns one whose memory may be used again, such as the
    /// piece itself; its first error ends the thread. `name` says in messages what is written.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn new(
        name: &'static str,
        mut work: impl FnMut(T) -> Result<T, SinkError> + Send + 'static,
    ) -> Result<Self, SinkError> {
        let (out, pieces) = queue(PIECES);
        let (back, used) = mpsc::channel();
        let work = move || {
            while let Some(piece) = pieces.recv() {
                // If the producer is done, nobody needs it.
                let _ = back.send(work(piece)?);
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|source| {
            SinkError::Io { context: format!("can't start a thread for the {name}"), source }
        })?;
        Ok(WriteBehind { name, out: Some(out), used, thread: Some(thread) })
    }

    /// Hands over a piece, at once if it is `urgent`; returns a used piece, or a new one if there is none.
    ///
    /// # Errors
    /// The error that ended the thread.
    pub fn put(&mut self, piece: T, urgent: bool) -> Result<T, SinkError> {
        if self.out.as_ref().is_none_or(|out| out.send(piece, urgent).is_err()) {
            self.finish()?;
            return Err(SinkError::Other(format!("the {} is closed", self.name)));
        }
        Ok(self.used.try_recv().unwrap_or_default())
    }
}

impl<T> WriteBehind<T> {
    /// Waits until the work on all pieces is done.
    ///
    /// # Errors
    /// The error that ended the thread.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        self.out = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl<T> Drop for WriteBehind<T> {
    fn drop(&mut self) {
        // A caller that drops it before `finish` has an error to report already.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn pieces_are_worked_on_in_order_and_come_back() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let out = Arc::clone(&written);
        let mut behind = WriteBehind::new("test file", move |mut piece: Vec<u32>| {
            out.lock().unwrap().append(&mut piece);
            Ok(piece)
        })
        .unwrap();
        let mut piece = Vec::with_capacity(100);
        let mut reused = 0;
        for number in 0..1000 {
            piece.push(number);
            piece = behind.put(piece, number % 100 == 0).unwrap();
            assert!(piece.is_empty());
            reused += u32::from(piece.capacity() > 0);
        }
        behind.finish().unwrap();
        assert_eq!(*written.lock().unwrap(), (0..1000).collect::<Vec<_>>());
        assert!(reused > 900, "{reused}");
        assert_eq!(behind.put(piece, true).unwrap_err().to_string(), "the test file is closed");
    }

    #[test]
    fn an_error_of_the_thread_reaches_the_producer() {
        let mut behind = WriteBehind::new("test file", |number: u32| {
            if number < 100 { Ok(number) } else { Err(SinkError::Other("full".to_owned())) }
        })
        .unwrap();
        let error = (0..10_000).find_map(|number| behind.put(number, false).err());
        assert_eq!(error.unwrap().to_string(), "full");
    }
}
