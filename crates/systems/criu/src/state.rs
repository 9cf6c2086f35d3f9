//! The state of a thread as CRIU has it: registers, extended state, credentials, signals.

use migrate::image::{Credentials, Rseq, Signal, Thread};

use crate::names::XSAVE;
use crate::wire::{Fields, Message};

/// Bytes of the legacy part of the extended state, and of the header behind it.
const LEGACY: usize = 512;
const HEADER: usize = 64;
/// Set in the image of a thread that makes no system call.
const NO_CALL: u64 = u64::MAX;
const ORIG_RAX: usize = 15;

/// Where a part of the extended state lies on this processor (standard format), and its bytes; none if it has no such part.
fn part(number: u32) -> Option<(usize, usize)> {
    let found = std::arch::x86_64::__cpuid_count(0xd, number);
    (found.eax > 0).then_some((found.ebx as usize, found.eax as usize))
}

fn word(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..at + len) {
        word[..len].copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

/// `thread_info_x86`.
pub fn thread_info(thread: &Thread) -> Message {
    let registers = (1_u32..).zip(&thread.registers);
    let registers = registers.fold(Message::new(), |message, (field, value)| message.num(field, *value));
    let state = &thread.xstate;
    let halves = |from: usize, count: usize| (0..count).map(move |index| word(state, from + 4 * index, 4));
    let mut float = Message::new();
    for (field, at, len) in
        [(1, 0, 2), (2, 2, 2), (3, 4, 2), (4, 6, 2), (5, 8, 8), (6, 16, 8), (7, 24, 4), (8, 28, 4)]
    {
        float = float.num(field, word(state, at, len));
    }
    float = float.nums(9, halves(32, 32)).nums(10, halves(160, 64));
    if state.len() >= LEGACY + HEADER {
        let mut more = Message::new().num(1, word(state, LEGACY, 8));
        for (field, number, len, count) in XSAVE {
            if let Some((at, bytes)) = part(number).filter(|(at, bytes)| at + bytes <= state.len()) {
                let count = count.min(bytes / len);
                more = more.nums(field, (0..count).map(|index| word(state, at + len * index, len)));
            }
        }
        float = float.message(13, more);
    }
    let unused = |number: u64| {
        let fields = [(2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 1), (8, 0), (9, 1), (10, 0)];
        let first = Message::new().num(1, number);
        fields.into_iter().fold(first, |message, (field, value): (u32, u64)| message.num(field, value))
    };
    let info = Message::new().num(1, thread.clear_tid).message(2, registers.num(28, 1_u64)).message(3, float);
    (12..15).fold(info, |info, number| info.message(4, unused(number)))
}

/// Registers out of `thread_info_x86`: a system call that was interrupted is made again.
pub fn registers(info: &Fields<'_>) -> Vec<u64> {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    let from = info.message(2);
    let mut set: Vec<u64> = (1..=27).map(|field| from.num(field)).collect();
    if set[ORIG_RAX] as i64 >= 0 && RESTARTS.contains(&(set[10] as i64)) {
        set[10] = set[ORIG_RAX];
        set[16] = set[16].wrapping_sub(2);
    }
    set[ORIG_RAX] = NO_CALL;
    set
}

/// Extended state out of `thread_info_x86`, as long as this processor's.
pub fn extended(info: &Fields<'_>) -> Vec<u8> {
    let from = info.message(3);
    let len = std::arch::x86_64::__cpuid_count(0xd, 0).ecx as usize;
    let mut state = vec![0; len.max(LEGACY + HEADER)];
    let mut put = |at: usize, len: usize, value: u64| {
        if let Some(place) = state.get_mut(at..at + len) {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    };
    for (field, at, len) in
        [(1, 0, 2), (2, 2, 2), (3, 4, 2), (4, 6, 2), (5, 8, 8), (6, 16, 8), (7, 24, 4), (8, 28, 4)]
    {
        put(at, len, from.num(field));
    }
    for (field, at) in [(9, 32), (10, 160)] {
        for (index, value) in from.nums(field).into_iter().enumerate().take(64) {
            put(at + 4 * index, 4, value);
        }
    }
    let more = from.message(13);
    // x87 and SSE, and what else is there.
    put(LEGACY, 8, more.get(1).unwrap_or(3));
    for (field, number, len, count) in XSAVE {
        let Some((at, bytes)) = part(number) else { continue };
        for (index, value) in more.nums(field).into_iter().enumerate().take(count.min(bytes / len)) {
            put(at + len * index, len, value);
        }
    }
    state
}

/// `creds_entry`.
pub fn credentials(who: &Credentials) -> Message {
    let halves = |set: u64| [set & 0xffff_ffff, set >> 32];
    let [user, effective, saved, files] = who.uids;
    let [group, effective_group, saved_group, group_of_files] = who.gids;
    let numbers =
        [user, group, effective, effective_group, saved, saved_group, files, group_of_files].map(u64::from);
    let message =
        (1_u32..).zip(numbers).fold(Message::new(), |message, (field, value)| message.num(field, value));
    let [inheritable, permitted, active, bounding, ambient] = who.capabilities;
    let message = message.nums(9, halves(inheritable)).nums(10, halves(permitted));
    let message = message.nums(11, halves(active)).nums(12, halves(bounding));
    let message = message.num(13, who.securebits).nums(14, who.groups.iter().map(|group| u64::from(*group)));
    message.num(18, u64::from(who.no_new_privileges)).nums(19, halves(ambient))
}

/// Credentials out of `creds_entry`.
pub fn credentials_of(from: &Fields<'_>) -> Credentials {
    let set = |field| {
        let halves = from.nums(field);
        halves.first().copied().unwrap_or(0) & 0xffff_ffff | halves.get(1).copied().unwrap_or(0) << 32
    };
    let four = |fields: [u32; 4]| fields.map(|field| from.num(field) as u32);
    Credentials {
        uids: four([1, 3, 5, 7]),
        gids: four([2, 4, 6, 8]),
        groups: from.nums(14).into_iter().map(|group| group as u32).collect(),
        capabilities: [set(9), set(10), set(11), set(12), set(19)],
        no_new_privileges: from.num(18) != 0,
        securebits: from.num(13),
    }
}

/// `signal_queue_entry`.
pub fn signals(queue: &[Signal]) -> Message {
    queue.iter().fold(Message::new(), |message, one| message.message(1, Message::new().bytes(1, &one.info)))
}

/// Signals out of `signal_queue_entry`.
pub fn signals_of(from: &Fields<'_>) -> Vec<Signal> {
    let infos = from.messages(1);
    let infos = infos.filter_map(|one| one.all_bytes(1).last().map(<[u8]>::to_vec));
    infos.filter(|info| info.len() == 128).map(|info| Signal { info }).collect()
}

/// `thread_core_entry`; `leader` has its mask elsewhere.
pub fn thread_core(thread: &Thread, leader: bool) -> Message {
    let [policy, nice, priority] = thread.schedule;
    let mut message = Message::new().num(1, thread.robust[0]).num(2, thread.robust[1]);
    message = message.zigzag(3, nice.into()).num(4, policy as u32);
    if priority > 0 {
        message = message.num(5, priority as u32);
    }
    if !leader {
        message = message.num(6, thread.mask);
    }
    let [address, flags, len] = thread.altstack;
    message = message.message(7, Message::new().num(1, address).num(2, len).num(3, flags));
    if thread.parent_death_signal != 0 {
        message = message.num(8, thread.parent_death_signal as u32);
    }
    message = message.message(9, signals(&thread.pending)).message(10, credentials(&thread.credentials));
    message = message.bytes(13, &thread.name);
    if let Some(rseq) = thread.rseq {
        let inner = Message::new().num(1, rseq.address).num(2, rseq.len).num(3, rseq.signature);
        message = message.message(15, inner);
    }
    message
}

/// A thread out of its `core_entry`; the leader's mask and name stand with the process.
pub fn thread(tid: i32, core: &Fields<'_>) -> Thread {
    let (info, from) = (core.message(2), core.message(5));
    let stack = from.message(7);
    let rseq = from.message(15);
    // Processors are not in the image: all.
    let affinity = vec![u64::MAX; 16];
    Thread {
        tid,
        name: from.text(13),
        registers: registers(&info),
        xstate: extended(&info),
        mask: from.num(6),
        pending: signals_of(&from.message(9)),
        altstack: [stack.num(1), stack.num(3), stack.num(2)],
        robust: [from.num(1), if from.num(1) == 0 { 0 } else { from.num(2) }],
        clear_tid: info.num(1),
        rseq: (rseq.num(1) != 0).then(|| Rseq {
            address: rseq.num(1),
            len: rseq.num(2) as u32,
            signature: rseq.num(3) as u32,
        }),
        schedule: [from.num(4) as i32, from.zigzag(3) as i32, from.num(5) as i32],
        affinity,
        parent_death_signal: from.num(8) as i32,
        timer_slack_ns: 50_000,
        credentials: credentials_of(&from.message(10)),
    }
}
