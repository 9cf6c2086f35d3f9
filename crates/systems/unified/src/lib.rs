//! One memory for CPU and accelerator: a hash table, a sort and a query that both work on, on a GPU with
//! memory of its own, on a GPU that shares the CPU's, and without a GPU. After X. Wu, "Optimizing the Use
//! of Heterogeneous Memory", Sydney 2026, chapter 4.
//!
//! # The seam
//!
//! An [`Accelerator`] allocates [`Region`]s of 32-bit words and runs [`Kernel`]s over them: data-parallel
//! functions that see an invocation number, a few parameters and up to four regions. A kernel exists once
//! in WGSL (`kernels/*.wgsl`), which every GPU backend compiles, and once in Rust (`host`), which
//! [`Batch`], the software accelerator, runs. No kernel needs a barrier across workgroups or forward
//! progress of other invocations. What must be combined is combined between kernels.
//!
//! | backend | memory | CPU during a kernel |
//! |---|---|---|
//! | [`Batch`] | the CPU's | may use the same words; launch cost and interference are parameters |
//! | [`gpu::Vulkan`] | persistently mapped where the device has such memory | may use the same words |
//! | [`gpu::Wgpu`] | the device's | uses a copy of its own |
//! | [`gpu::Cuda`] | the device's | uses a copy of its own |
//!
//! # The table
//!
//! [`Table`] is Mega-KV's: buckets of eight 32-bit signatures and eight locations, 64 bytes; two candidate
//! buckets per key, the second by XOR of the first with the signature; at most five evictions along a path
//! that is found before anything moves, so that an insert that finds no room changes nothing. Both
//! candidates of a key lie in one *block* of buckets. A batch of changes is sorted by block, and one
//! invocation takes all changes of a block, in the batch's order. Hence no atomic is needed, results do not
//! depend on the device, and CPU, software accelerator and GPU leave the same bytes.
//!
//! CPU threads change the same words under per-bucket locks that lie in memory of their own, so that a
//! table's bytes are exactly the device's. A reader takes no lock: each block has two counters, of changes
//! begun and ended, and a lookup during which they were equal and unchanged saw one state. A device's batch
//! of changes counts as one change of each block that it touches, so CPU threads keep serving all other
//! blocks while the kernel runs, and nothing depends on atomics across devices, which not every device has.
//!
//! [`Store`] adds whole keys: it checks the key at a location, and keeps the few keys whose signature and
//! buckets are another's in a map beside the table.
#![deny(unsafe_code)]

mod accelerator;
mod batch;
mod coexec;
mod contest;
mod devices;
mod error;
pub mod gpu;
mod hash;
mod host;
mod hot;
mod kernel;
pub mod litmus;
pub mod micro;
pub mod model;
pub mod query;
pub mod sort;
mod store;
mod table;

pub use accelerator::{Accelerator, Info, Job, MemoryKind, Pending, Region};
pub use batch::{Batch, BatchOptions};
pub use coexec::{Approach, CoExecution, Rates, change_both};
pub use contest::{Contest, Figure, Figures, Part};
pub use devices::{Absent, Choice, Devices};
pub use error::Error;
pub use hash::{Hashed, Mix, Shape};
pub use hot::{HotCold, Policy, Skew};
pub use kernel::Kernel;
pub use store::Store;
pub use table::{Answer, Change, CpuTable, NONE, Outcome, Table};
