//! The vocabulary of persistency: *where* data is durable ([`Domain`]) and in *which order* it becomes so ([`Model`]).
//!
//! Both are plain data. Real memory reports a domain; the modelled machine implements a model; the crash checker
//! enumerates the images that a domain and a model allow.
//!
//! ```
//! use persistency::{Domain, FileModel, Model};
//!
//! assert_eq!("eadr".parse(), Ok(Domain::Eadr));
//! assert_eq!("ext4".parse(), Ok(Model::File(FileModel::Ext4)));
//! assert_eq!(Model::Epoch.to_string(), "epoch");
//! assert!("ecc".parse::<Domain>().is_err());
//! ```

#![forbid(unsafe_code)]

mod domain;
mod model;
mod name;

pub use domain::Domain;
pub use model::{FileModel, Model};
pub use name::UnknownName;
