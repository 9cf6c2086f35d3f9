//! A sink that works on a thread of its own, so that several look at the same events at the same time.

use std::thread::JoinHandle;

use capture::{Relay, relay};
use event::{Batch, Capabilities, Definition, Sink, SinkError, Source};

/// Runs `S` aside. Its errors come with `finish`, or make an earlier call fail.
pub struct Aside<S> {
    name: &'static str,
    needs: Capabilities,
    relay: Option<Relay>,
    worker: Option<JoinHandle<(S, Result<(), SinkError>)>>,
    done: Option<S>,
}

impl<S: Sink + Send + 'static> Aside<S> {
    /// Starts the thread.
    pub fn new(mut sink: S) -> Self {
        let (relay, delivery) = relay();
        let (name, needs) = (sink.name(), sink.needs());
        let worker = std::thread::spawn(move || {
            let result = delivery.run(&mut sink);
            (sink, result)
        });
        Aside { name, needs, relay: Some(relay), worker: Some(worker), done: None }
    }

    /// Ends the thread; the error that stopped the sink, if one did.
    fn join(&mut self) -> Result<(), SinkError> {
        self.relay = None;
        let Some(worker) = self.worker.take() else { return Ok(()) };
        let (sink, result) = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.done = Some(sink);
        result
    }

    /// The sink, with all that it was given.
    pub fn into_inner(mut self) -> S {
        // An error was told by the call that it made fail.
        let _ = self.join();
        self.done.expect("a joined thread leaves its sink")
    }

    fn give(&mut self, send: impl FnOnce(&mut Relay) -> Result<(), SinkError>) -> Result<(), SinkError> {
        match self.relay.as_mut().map(send) {
            Some(Ok(())) => Ok(()),
            // Why the sink stopped says more than that it did.
            other => self.join().and(other.unwrap_or(Ok(()))),
        }
    }
}

impl<S: Sink + Send + 'static> Sink for Aside<S> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn needs(&self) -> Capabilities {
        self.needs
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.give(|relay| relay.begin(source))
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.give(|relay| relay.define(definition))
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.give(|relay| relay.push(batch))
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.give(Relay::pause)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.give(Relay::finish)?;
        self.join()
    }
}
