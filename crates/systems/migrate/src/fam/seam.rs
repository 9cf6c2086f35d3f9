//! The fault server behind the crate's seam [`crate::pages`]: for pages that are anywhere, and FAM as pages for those who
//! read them themselves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::file::FamFile;
use super::layout::Region;
use super::server::{Options, serve};
use super::space::{Space, Step};
use super::transport::Transport;
use super::uffd::PAGE;
use super::{Error, Layout};
use crate::pages;

/// Pages of any source, through a buffer.
pub struct FromPages {
    source: Arc<dyn pages::Pages>,
    buffer: Vec<u8>,
}

impl FromPages {
    /// For one source.
    #[must_use]
    pub fn new(source: Arc<dyn pages::Pages>) -> FromPages {
        FromPages { source, buffer: vec![0; PAGE as usize] }
    }
}

impl Transport for FromPages {
    fn fault(&mut self, page: u64, space: &mut Space) -> Result<Step, Error> {
        let found = self.source.fetch(page, &mut self.buffer);
        if found.map_err(Error::os(format!("page {page:#x}")))? == pages::Presence::Absent {
            self.buffer.fill(0);
        }
        // SAFETY: a buffer of ours of one page.
        unsafe { space.copy(page, self.buffer.as_ptr(), PAGE) }
    }

    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> Result<Step, Error> {
        for page in (start..start + bytes).step_by(PAGE as usize) {
            let step = self.fault(page, space)?;
            if step != Step::Done {
                return Ok(step);
            }
        }
        Ok(Step::Done)
    }
}

/// The fault server with the options of this module.
#[derive(Clone, Debug, Default)]
pub struct FaultServer {
    /// How pages are served.
    pub options: Options,
}

impl pages::PageServer for FaultServer {
    fn serve(
        &self,
        uffd: OwnedFd,
        regions: &[pages::Region],
        source: Arc<dyn pages::Pages>,
    ) -> io::Result<()> {
        let regions: Vec<Region> =
            regions.iter().map(|region| Region { start: region.start, bytes: region.len }).collect();
        let served = serve(uffd, &regions, &mut FromPages::new(source), self.options.clone());
        match served {
            // The process has ended: nothing is left to serve.
            Ok(_) | Err(Error::TargetLost) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl pages::Pages for FamFile {
    fn fetch(&self, address: u64, page: &mut [u8]) -> io::Result<pages::Presence> {
        let layout = self.layout();
        let Some(vector) = layout.find(address) else { return Ok(pages::Presence::Absent) };
        if !self.is_present(vector) {
            return Err(io::Error::other(Error::SourceLost { missing: layout.vectors()[vector].bytes }));
        }
        let offset = layout.offset(address).unwrap_or_default();
        self.memory().read(offset, page);
        Ok(pages::Presence::Read)
    }

    fn next(&self, address: u64) -> Option<(u64, u64)> {
        next(self.layout(), address)
    }
}

fn next(layout: &Layout, address: u64) -> Option<(u64, u64)> {
    let region = layout.regions().iter().find(|region| region.start + region.bytes > address)?;
    let start = region.start.max(address);
    Some((start, region.start + region.bytes - start))
}
