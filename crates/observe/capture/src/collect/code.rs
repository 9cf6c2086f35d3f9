//! The program's code as the collector sees it: where an address belongs, what lies there, what it is called.

use std::collections::HashMap;

use event::map::Map;
use event::{Definition, Frame, NameId, Sink, SinkError, Site, SiteId};

use crate::symbols::stands_for_caller;

/// A code address, independent of where its file was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a file that the process had mapped.
    Module {
        /// Which file, by the [`Code`]'s own numbering.
        module: u32,
        /// Address in the file, before relocation.
        address: u64,
    },
    /// In no known file.
    Memory {
        /// The process.
        pid: u32,
        /// Address in its memory.
        address: u64,
    },
}

impl Place {
    /// Address in the file or in memory.
    #[must_use]
    pub fn address(self) -> u64 {
        match self {
            Place::Module { address, .. } | Place::Memory { address, .. } => address,
        }
    }

    /// Another address in the same file or memory.
    #[must_use]
    pub fn at(self, address: u64) -> Place {
        match self {
            Place::Module { module, .. } => Place::Module { module, address },
            Place::Memory { pid, .. } => Place::Memory { pid, address },
        }
    }
}

/// Access to the code of the observed processes.
pub trait Code {
    /// The place of an address of process `pid`.
    fn place(&mut self, pid: u32, address: u64) -> Place;
    /// Copies what lies at `place`; the number of bytes there were, up to `into.len()`.
    fn read(&mut self, place: Place, into: &mut [u8]) -> usize;
    /// Function and line of `place`.
    fn site(&mut self, place: Place) -> Site;
}

/// The numbers given to sites and names, and those that the sink does not know yet.
#[derive(Debug, Default)]
pub struct Vocabulary {
    by_place: Map<Place, SiteId>,
    /// By all that a report shows of a site, so that the instructions of one source line are one site.
    by_frames: Map<Site, SiteId>,
    names: HashMap<String, NameId>,
    /// Those whose code is in the headers of C++'s library, and in no function of the program's own that it
    /// was compiled into.
    library: HashMap<SiteId, Site>,
    /// By number of site: the site, and the number of the function that it was compiled into; 0: who called
    /// that is named.
    sites: Vec<(Site, u32)>,
    functions: HashMap<(String, String), u32>,
    new_sites: Vec<(SiteId, Site)>,
    new_names: Vec<(NameId, String)>,
}

impl Vocabulary {
    /// The number of the site at `place`.
    pub fn site(&mut self, place: Place, code: &mut dyn Code) -> SiteId {
        if let Some(&id) = self.by_place.get(&place) {
            return id;
        }
        let site = code.site(place);
        let library =
            (!site.frames.is_empty() && site.frames.iter().all(Frame::is_library)).then(|| site.clone());
        let id = self.enter(site);
        self.library.extend(library.map(|site| (id, site)));
        self.by_place.insert(place, id);
        id
    }

    /// Whether a site's code is in the headers of C++'s library, and in no function of the program's own that
    /// it was compiled into.
    pub fn is_library(&self, id: SiteId) -> bool {
        self.library.contains_key(&id)
    }

    /// The number of a site of C++'s library with `callers`, the last one first, down to the first that is
    /// the program's own.
    pub fn called(&mut self, id: SiteId, callers: impl Iterator<Item = Site>) -> SiteId {
        let Some(mut site) = self.library.get(&id).cloned() else { return id };
        for caller in callers {
            let own = !caller.frames.iter().all(Frame::is_library);
            site.frames.extend(caller.frames);
            if own {
                break;
            }
        }
        let standing_in = site.frames.iter().take_while(|frame| stands_for_caller(&frame.file)).count();
        site.frames.drain(..standing_in.min(site.frames.len().saturating_sub(1)));
        self.enter(site)
    }

    /// The function that the code of a site was compiled into, as a number; `None` if it is not known.
    pub fn function(&self, id: SiteId) -> Option<u32> {
        let (_, function) = self.sites.get((id.0 as usize).checked_sub(1)?)?;
        (*function > 0).then_some(*function)
    }

    /// The number of a site with those that called it, the last one first.
    pub fn called_by(&mut self, id: SiteId, callers: &[SiteId]) -> SiteId {
        let site = |id: &SiteId| self.sites.get((id.0 as usize).wrapping_sub(1)).map(|(site, _)| site);
        let Some(mut whole) = site(&id).cloned() else { return id };
        whole.frames.extend(callers.iter().filter_map(site).flat_map(|site| site.frames.iter().cloned()));
        let known = self.sites.len();
        let called = self.enter(whole);
        if let Some((_, function)) = self.sites.get_mut(known) {
            *function = 0;
        }
        called
    }

    /// The number of a site whose frames are calls under way.
    pub fn chain(&mut self, calls: Site) -> SiteId {
        self.enter(calls)
    }

    fn enter(&mut self, mut site: Site) -> SiteId {
        let address = site.address;
        // Without a line, the address is all that reports two places of a function apart.
        if site.frame().is_some_and(|frame| frame.line > 0) {
            site.address = 0;
        }
        // Most instructions' sites are known, and cost no copy.
        if let Some(&id) = self.by_frames.get(&site) {
            return id;
        }
        let id = SiteId(self.by_frames.len() as u32 + 1);
        let fresh = self.functions.len() as u32 + 1;
        let function = site.frames.last().map_or(0, |frame| {
            let name = (site.module.clone(), frame.function.clone());
            *self.functions.entry(name).or_insert(fresh)
        });
        self.sites.push((Site { address, ..site.clone() }, function));
        self.new_sites.push((id, Site { address, ..site.clone() }));
        self.by_frames.insert(site, id);
        id
    }

    /// The number of a name.
    pub fn name(&mut self, name: String) -> NameId {
        let fresh = NameId(self.names.len() as u32);
        let id = *self.names.entry(name.clone()).or_insert(fresh);
        if id == fresh {
            self.new_names.push((id, name));
        }
        id
    }

    /// Gives the sink what it does not know yet.
    ///
    /// # Errors
    /// The sink's.
    #[inline]
    pub fn define(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        // Asked for each batch.
        if self.new_sites.is_empty() && self.new_names.is_empty() { Ok(()) } else { self.define_new(sink) }
    }

    fn define_new(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        for (id, site) in self.new_sites.drain(..) {
            sink.define(Definition::Site(id, &site))?;
        }
        for (id, name) in self.new_names.drain(..) {
            sink.define(Definition::Name(id, &name))?;
        }
        Ok(())
    }
}
