//! The compiler's hooks before plain accesses, where the assembler wrapper did not put them in line.

use crate::state::local::{caller, hooks, local};
use abi::{access, atomic, header, kind};

/// Records a load.
#[inline(always)]
pub fn load(pc: u64, addr: u64, len: u64) {
    if len > 0 {
        local().stream.load(header(kind::ACCESS, access::LOAD, pc), addr, len);
    }
}

/// Records a store that is about to be executed.
#[inline(always)]
pub fn store_to_come(pc: u64, addr: u64, len: u64) {
    local().stream.store_to_come(header(kind::ACCESS, access::STORE, pc), addr, len);
}

/// Records a volatile load. Others may have stored for it to see: where stored bytes are recorded, it is in
/// their order.
#[inline(always)]
fn volatile_load(pc: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    if stream.value_bytes().is_some() {
        stream.volatile_load(header(kind::ATOMIC, atomic::LOAD | atomic::IN_ORDER, pc), addr, len);
    } else {
        load(pc, addr, len);
    }
}

/// Records a volatile store that is about to be executed, for which others may wait.
#[inline(always)]
fn volatile_store(pc: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    if stream.value_bytes().is_some() {
        stream.volatile_store(header(kind::ATOMIC, atomic::STORE | atomic::IN_ORDER, pc), addr, len);
    } else {
        store_to_come(pc, addr, len);
    }
}

/// To be called before the library does what [`stored`] will tell.
#[inline(always)]
pub fn about_to_store() {
    local().stream.finish_record();
}

/// Records a store, temporal or not, that has been executed, in pieces if its bytes are to be recorded too.
#[inline]
pub fn stored(argument: u8, pc: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    match stream.value_bytes() {
        _ if len == 0 => {}
        None => stream.room(3).write_access(header(kind::ACCESS, argument, pc), addr, len),
        Some(most) => {
            for from in (0..len).step_by(most) {
                let piece = (len - from).min(most as u64);
                let room = stream.room(3);
                room.write_access(header(kind::ACCESS, argument, pc), addr + from, piece);
                stream.stored((addr + from) as *const u8, piece as usize);
            }
        }
    }
}

macro_rules! sized {
    ($($len:literal: $read:ident $write:ident $read_write:ident;)*) => {
        hooks! { $(
            fn $read(addr: u64) {
                load(caller(), addr, $len);
            }
            fn $write(addr: u64) {
                store_to_come(caller(), addr, $len);
            }
            fn $read_write(addr: u64) {
                let pc = caller();
                load(pc, addr, $len);
                store_to_come(pc, addr, $len);
            }
        )* }
    };
}

macro_rules! volatile {
    ($($len:literal: $read:ident $write:ident;)*) => {
        hooks! { $(
            fn $read(addr: u64) {
                volatile_load(caller(), addr, $len);
            }
            fn $write(addr: u64) {
                volatile_store(caller(), addr, $len);
            }
        )* }
    };
}

macro_rules! with_pc {
    ($($len:literal: $read:ident $write:ident;)*) => { $(
        /// A read by the code at `pc`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $read(addr: u64, pc: u64) {
            load(pc, addr, $len);
        }
        /// A write by the code at `pc`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $write(addr: u64, pc: u64) {
            store_to_come(pc, addr, $len);
        }
    )* };
}

sized! {
    1: __tsan_read1 __tsan_write1 __tsan_read_write1;
    2: __tsan_read2 __tsan_write2 __tsan_read_write2;
    4: __tsan_read4 __tsan_write4 __tsan_read_write4;
    8: __tsan_read8 __tsan_write8 __tsan_read_write8;
    16: __tsan_read16 __tsan_write16 __tsan_read_write16;
    2: __tsan_unaligned_read2 __tsan_unaligned_write2 __tsan_unaligned_read_write2;
    4: __tsan_unaligned_read4 __tsan_unaligned_write4 __tsan_unaligned_read_write4;
    8: __tsan_unaligned_read8 __tsan_unaligned_write8 __tsan_unaligned_read_write8;
    16: __tsan_unaligned_read16 __tsan_unaligned_write16 __tsan_unaligned_read_write16;
}

volatile! {
    1: __tsan_volatile_read1 __tsan_volatile_write1;
    2: __tsan_volatile_read2 __tsan_volatile_write2;
    4: __tsan_volatile_read4 __tsan_volatile_write4;
    8: __tsan_volatile_read8 __tsan_volatile_write8;
    16: __tsan_volatile_read16 __tsan_volatile_write16;
    1: __tsan_unaligned_volatile_read1 __tsan_unaligned_volatile_write1;
    2: __tsan_unaligned_volatile_read2 __tsan_unaligned_volatile_write2;
    4: __tsan_unaligned_volatile_read4 __tsan_unaligned_volatile_write4;
    8: __tsan_unaligned_volatile_read8 __tsan_unaligned_volatile_write8;
    16: __tsan_unaligned_volatile_read16 __tsan_unaligned_volatile_write16;
}

with_pc! {
    1: __tsan_read1_pc __tsan_write1_pc;
    2: __tsan_read2_pc __tsan_write2_pc;
    4: __tsan_read4_pc __tsan_write4_pc;
    8: __tsan_read8_pc __tsan_write8_pc;
    16: __tsan_read16_pc __tsan_write16_pc;
}

hooks! {
    fn __tsan_read_range(addr: u64, len: u64) {
        load(caller(), addr, len);
    }

    fn __tsan_write_range(addr: u64, len: u64) {
        if len > 0 {
            store_to_come(caller(), addr, len);
        }
    }

    fn __tsan_vptr_read(addr: u64) {
        load(caller(), addr, 8);
    }

    fn __tsan_vptr_update(addr: u64, _new: u64) {
        store_to_come(caller(), addr, 8);
    }
}
