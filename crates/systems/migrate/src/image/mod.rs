//! What a checkpoint holds, and how it lies in files.

mod consistent;
mod files;
mod state;
mod store;

pub use consistent::fault;
pub use files::{Description, Fd, FileKind, RangeLock, SocketAddress, Watch, time_left};
pub use state::{
    Action, Credentials, Image, Limit, Mm, PosixTimer, Process, Rseq, Run, Shared, Signal, Thread, Vma,
    VmaKind,
};
pub use store::{PAGES_SUFFIX, Store, hash};
