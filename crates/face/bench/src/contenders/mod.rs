//! Who competes: our variants and plain memory; peers are added by [`crate::peers`].

mod fixed;
mod maps;
mod stores;
mod volatile;

use workload::load::Mix;

use crate::error::Error;
use crate::peers::Peer;
use crate::runner::Use;
use crate::terms::{Durability, Role, Setup, Skipped, Subject};
use maps::Variant;

/// Name and role of a contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name on the command line.
    pub name: String,
    /// Ours, a baseline or a peer.
    pub role: Role,
    /// What it is, in one line.
    pub summary: String,
}

/// One that can be run.
#[derive(Clone, Debug)]
pub enum Contender {
    /// One of ours, or plain memory.
    Own(&'static Variant),
    /// Somebody else's.
    Peer(&'static Peer),
}

impl Contender {
    /// All for a subject.
    pub fn all(subject: Subject) -> Vec<Contender> {
        let own = maps::VARIANTS.iter().filter(|variant| variant.subject == subject).map(Contender::Own);
        own.chain(Peer::all().map(Contender::Peer)).collect()
    }

    /// Name and role.
    pub fn known(&self) -> Known {
        let (name, role, summary) = match self {
            Contender::Own(variant) => (variant.name, variant.role, variant.summary),
            Contender::Peer(peer) => (peer.name, Role::Peer, peer.summary),
        };
        Known { name: name.to_owned(), role, summary: summary.to_owned() }
    }

    /// What it promises in that folder.
    pub fn durability(&self, setup: &Setup) -> Durability {
        match self {
            Contender::Own(variant) if !variant.durable => Durability::Not,
            Contender::Own(_) if setup.memory => Durability::Flushed,
            Contender::Own(_) => Durability::Synced,
            Contender::Peer(peer) => peer.durability(setup.memory),
        }
    }

    /// Why it can't take part, if so.
    pub fn refusal(&self, setup: &Setup, mixes: &[Mix]) -> Option<Skipped> {
        let ordered = match self {
            Contender::Own(variant) => variant.ordered,
            Contender::Peer(peer) => peer.ordered,
        };
        let why = match (self, mixes.iter().find(|mix| mix.scans())) {
            (_, Some(mix)) if !ordered => Some(format!("its keys have no order, which {} needs", mix.name)),
            (Contender::Own(variant), _) => variant.refusal(setup),
            (Contender::Peer(peer), _) => peer.refusal(setup),
        };
        why.map(|why| Skipped { name: self.known().name, why, package: None })
    }

    /// Makes it, empty, and uses it; or says what is missing.
    ///
    /// # Errors
    /// If it can't be made, or `use_it` fails.
    pub fn compete(&self, setup: &Setup, use_it: Use<'_>) -> Result<Option<Skipped>, Error> {
        match self {
            Contender::Own(variant) => variant.compete(setup, use_it).map(|()| None),
            Contender::Peer(peer) => peer.compete(setup, use_it),
        }
    }
}
