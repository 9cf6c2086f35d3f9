//! A sink on another thread than its producer.
//!
//! Collecting events and consuming them cost about the same, and neither needs the other's result, so they run
//! side by side: a [`Relay`] copies batches into parcels and hands each over when it is full, a [`Delivery`] on
//! the other thread gives them to the real sink in the same order. Parcels travel back empty and are used again.
//! Few are under way: a producer that is faster than its consumer waits.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use event::{
    Batch, Capabilities, Definition, Event, NameId, Sink, SinkError, Site, SiteId, Source, ThreadId,
};

/// Events at which a parcel is handed over: large enough that handing over costs nothing per event, small enough to
/// stay in a second-level cache on its way.
const EVENTS_PER_PARCEL: usize = 8 << 10;
/// Bytes of stored values at which it is handed over, too.
const VALUE_BYTES_PER_PARCEL: usize = 1 << 20;
/// Parcels under way.
const PARCELS: usize = 8;

/// Batches one after the other.
#[derive(Default)]
struct Parcel {
    events: Vec<Event>,
    values: Vec<u8>,
    batches: Vec<Stretch>,
}

/// One batch of a parcel.
struct Stretch {
    thread: ThreadId,
    time_ns: u64,
    events_end: usize,
    values_end: usize,
}

enum Message {
    Begin(Source),
    Site(SiteId, Site),
    Name(NameId, String),
    Events(Parcel),
    Pause,
    Finish,
}

/// The producer's end.
pub struct Relay {
    out: SyncSender<Message>,
    empty: Receiver<Parcel>,
    parcel: Parcel,
}

/// The consumer's end.
pub struct Delivery {
    messages: Receiver<Message>,
    empty: Sender<Parcel>,
}

/// The two ends of a new relay.
#[must_use]
pub fn relay() -> (Relay, Delivery) {
    let (out, messages) = sync_channel(PARCELS);
    let (back, empty) = channel();
    let relay = Relay { out, empty, parcel: Parcel::default() };
    (relay, Delivery { messages, empty: back })
}

impl Relay {
    /// Hands over what is in the parcel, and then `message`.
    fn send(&mut self, message: Message) -> Result<(), SinkError> {
        self.send_parcel()?;
        self.out.send(message).map_err(|_| gone())
    }

    fn send_parcel(&mut self) -> Result<(), SinkError> {
        if self.parcel.batches.is_empty() {
            return Ok(());
        }
        let next = self.empty.try_recv().unwrap_or_default();
        let full = Message::Events(std::mem::replace(&mut self.parcel, next));
        self.out.send(full).map_err(|_| gone())
    }
}

/// The consumer stopped; why, it says itself.
fn gone() -> SinkError {
    SinkError::Other("the consumer of the events stopped".to_owned())
}

impl Sink for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    /// The far sink's needs are checked at its own `begin`.
    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.send(Message::Begin(source.clone()))
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.send(match definition {
            Definition::Site(id, site) => Message::Site(id, site.clone()),
            Definition::Name(id, name) => Message::Name(id, name.to_owned()),
        })
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.parcel.events.extend_from_slice(batch.events);
        self.parcel.values.extend_from_slice(batch.values);
        self.parcel.batches.push(Stretch {
            thread: batch.thread,
            time_ns: batch.time_ns,
            events_end: self.parcel.events.len(),
            values_end: self.parcel.values.len(),
        });
        if self.parcel.events.len() >= EVENTS_PER_PARCEL || self.parcel.values.len() >= VALUE_BYTES_PER_PARCEL
        {
            return self.send_parcel();
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.send(Message::Pause)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.send(Message::Finish)
    }
}

impl Delivery {
    /// Gives everything to `sink`, until the producer is done or gone.
    ///
    /// # Errors
    /// The sink's; the producer's next call fails then.
    pub fn run(self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        loop {
            match self.messages.recv() {
                Ok(Message::Begin(source)) => sink.begin(&source)?,
                Ok(Message::Site(id, site)) => sink.define(Definition::Site(id, &site))?,
                Ok(Message::Name(id, name)) => sink.define(Definition::Name(id, &name))?,
                Ok(Message::Events(parcel)) => self.unpack(parcel, sink)?,
                Ok(Message::Pause) => sink.pause()?,
                Ok(Message::Finish) => sink.finish()?,
                Err(_) => return Ok(()),
            }
        }
    }

    fn unpack(&self, mut parcel: Parcel, sink: &mut dyn Sink) -> Result<(), SinkError> {
        let (mut event, mut value) = (0, 0);
        for batch in &parcel.batches {
            sink.push(Batch {
                thread: batch.thread,
                time_ns: batch.time_ns,
                events: &parcel.events[event..batch.events_end],
                values: &parcel.values[value..batch.values_end],
            })?;
            (event, value) = (batch.events_end, batch.values_end);
        }
        parcel.events.clear();
        parcel.values.clear();
        parcel.batches.clear();
        // If the producer is done, nobody needs it.
        let _ = self.empty.send(parcel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{Collected, InstructionCounts, Op};

    use super::*;

    fn event(addr: u64) -> Event {
        Event { op: Op::Store { addr, len: 1 }, site: SiteId(1), instructions: 0 }
    }

    #[test]
    fn everything_arrives_in_order() {
        let (mut relay, delivery) = relay();
        let mut sink = Collected::default();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let source = Source::synthetic("test");
                relay.begin(&source).unwrap();
                for addr in 0..100_000 {
                    if addr % 1000 == 0 {
                        relay.define(Definition::Name(NameId(addr as u32), "name")).unwrap();
                    }
                    let (events, values) = (&[event(addr)], &[addr as u8]);
                    let thread = ThreadId((addr % 3) as u32);
                    relay.push(Batch { thread, time_ns: addr, events, values }).unwrap();
                }
                relay.finish().unwrap();
            });
            delivery.run(&mut sink).unwrap();
        });
        assert_eq!(sink.source.unwrap().instructions, InstructionCounts::Unknown);
        assert_eq!(sink.events.len(), 100_000);
        for (at, (thread, event)) in sink.events.iter().enumerate() {
            assert_eq!((thread.0 as usize, event.op.stored()), (at % 3, Some((at as u64, 1))));
            assert_eq!(sink.values[at], at as u8);
        }
        assert_eq!(sink.table.name(NameId(99_000)), Some("name"));
    }

    #[test]
    fn a_consumer_that_stops_stops_the_producer() {
        let (mut relay, delivery) = relay();
        drop(delivery);
        let events = vec![event(1); EVENTS_PER_PARCEL];
        assert!(relay.push(Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] }).is_err());
    }
}
