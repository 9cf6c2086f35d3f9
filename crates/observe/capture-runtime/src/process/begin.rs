//! The process begins and ends: the library's constructor and destructor.

use core::ffi::{c_char, c_int, c_void};

use crate::base::session::{attach, session};
use crate::base::{kinds, module};
use crate::files::caller;
#[cfg(target_arch = "x86_64")]
use crate::files::entries;
#[cfg(target_arch = "x86_64")]
use crate::memory::instructions;
use crate::process::exit::end;
use crate::process::forked::forked;
use crate::process::{children, execute, jump, thread, tree};
use crate::real::{calls, chosen};
use crate::state::local::{NEW, STARTING, local};
use crate::stream::cold;

type Text = *const c_char;

/// Before the constructors of all that was linked against this library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: unsafe extern "C" fn(c_int, *const Text, *const Text) = begin;

/// After their destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

unsafe extern "C" {
    /// Registers functions to be called around `fork`; the last argument is the library that they are in.
    fn __register_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *const c_void,
    ) -> c_int;
}

/// The dynamic linker calls it with what `main` gets, too.
unsafe extern "C" fn begin(_: c_int, _: *const Text, environment: *const Text) {
    cold::prepare();
    #[cfg(target_arch = "x86_64")]
    instructions::prepare();
    kinds::prepare();
    module::prepare();
    calls::prepare();
    chosen::prepare();
    caller::prepare();
    #[cfg(target_arch = "x86_64")]
    entries::prepare();
    jump::prepare();
    thread::prepare();
    let local = local();
    // What happens before the thread's start is our doing, even if it is the program's `memcpy` that we call.
    local.stage.set(STARTING);
    local.stream.clear();
    execute::prepare();
    children::prepare();
    // SAFETY: the dynamic linker's environment, in which no other thread changes anything yet.
    unsafe { attach(environment) };
    if let Some(session) = session() {
        session.publish_leftovers();
        module::update();
    }
    // Constructors that ran before ours (libstdc++ allocates in its own) have started the thread without a
    // session.
    local.stream.clear();
    local.stage.set(NEW);
    if session().is_some() {
        local.stream.make_room(0);
        tree::arrive();
    }
    // Registered before anybody else's, hence called before them in the child. After the thread's start: this
    // allocates, and the program's own `malloc` makes records.
    // SAFETY: a function that stays as long as the process.
    unsafe { __register_atfork(Some(tree::expecting), None, Some(forked), core::ptr::null()) };
}
