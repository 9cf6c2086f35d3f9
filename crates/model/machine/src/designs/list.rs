//! The list of designs.

use persistency::Model;
use serde::{Deserialize, Serialize};

use super::eager::Eager;
use super::hops::Hops;
use super::persistency::Persistency;
use super::tso::Tso;
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
}

/// The design of the machine that `config` describes, with its hardware pre-stores, if it has any, in front.
pub(crate) fn build(config: &Config) -> Box<dyn Persistency> {
    let design = config.cores.pipeline.ordering.build(config);
    match Eager::in_front_of(design, config) {
        Ok(eager) => Box::new(eager),
        Err(design) => design,
    }
}
