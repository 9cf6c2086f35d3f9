//! In the child of a fork: what was its parent's is not its own.

use crate::base::module;
use crate::base::persistent;
use crate::base::session::session;
use crate::files::order_lock;
use crate::process::{alive, thread, tree};
use crate::state::local::local;

/// In the child of a fork.
pub extern "C" fn forked() {
    thread::after_fork(local());
    alive::after_fork();
    tree::after_fork();
    persistent::after_fork();
    order_lock::after_fork();
    if let Some(session) = session() {
        module::forked(session, session.forked());
    }
}
