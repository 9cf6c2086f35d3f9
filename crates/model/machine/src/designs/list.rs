//! The list of designs.

use persistency::Model;
use serde::{Deserialize, Serialize};

use super::battery::Bbb;
use super::eager::Eager;
use super::hops::{Asap, Hops};
use super::marked::{NonAtomic, Switch, X86};
use super::persistency::Persistency;
use super::redo::Redo;
use super::ssp::Ssp;
use super::strand::{Strand, StrandNoQueue};
use super::tso::Tso;
use super::undo::Undo;
use super::weak::Weak;
use crate::Config;

macro_rules! designs {
    ($($(#[$doc:meta])* $design:ident: $model:expr),* $(,)?) => {
        /// A persistency design: the value of `cores.pipeline.ordering`, in lower case.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Design {
            $($(#[$doc])* $design),*
        }

        impl Design {
            /// All designs.
            pub const ALL: &[Design] = &[$(Design::$design),*];

            /// The persistency model that the design implements.
            #[must_use]
            pub fn model(self) -> Model {
                match self {
                    $(Design::$design => $model),*
                }
            }

            fn build(self, config: &Config) -> Box<dyn Persistency> {
                match self {
                    $(Design::$design => Box::new($design::new(config))),*
                }
            }
        }
    };
}

designs! {
    /// Total store order (x86): stores become visible in program order, each as soon as it can.
    #[default]
    Tso: Model::X86,
    /// Weak (Arm): stores wait in a private buffer until they must become visible, then in any order.
    Weak: Model::Arm,
    /// Epoch persistency after HOPS: stores to persistent memory go to a persist buffer that empties in the background,
    /// epoch by epoch.
    Hops: Model::Epoch,
    /// Total store order on which a persist barrier and a join are store fences, as x86 has nothing else to order persists.
    X86: Model::X86,
    /// The same without the fence of a persist barrier: log and update are not ordered, so nothing can be recovered. A bound.
    NonAtomic: Model::X86,
    /// Epoch persistency after ASAP: copies leave before their epoch's turn, and the controller keeps what they overwrote.
    Asap: Model::Epoch,
    /// Battery-backed buffers after BBB: a store to persistent memory is durable as soon as it is visible.
    Bbb: Model::X86,
    /// Strand persistency after StrandWeaver: a persist queue and strand buffers.
    Strand: Model::Strand,
    /// StrandWeaver without its persist queue: write-backs and marks wait in the store queue.
    StrandNoQueue: Model::Strand,
    /// Hardware undo logging: a store of a region waits until the old value is in the log.
    Undo: Model::X86,
    /// Hardware redo logging after DHTM: a region's lines go to a log, then home behind the commit.
    Redo: Model::X86,
    /// Shadow sub-paging: a region's lines go to the other of two pages, and a journal says which of the two counts.
    Ssp: Model::X86,
    /// A switch with a persistent buffer between cores and memory: what it has accepted is durable.
    Switch: Model::X86,
}

impl Design {
    /// Whether it sends data to memory by itself, which is of no use where caches are durable.
    pub(crate) fn buffers(self) -> bool {
        !matches!(self, Design::Tso | Design::Weak | Design::X86 | Design::NonAtomic)
    }
}

/// The design of the machine that `config` describes, with its hardware pre-stores, if it has any, in front.
pub(crate) fn build(config: &Config) -> Box<dyn Persistency> {
    let design = config.cores.pipeline.ordering.build(config);
    match Eager::in_front_of(design, config) {
        Ok(eager) => Box::new(eager),
        Err(design) => design,
    }
}
