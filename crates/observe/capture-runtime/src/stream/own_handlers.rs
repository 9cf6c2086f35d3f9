//! The records by which a thread and its own signal handlers are put in order; [`crate::stream::busy`] says
//! how.

use crate::state::local::Local;
use crate::stream::busy::{Busy, address, followed, has_handlers};
use crate::stream::meeting::{acquired, released};

/// In the handler's stream, at its beginning.
pub fn begun(local: &Local) {
    if followed().is_some() {
        acquired(0, address(local));
    }
}

/// In the handler's stream, at its end.
pub fn ends(local: &Local) {
    if followed().is_some() {
        released(0, address(local));
        local.own_handlers.ended.set(1);
    }
}

/// The thread is about to sleep: handlers that come meanwhile find that it has recorded a release.
pub fn falls_asleep(local: &Local) {
    if has_handlers() && local.handlers.get() == 0 && followed().is_some() {
        let _busy = Busy::begin(local);
        released(0, address(local));
        local.own_handlers.released_already.set(1);
    }
}
