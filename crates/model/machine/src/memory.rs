//! The memory controller: two memories, each interleaved over its own DIMMs, and the account of who wrote
//! what.

use device::{Dimm, Rng};

use crate::below::{Backend, Cause, Write};
use crate::config::Config;
use crate::interleave::{Interleave, PERSISTENT};
use crate::{LINE_BYTES, MemoryFigures, SiteMemory, Traffic};

/// Lines of a 4 KiB page, as a shift.
const PAGE_SHIFT: u32 = 6;

/// The sites' accounts at one memory, as a device sees them.
struct Shares<'a> {
    sites: &'a mut [[SiteMemory; 2]],
    memory: usize,
    /// Where media writes are noted, if they are.
    log: Option<(&'a mut Vec<u64>, Where)>,
}

/// Which lines a DIMM's are.
#[derive(Clone, Copy)]
struct Where {
    interleave: Interleave,
    dimm: usize,
    unit_shift: u32,
}

impl device::Shares for Shares<'_> {
    fn media_written(&mut self, site: u32, bytes: u64, partial: bool) {
        let account = &mut self.sites[site as usize][self.memory];
        account.media_write_bytes += bytes;
        account.partial_media_bytes += if partial { bytes } else { 0 };
    }

    fn unit_written(&mut self, unit: u64) {
        let memory = if self.memory == 1 { PERSISTENT } else { 0 };
        if let Some((units, at)) = &mut self.log {
            units.push(at.interleave.line(at.dimm, unit << at.unit_shift) | memory);
        }
    }
}

/// Both memories.
#[derive(Clone, Debug)]
pub(crate) struct Memories {
    /// Other memory, then persistent memory.
    memories: [Memory; 2],
    /// By site: other memory, then persistent memory.
    pub(crate) sites: Vec<[SiteMemory; 2]>,
    /// What is written, if somebody watches.
    pub(crate) log: Option<WriteLog>,
}

/// Writes since the log was emptied last.
#[derive(Clone, Debug, Default)]
pub struct WriteLog {
    /// Lines that the controller wrote, with [`PERSISTENT`] if they are, and the sites that had stored to
    /// them.
    pub lines: Vec<(u64, u32)>,
    /// First lines of the units that the media wrote.
    pub units: Vec<u64>,
}

impl WriteLog {
    /// Forgets them.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.units.clear();
    }
}

#[derive(Clone, Debug)]
struct Memory {
    channels: Vec<Channel>,
    interleave: Interleave,
    unit_shift: u32,
    partial_line_writes: u64,
    page_collisions: u64,
}

/// The way to one DIMM.
#[derive(Clone, Debug)]
struct Channel {
    dimm: Dimm,
    /// Thread and page of the last write.
    last_write: Option<(u32, u64)>,
    /// Bytes written, by thread.
    by_thread: Vec<u64>,
}

impl Memories {
    pub(crate) fn new(config: &Config) -> Self {
        let memory = |number: u64| {
            let (controller, device) = config.side(number == 1);
            Memory {
                channels: (0..u64::from(controller.dimms))
                    .map(|dimm| Channel {
                        dimm: Dimm::new(device, Rng::new(config.seed ^ (1 << 40 | number << 32 | dimm))),
                        last_write: None,
                        by_thread: Vec::new(),
                    })
                    .collect(),
                interleave: Interleave::new(controller),
                unit_shift: (device.unit.0 / LINE_BYTES).trailing_zeros(),
                partial_line_writes: 0,
                page_collisions: 0,
            }
        };
        Memories { memories: [memory(0), memory(1)], sites: Vec::new(), log: None }
    }

    /// Empties the devices' buffers onto the media.
    pub(crate) fn drain(&mut self) {
        for (memory, Memory { channels, interleave, unit_shift, .. }) in self.memories.iter_mut().enumerate()
        {
            for (dimm, channel) in channels.iter_mut().enumerate() {
                let at = Where { interleave: *interleave, dimm, unit_shift: *unit_shift };
                let log = self.log.as_mut().map(|log| (&mut log.units, at));
                channel.dimm.drain(&mut Shares { sites: &mut self.sites, memory, log });
            }
        }
    }

    /// Traffic so far: other memory, then persistent memory.
    pub(crate) fn totals(&self) -> [Traffic; 2] {
        self.memories.each_ref().map(Memory::total)
    }

    pub(crate) fn figures(&self) -> [MemoryFigures; 2] {
        self.memories.each_ref().map(Memory::figures)
    }

    pub(crate) fn dimms(&self) -> impl Iterator<Item = &Dimm> {
        self.memories.iter().flat_map(|memory| &memory.channels).map(|channel| &channel.dimm)
    }
}

impl Backend for Memories {
    fn read(&mut self, line: u64, site: u32) {
        let memory = usize::from(line & PERSISTENT != 0);
        self.sites[site as usize][memory].read_bytes += LINE_BYTES;
        let (channel, local, at) = self.memories[memory].place(line);
        let log = self.log.as_mut().map(|log| (&mut log.units, at));
        channel.dimm.read(local, &mut Shares { sites: &mut self.sites, memory, log });
    }

    fn write(&mut self, write: Write) {
        let memory = usize::from(write.line & PERSISTENT != 0);
        let account = &mut self.sites[write.site as usize][memory];
        account.controller_write_bytes += LINE_BYTES;
        account.evicted_bytes += if write.cause == Cause::Eviction { LINE_BYTES } else { 0 };
        let whole = write.cause != Cause::NonTemporal { whole: false };
        let memory_ref = &mut self.memories[memory];
        memory_ref.partial_line_writes += u64::from(!whole);
        let (channel, local, at) = memory_ref.place(write.line);
        let collided = channel.note_writer(write.thread, write.line >> PAGE_SHIFT);
        let log = self.log.as_mut().map(|log| {
            log.lines.push((write.line, write.site));
            (&mut log.units, at)
        });
        channel.dimm.write(local, whole, write.site, &mut Shares { sites: &mut self.sites, memory, log });
        self.memories[memory].page_collisions += u64::from(collided);
    }
}

impl Memory {
    /// The DIMM of a line, and the line's number there.
    fn place(&mut self, line: u64) -> (&mut Channel, u64, Where) {
        let (dimm, local) = self.interleave.place(line & !PERSISTENT);
        let at = Where { interleave: self.interleave, dimm, unit_shift: self.unit_shift };
        (&mut self.channels[dimm], local, at)
    }

    fn total(&self) -> Traffic {
        let mut total = Traffic::default();
        self.channels.iter().for_each(|channel| total.add(&channel.dimm.traffic()));
        total
    }

    fn figures(&self) -> MemoryFigures {
        let units = self.channels.first().map_or(0, |channel| channel.dimm.fill().len());
        let fill = |lines| self.channels.iter().map(|channel| channel.dimm.fill()[lines]).sum();
        MemoryFigures {
            total: self.total(),
            per_dimm: self.channels.iter().map(|channel| channel.dimm.traffic()).collect(),
            writers_per_dimm: self.channels.iter().map(Channel::writers).collect(),
            page_collisions: self.page_collisions,
            media_write_fill: (0..units).map(fill).collect(),
            partial_line_writes: self.partial_line_writes,
            held_dirty_bytes: self
                .channels
                .iter()
                .map(|channel| channel.dimm.held_lines() * LINE_BYTES)
                .sum(),
        }
    }
}

impl Channel {
    /// `thread` writes to `page`. Whether that collides with the write before.
    fn note_writer(&mut self, thread: u32, page: u64) -> bool {
        let at = thread as usize;
        if self.by_thread.len() <= at {
            self.by_thread.resize(at + 1, 0);
        }
        self.by_thread[at] += LINE_BYTES;
        let before = self.last_write.replace((thread, page));
        before.is_some_and(|(other, there)| other != thread && there != page)
    }

    /// Threads that wrote at least 1 % of the bytes.
    fn writers(&self) -> u32 {
        let total: u64 = self.by_thread.iter().sum();
        self.by_thread.iter().filter(|&&bytes| bytes > 0 && bytes >= total.div_ceil(100)).count() as u32
    }
}
