//! Fan-out: one stream to several sinks, each on a thread of its own.
//!
//! A [`Relay`] copies batches into parcels, or lends a parcel's memory to the producer. Every sink gets each
//! parcel, in the same order. Parcels are shared, not copied again, and used again once all sinks have seen
//! them. Some milliseconds' worth of events is under way: a producer that is faster than its slowest consumer
//! waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use event::{
    AnySink, Batch, BlockBatch, BlockShape, Capabilities, Definition, Event, NameId, RunSink, Sink,
    SinkError, Site, SiteId, Source, ThreadId,
};

use crate::queue::{self, queue};

/// Events at which a parcel is handed over: large enough that handing over costs nothing per event, small
/// enough to stay in a second-level cache on its way.
const EVENTS_PER_PARCEL: usize = 8 << 10;
/// Words at which it is handed over, too: 64 KiB. Less of a larger parcel is still cached when it is used
/// again.
const WORDS_PER_PARCEL: usize = 8 << 10;
/// Bytes of stored values at which it is handed over, too.
const VALUE_BYTES_PER_PARCEL: usize = 256 << 10;
/// Parcels under way to a sink. A thread that has to wait sleeps for half of them, about a millisecond; fewer
/// and more were both slower (docs/performance.md).
const PARCELS: usize = 64;

/// Batches one after the other.
#[derive(Default)]
struct Parcel {
    events: Vec<Event>,
    values: Vec<u8>,
    words: Vec<u64>,
    batches: Vec<Stretch>,
}

/// One batch of a parcel.
struct Stretch {
    thread: ThreadId,
    time_ns: u64,
    events_end: usize,
    values_end: usize,
    words_end: usize,
    /// Number of events and carried instructions, if it is a batch of blocks.
    blocks: Option<(usize, u32)>,
}

#[derive(Clone)]
enum Message {
    Begin(Arc<Source>),
    Site(SiteId, Arc<Site>),
    Name(NameId, Arc<str>),
    Shapes(Arc<[Arc<BlockShape>]>),
    Events(Arc<Parcel>),
    Pause,
    Finish,
}

impl Message {
    /// Whether somebody waits for what the sink makes of it.
    fn is_urgent(&self) -> bool {
        matches!(self, Message::Begin(_) | Message::Pause | Message::Finish)
    }
}

/// A sink as the producer knows it.
struct Consumer {
    name: &'static str,
    needs: Capabilities,
    out: queue::Sender<Message>,
}

/// The producer's end: a sink that hands everything on.
pub struct Relay {
    consumers: Vec<Consumer>,
    emptied: Receiver<Parcel>,
    /// Those that came back. The last one is the nearest in the caches.
    empty: Vec<Parcel>,
    parcel: Parcel,
    /// Whether the producer has the parcel's memory for words, in which it puts the next batch.
    lent: bool,
    /// Shapes of blocks that the consumers know.
    shapes: usize,
}

/// One consumer's end.
struct Delivery {
    messages: queue::Receiver<Message>,
    empty: Sender<Parcel>,
}

/// Runs each of the sinks on a thread of its own, and `produce` on this one, with a sink that stands for them
/// all.
///
/// # Errors
/// What stopped a sink, or else what `produce` returns.
pub fn broadcast<T, E: From<SinkError>>(
    sinks: &mut [&mut (dyn Sink + Send)],
    produce: impl FnOnce(&mut Relay) -> Result<T, E>,
) -> Result<T, E> {
    let (back, emptied) = channel();
    let mut relay = Relay {
        consumers: Vec::new(),
        emptied,
        empty: Vec::new(),
        parcel: Parcel::default(),
        lent: false,
        shapes: 0,
    };
    std::thread::scope(|scope| {
        let mut consumers = Vec::new();
        for sink in sinks {
            let (out, messages) = queue(PARCELS);
            relay.consumers.push(Consumer { name: sink.name(), needs: sink.needs(), out });
            let delivery = Delivery { messages, empty: back.clone() };
            consumers.push(scope.spawn(move || delivery.run(*sink)));
        }
        let mut produced = produce(&mut relay);
        drop(relay);
        for consumer in consumers {
            let consumed = consumer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If a sink stopped, the producer knows only that it did.
            if let Err(error) = consumed {
                produced = Err(error.into());
            }
        }
        produced
    })
}

impl Relay {
    /// Hands over what is in the parcel, and then `message`.
    fn send(&mut self, message: Message) -> Result<(), SinkError> {
        self.send_parcel()?;
        self.send_at_once(message)
    }

    fn send_parcel(&mut self) -> Result<(), SinkError> {
        debug_assert!(!self.lent, "the words come back before anything else");
        if self.parcel.batches.is_empty() {
            return Ok(());
        }
        self.empty.extend(self.emptied.try_iter());
        let next = self.empty.pop().unwrap_or_default();
        let full = std::mem::replace(&mut self.parcel, next);
        self.send_at_once(Message::Events(Arc::new(full)))
    }

    /// What was added to the parcel is a batch; hands it over if it has become large enough.
    fn close_batch(
        &mut self,
        thread: ThreadId,
        time_ns: u64,
        blocks: Option<(usize, u32)>,
    ) -> Result<(), SinkError> {
        let Parcel { events, values, words, batches } = &mut self.parcel;
        let (events_end, values_end, words_end) = (events.len(), values.len(), words.len());
        batches.push(Stretch { thread, time_ns, events_end, values_end, words_end, blocks });
        if events_end >= EVENTS_PER_PARCEL
            || values_end >= VALUE_BYTES_PER_PARCEL
            || words_end >= WORDS_PER_PARCEL
        {
            return self.send_parcel();
        }
        Ok(())
    }

    /// As [`Relay::close_batch`], where words were added.
    fn close_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        if let Some(new) = batch.shapes.get(self.shapes..).filter(|new| !new.is_empty()) {
            self.send_at_once(Message::Shapes(new.into()))?;
            self.shapes = batch.shapes.len();
        }
        self.parcel.events.extend_from_slice(batch.events);
        self.close_batch(batch.thread, batch.time_ns, Some((batch.count, batch.carry)))
    }

    fn send_at_once(&mut self, message: Message) -> Result<(), SinkError> {
        for consumer in &self.consumers {
            let gone = |_| SinkError::Other("a consumer of the events stopped".to_owned());
            consumer.out.send(message.clone(), message.is_urgent()).map_err(gone)?;
        }
        Ok(())
    }
}

impl Sink for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        // Here rather than at the sink, so that a producer learns of it before it does anything.
        for Consumer { name: consumer, needs, .. } in &self.consumers {
            let missing = *needs - source.capabilities;
            if !missing.is_empty() {
                return Err(SinkError::Lacks { consumer, producer: source.producer.clone(), missing });
            }
        }
        self.send(Message::Begin(Arc::new(source.clone())))
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        let message = match definition {
            Definition::Site(id, site) => Message::Site(id, Arc::new(site.clone())),
            Definition::Name(id, name) => Message::Name(id, name.into()),
        };
        // While the parcel's words are lent, what is new comes before earlier batches, which do not use it.
        if self.lent { self.send_at_once(message) } else { self.send(message) }
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        debug_assert!(!self.lent, "the words come back before anything else");
        self.parcel.events.extend_from_slice(batch.events);
        self.parcel.values.extend_from_slice(batch.values);
        self.close_batch(batch.thread, batch.time_ns, None)
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.send(Message::Pause)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.send(Message::Finish)
    }
}

impl RunSink for Relay {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        // Several would each expand them.
        if self.consumers.len() > 1 {
            batch.expand(&mut self.parcel.events);
            return self.close_batch(batch.thread, batch.time_ns, None);
        }
        self.parcel.words.extend_from_slice(batch.words);
        self.close_blocks(batch)
    }

    fn lend(&mut self, words: &mut Vec<u64>) {
        if self.consumers.len() > 1 {
            return words.clear();
        }
        debug_assert!(!self.lent, "they are lent once");
        self.lent = true;
        std::mem::swap(&mut self.parcel.words, words);
    }

    fn push_lent(
        &mut self,
        words: &mut Vec<u64>,
        from: usize,
        batch: BlockBatch<'_>,
    ) -> Result<(), SinkError> {
        if self.consumers.len() > 1 {
            let batch = BlockBatch { words: &words[from..], ..batch };
            return if batch.count == 0 { Ok(()) } else { self.push_blocks(batch) };
        }
        debug_assert!(self.lent, "they come back as they were lent");
        self.lent = false;
        std::mem::swap(&mut self.parcel.words, words);
        if batch.count == 0 {
            self.parcel.words.truncate(from);
            return Ok(());
        }
        self.close_blocks(batch)
    }
}

impl Delivery {
    /// Gives everything to `sink`, until the producer is done or gone.
    fn run(self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        let mut shapes = Vec::new();
        while let Some(message) = self.messages.recv() {
            match message {
                Message::Begin(source) => sink.begin(&source)?,
                Message::Site(id, site) => sink.define(Definition::Site(id, &site))?,
                Message::Name(id, name) => sink.define(Definition::Name(id, &name))?,
                Message::Shapes(new) => shapes.extend_from_slice(&new),
                Message::Events(parcel) => self.unpack(parcel, &shapes, sink)?,
                Message::Pause => sink.pause()?,
                Message::Finish => sink.finish()?,
            }
        }
        Ok(())
    }

    fn unpack(
        &self,
        parcel: Arc<Parcel>,
        shapes: &[Arc<BlockShape>],
        sink: &mut dyn Sink,
    ) -> Result<(), SinkError> {
        let (mut event, mut value, mut word) = (0, 0, 0);
        for &Stretch { thread, time_ns, events_end, values_end, words_end, blocks } in &parcel.batches {
            let events = &parcel.events[event..events_end];
            let values = &parcel.values[value..values_end];
            let words = &parcel.words[word..words_end];
            match blocks {
                None => sink.push(Batch { thread, time_ns, events, values })?,
                Some((count, carry)) => {
                    AnySink(sink).push_blocks(BlockBatch {
                        thread,
                        time_ns,
                        shapes,
                        words,
                        events,
                        count,
                        carry,
                    })?;
                }
            }
            (event, value, word) = (events_end, values_end, words_end);
        }
        if let Some(mut parcel) = Arc::into_inner(parcel) {
            parcel.events.clear();
            parcel.values.clear();
            parcel.words.clear();
            parcel.batches.clear();
            // If the producer is done, nobody needs it.
            let _ = self.empty.send(parcel);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{AccessKind, BlockAccess, Collected, EVENT, InstructionCounts, Op};

    use super::*;

    fn event(addr: u64) -> Event {
        Event { op: Op::Store { addr, len: 1 }, site: SiteId(1), instructions: 0 }
    }

    fn produce(relay: &mut Relay) -> Result<(), SinkError> {
        relay.begin(&Source::synthetic("test"))?;
        for addr in 0..100_000 {
            if addr % 1000 == 0 {
                relay.define(Definition::Name(NameId(addr as u32), "name"))?;
            }
            let (events, values) = (&[event(addr)], &[addr as u8]);
            relay.push(Batch { thread: ThreadId((addr % 3) as u32), time_ns: addr, events, values })?;
        }
        relay.finish()
    }

    #[test]
    fn everything_arrives_everywhere_in_order() {
        let mut sinks = [Collected::default(), Collected::default()];
        let [one, two] = &mut sinks;
        broadcast(&mut [one, two], produce).unwrap();
        for sink in sinks {
            assert_eq!(sink.source.unwrap().instructions, InstructionCounts::Unknown);
            assert_eq!(sink.events.len(), 100_000);
            for (at, (thread, event)) in sink.events.iter().enumerate() {
                assert_eq!((thread.0 as usize, event.op.stored()), (at % 3, Some((at as u64, 1))));
                assert_eq!(sink.values[at], at as u8);
            }
            assert_eq!(sink.table.name(NameId(99_000)), Some("name"));
        }
    }

    #[test]
    fn blocks_arrive_with_their_shapes_at_one_sink_and_as_events_at_several() {
        let shape = |len| {
            let site = SiteId(len);
            let access = BlockAccess { kind: AccessKind::Load, len: Some(len), site, instructions: 1 };
            Arc::new(BlockShape { accesses: vec![access; len as usize], after: 2 })
        };
        let mut expected = Vec::new();
        let mut produce = |relay: &mut Relay| {
            expected.clear();
            relay.begin(&Source::synthetic("test"))?;
            let (mut shapes, mut lent) = (Vec::new(), Vec::new());
            for number in 0..20_000 {
                if number % 1000 == 0 {
                    shapes.push(shape(1 + number / 1000));
                }
                let words = [&[BlockShape::head(number / 1000), 8][..], &[0; 19][..(number / 1000) as usize]];
                let words = [&words.concat()[..], &[EVENT]].concat();
                let (thread, time_ns, events) = (ThreadId(number % 3), 0, &[event(u64::from(number))]);
                let batch = BlockBatch {
                    thread,
                    time_ns,
                    shapes: &shapes,
                    words: &words,
                    events,
                    count: 2,
                    carry: 5,
                };
                batch.expanded(|batch| expected.extend(batch.events.iter().map(|event| (thread, *event))));
                if number % 3 == 0 {
                    relay.push_blocks(batch)?;
                    continue;
                }
                relay.lend(&mut lent);
                let from = lent.len();
                lent.extend_from_slice(&words);
                if number % 3 == 1 {
                    // It gives the memory back, and words in it, without a batch.
                    relay.push_lent(&mut lent, from, BlockBatch { count: 0, words: &[], ..batch })?;
                    relay.push_blocks(batch)?;
                } else {
                    relay.push_lent(&mut lent, from, BlockBatch { words: &[], ..batch })?;
                }
            }
            relay.finish()
        };
        let [mut alone, mut one, mut two] = [(); 3].map(|()| Collected::default());
        broadcast(&mut [&mut alone], &mut produce).unwrap();
        broadcast(&mut [&mut one, &mut two], &mut produce).unwrap();
        for sink in [alone, one, two] {
            assert_eq!(sink.events, expected);
        }
    }

    /// Takes a thousand batches.
    struct Full(u32);

    impl Sink for Full {
        fn name(&self) -> &'static str {
            "full"
        }
        fn push(&mut self, _: Batch<'_>) -> Result<(), SinkError> {
            self.0 += 1;
            if self.0 > 1000 { Err(SinkError::Other("full".to_owned())) } else { Ok(()) }
        }
    }

    #[test]
    fn a_consumer_that_stops_stops_the_producer_and_says_why() {
        let error = broadcast(&mut [&mut Collected::default(), &mut Full(0)], |relay| {
            loop {
                produce(relay)?;
            }
            #[allow(unreachable_code)]
            Ok::<(), SinkError>(())
        });
        assert_eq!(error.unwrap_err().to_string(), "full");
    }
}
