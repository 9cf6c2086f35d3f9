//! The links between sockets.

use device::{Direction, Link, LinkTiming};

use crate::{Config, Sockets, Time};

/// The links of all sockets to the one that has the memory.
#[derive(Clone, Debug)]
pub(crate) struct Interconnect {
    cores_per_socket: u32,
    /// By socket; the memory's own needs none.
    links: Vec<Option<Link>>,
}

impl Interconnect {
    pub(crate) fn new(config: &Config) -> Self {
        let link = |sockets: &Sockets, socket| (socket != sockets.home).then(|| Link::new(&sockets.link));
        match &config.sockets {
            None => Interconnect { cores_per_socket: config.cores.count, links: vec![None] },
            Some(sockets) => Interconnect {
                cores_per_socket: config.cores.count / sockets.count,
                links: (0..sockets.count).map(|socket| link(sockets, socket)).collect(),
            },
        }
    }

    /// When a request of `core` is at the memory's socket.
    pub(crate) fn request(&mut self, core: u32, at: Time, kind: Direction) -> Time {
        self.link(core).map_or(at, |link| link.request(at, kind))
    }

    /// When the answer is back at the core's.
    pub(crate) fn response(&mut self, core: u32, at: Time, kind: Direction) -> Time {
        self.link(core).map_or(at, |link| link.response(at, kind))
    }

    /// When `core` knows that no cache of the memory's socket has a line.
    pub(crate) fn ask(&mut self, core: u32, at: Time) -> Time {
        self.link(core).map_or(at, |link| link.ask(at))
    }

    /// What a question, and a write and its answer, of `core` take on the way if nothing else is on it.
    pub(crate) fn idle(&mut self, core: u32) -> [Time; 2] {
        self.link(core).map_or([Time::ZERO; 2], |link| {
            let LinkTiming { latency, message, write_line, .. } = *link.timing();
            [(latency + message) * 2, latency * 2 + write_line + message]
        })
    }

    fn link(&mut self, core: u32) -> Option<&mut Link> {
        self.links.get_mut((core / self.cores_per_socket) as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Read, Write};

    const NS: fn(u64) -> Time = Time::from_ns;

    fn timing() -> LinkTiming {
        LinkTiming { latency: NS(30), message: NS(1), read_line: NS(4), write_line: NS(5), mix: NS(0) }
    }

    #[test]
    fn only_cores_of_other_sockets_cross_a_link() {
        let mut config = Config::preset("dram").unwrap();
        config.sockets = Some(Sockets { count: 2, home: 1, link: timing() });
        config.cores.count = 8;
        let mut between = Interconnect::new(&config);
        assert_eq!(between.request(3, NS(100), Read), NS(131));
        assert_eq!(between.request(4, NS(100), Read), NS(100));
        assert_eq!(between.response(7, NS(100), Write), NS(100));
        config.sockets = None;
        assert_eq!(Interconnect::new(&config).request(3, NS(100), Write), NS(100));
    }
}
