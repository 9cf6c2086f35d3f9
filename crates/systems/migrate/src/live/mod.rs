//! Processes that run before their memory has come, and the way of a process from one machine to another.
//!
//! # The protocol
//!
//! State and pages lie in one folder in fabric-attached memory that both sides see; a *control* connection carries lines
//! of text (`link`), one further connection per process carries the messages of [`fam`].
//!
//! 1. The source takes room in the folder while the process runs, and greets the target: a lost target is found before
//!    anything is stopped.
//! 2. It freezes the tree and writes the state. From here on the tree is as it was, only stopped: if the source's daemon
//!    is killed, the kernel lets the tree go on.
//! 3. The target makes the tree, all of it but the first step, and says *ready*.
//! 4. **The tree belongs to whoever has the file `decision` say so.** It is made once, by a link, which succeeds for one
//!    side only. The source decides for the target when it hears *ready*; a target that loses the source before it hears
//!    *commit* decides for the source. So the tree runs in exactly one place, whoever is killed when.
//! 5. Pages go to the folder in the background. After the last one the source's tree is killed.

mod before;
mod hand;
mod lazy;
mod link;
mod map;
mod regions;
mod source;
mod target;

pub use before::Before;
pub use lazy::{Lazy, LazyPages, check, restore_lazy};
pub use link::{Listener, decide, decided};
pub use source::{Migrate, Moved, Way, migrate};
pub use target::{Target, target};
