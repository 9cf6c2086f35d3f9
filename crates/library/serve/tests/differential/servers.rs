//! Redis, a server of ours, and connections to them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use keyspace::InMemory;
use redis_protocol::{resp2, resp3};
use serve::Options;

/// A Redis server that ends with this value.
pub struct Redis {
    child: Child,
    pub address: SocketAddr,
}

impl Redis {
    /// Starts one; none if it is not installed.
    pub fn start() -> Option<Redis> {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = free.local_addr().expect("it has an address");
        drop(free);
        let port = address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let redis = Redis { child, address };
        let waited = (0..500).find(|_| {
            std::thread::sleep(Duration::from_millis(10));
            TcpStream::connect(address).is_ok()
        });
        waited.expect("redis-server listens");
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Starts a server of ours, in this process and in memory.
pub fn ours() -> SocketAddr {
    ours_with(Options::default())
}

/// The same with options of its own.
pub fn ours_with(options: Options) -> SocketAddr {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let options = Options { port: 0, ..options };
        let ready = |address| sender.send(address).expect("somebody waits");
        serve::run(Arc::new(InMemory::default()), options, ready).expect("it runs");
    });
    receiver.recv().expect("it listens")
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
    three: bool,
}

impl Client {
    pub fn connect(address: SocketAddr, three: bool) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        let mut client = Client { stream, bytes: Vec::new(), three };
        if three {
            client.ask(&["HELLO", "3"].map(|word| word.as_bytes().to_vec()));
        }
        client
    }

    /// Sends requests in one piece.
    pub fn send(&mut self, requests: &[Vec<Vec<u8>>]) {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(format!("*{}\r\n", request.len()).bytes());
            for argument in request {
                bytes.extend(format!("${}\r\n", argument.len()).bytes());
                bytes.extend(argument);
                bytes.extend(b"\r\n");
            }
        }
        self.stream.write_all(&bytes).expect("it reads");
    }

    /// The bytes of the next reply.
    pub fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = whole(&self.bytes, self.three) {
                let rest = self.bytes.split_off(len);
                return std::mem::replace(&mut self.bytes, rest);
            }
            let mut piece = [0; 1 << 16];
            let count = self.stream.read(&mut piece).expect("it answers");
            assert!(count > 0, "the connection ended after {:?}", String::from_utf8_lossy(&self.bytes));
            self.bytes.extend(&piece[..count]);
        }
    }

    /// Bytes that come until the connection ends.
    pub fn rest(mut self) -> u64 {
        let mut count = 0;
        let mut piece = vec![0; 1 << 16];
        loop {
            match self.stream.read(&mut piece) {
                Ok(read) if read > 0 => count += read as u64,
                // A reset is an end, too: there were requests or replies on their way.
                _ => return count,
            }
        }
    }

    pub fn ask(&mut self, request: &[Vec<u8>]) -> Vec<u8> {
        self.send(&[request.to_vec()]);
        self.receive()
    }
}

/// Length of the reply at the beginning, if it is whole: a crate that we did not write says so.
fn whole(bytes: &[u8], three: bool) -> Option<usize> {
    let shown = || String::from_utf8_lossy(bytes);
    if three {
        let decoded = resp3::decode::complete::decode(bytes);
        return decoded.unwrap_or_else(|error| panic!("{error}: {:?}", shown())).map(|(_, len)| len);
    }
    let decoded = resp2::decode::decode(bytes);
    decoded.unwrap_or_else(|error| panic!("{error}: {:?}", shown())).map(|(_, len)| len)
}

/// The replies that an array, set or map consists of; none if it is none of these.
pub fn parts(reply: &[u8], three: bool) -> Option<Vec<Vec<u8>>> {
    if !matches!(reply.first()?, b'*' | b'~' | b'%') || reply.starts_with(b"*-1") {
        return None;
    }
    let head = reply.windows(2).position(|end| end == b"\r\n")? + 2;
    let (mut rest, mut parts) = (&reply[head..], Vec::new());
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(whole(rest, three)?);
        parts.push(part.to_vec());
        rest = behind;
    }
    Some(parts)
}
