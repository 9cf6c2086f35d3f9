//! A medium that is slower than this computer's memory, by waiting: latency + bytes / bandwidth for each access.
//!
//! The wait counts from the start of the access, so the copy itself is part of it, and the bandwidth that comes out is the
//! medium's as long as this computer's memory is faster. What the wait itself takes is measured once and taken off.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// What a medium is like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Medium {
    /// Latency of a read, in nanoseconds.
    pub read_ns: u64,
    /// Latency of a write, in nanoseconds.
    pub write_ns: u64,
    /// Bytes per second; none if it is as fast as this computer's memory.
    pub bytes_per_second: Option<u64>,
    /// Whether the processor waits (memory: it loads and stores), or only the message (a network).
    pub occupies_core: bool,
}

impl Medium {
    /// This computer's memory.
    pub const DRAM: Medium = Medium { read_ns: 0, write_ns: 0, bytes_per_second: None, occupies_core: true };
    /// Phase-change memory behind a fabric: 1 us, 2 GB/s.
    pub const PCM: Medium =
        Medium { read_ns: 1000, write_ns: 1000, bytes_per_second: Some(2_000_000_000), occupies_core: true };
    /// Ethernet of 10 Gb/s.
    pub const ETHERNET_10G: Medium =
        Medium { read_ns: 0, write_ns: 0, bytes_per_second: Some(1_250_000_000), occupies_core: false };

    /// How long an access takes at least.
    #[must_use]
    pub fn time(&self, way: Way, bytes: u64) -> Duration {
        let latency = match way {
            Way::Read => self.read_ns,
            Way::Write => self.write_ns,
        };
        let transfer = self
            .bytes_per_second
            .map_or(0, |rate| (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64);
        Duration::from_nanos(latency + transfer)
    }
}

/// Makes accesses take as long as a medium's.
#[derive(Debug)]
pub struct Throttle {
    medium: Medium,
    origin: Instant,
    /// When the medium is free again, in nanoseconds from the origin: accesses of several threads share its bandwidth.
    free: AtomicU64,
}

impl Throttle {
    /// For one medium, shared by all who use this throttle.
    #[must_use]
    pub fn new(medium: Medium) -> Throttle {
        overhead();
        Throttle { medium, origin: Instant::now(), free: AtomicU64::new(0) }
    }

    /// The medium.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    /// Does an access, and returns once the medium would have done it.
    pub fn during<R>(&self, way: Way, bytes: u64, access: impl FnOnce() -> R) -> R {
        if self.medium.bytes_per_second.is_none() && self.medium.time(way, bytes).is_zero() {
            return access();
        }
        let start = self.origin.elapsed().as_nanos() as u64;
        let latency = self.medium.time(way, 0).as_nanos() as u64;
        let transfer = self.medium.time(way, bytes).as_nanos() as u64 - latency;
        let mut free = self.free.load(Ordering::Relaxed);
        let end = loop {
            let end = free.max(start) + transfer;
            match self.free.compare_exchange_weak(free, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break end + latency,
                Err(other) => free = other,
            }
        };
        let result = access();
        self.wait_until(end.saturating_sub(overhead()));
        result
    }

    fn wait_until(&self, end: u64) {
        /// Below this, sleeping would oversleep.
        const SPIN: u64 = 100_000;
        loop {
            let now = self.origin.elapsed().as_nanos() as u64;
            if now >= end {
                return;
            }
            if !self.medium.occupies_core && end - now > SPIN {
                std::thread::sleep(Duration::from_nanos(end - now - SPIN));
            }
            std::hint::spin_loop();
        }
    }
}

/// What two readings of the clock and a wait for nothing take, in nanoseconds.
fn overhead() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let best = (0..64).map(|_| {
            let start = Instant::now();
            let _ = std::hint::black_box(start.elapsed());
            start.elapsed().as_nanos() as u64
        });
        best.min().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_takes_latency_and_bytes_over_bandwidth() {
        assert_eq!(Medium::PCM.time(Way::Read, 4096), Duration::from_nanos(3048));
        assert_eq!(Medium::ETHERNET_10G.time(Way::Write, 1_250_000), Duration::from_millis(1));
        assert!(Medium::DRAM.time(Way::Write, 1 << 30).is_zero());
    }

    #[test]
    fn an_access_never_returns_before_the_medium_would() {
        let throttle = Throttle::new(Medium::PCM);
        let start = Instant::now();
        for _ in 0..100 {
            throttle.during(Way::Write, 4096, || ());
        }
        // The overhead that is taken off is far below a tenth of an access.
        assert!(start.elapsed() >= Duration::from_nanos(100 * 3048 * 9 / 10));
    }
}
