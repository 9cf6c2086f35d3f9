//! Bytes into the registers of a system call, and the memory that they point to.

/// Bytes of the call's head: its number, six arguments of three bytes, the result of two.
const HEAD: usize = 21;
/// Calls whose arguments are looked at, by their numbers on x86-64.
const CALLS: [i64; 46] = [
    1, 18, 20, 296, 328, 2, 257, 437, 85, 76, 77, 285, 82, 264, 316, 86, 265, 88, 266, 87, 263, 83, 258, 84,
    133, 259, 74, 75, 277, 306, 162, 26, 9, 40, 275, 326, 16, 188, 190, 197, 209, 208, 207, 44, 46, 28,
];

/// `AT_FDCWD`.
const HERE: i64 = -100;

/// What the tracer takes some call for; nothing of too few bytes.
pub fn tried(bytes: &[u8]) -> Vec<String> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else { return Vec::new() };
    let mut memory = rest.to_vec();
    memory.resize(memory.len().next_multiple_of(8).max(64), 0);
    let base = memory.as_ptr() as u64;
    // Words with this top byte point into the memory: vectors, requests.
    for at in (0..memory.len()).step_by(8) {
        if memory[at + 7] == 0xAA {
            let inside =
                u64::from(u16::from_le_bytes([memory[at], memory[at + 1]])) % rest.len().max(1) as u64;
            memory[at..at + 8].copy_from_slice(&(base + inside).to_ne_bytes());
        }
    }
    let argument = |at: usize| {
        let [kind, low, high] = [head[1 + 3 * at], head[2 + 3 * at], head[3 + 3 * at]];
        let number = u64::from(u16::from_le_bytes([low, high]));
        match kind % 8 {
            0 => number % 32,
            1 => number,
            2 | 3 => base + number % memory.len() as u64,
            4 => (-(i64::from(low))) as u64,
            5 => u64::MAX - number,
            6 => number << 32,
            _ => HERE as u64,
        }
    };
    let number = match head[0] {
        unknown if unknown as usize >= CALLS.len() => i64::from(unknown),
        known => CALLS[known as usize],
    };
    let arguments = [0, 1, 2, 3, 4, 5].map(argument);
    let result = u64::from(u16::from_le_bytes([head[19], head[20]]));
    let found = tracer::decoded(number, arguments, result);
    drop(memory);
    found
}
