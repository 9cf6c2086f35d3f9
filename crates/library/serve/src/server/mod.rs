//! A server: listens, serves clients, ends in order.

mod connection;
pub mod error;
mod hub;
pub mod settings;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keyspace::{Core, Keyspace, Records, Settings};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use error::Error;
use hub::{Hub, now};
use settings::Options;

/// From one look for what expired or was deleted to the next.
const TIDY_EVERY: Duration = Duration::from_millis(100);
/// How long a handshake, and the end of all connections, may take.
const GRACE: Duration = Duration::from_secs(10);

/// Serves what the records hold until SIGINT, SIGTERM or `SHUTDOWN`. `ready` is called with the address once
/// clients can come.
///
/// # Errors
/// If it can't listen, the records are no store of this kind, or what was written can't be made durable.
pub fn run(records: Arc<dyn Records>, options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let wanted = SocketAddr::new(options.bind, options.port);
    if !options.bind.is_loopback() && options.password.is_none() {
        return Err(Error::Open(wanted));
    }
    let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let listen = |source| Error::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(listen)?;
        let address = listener.local_addr()?;
        let hub = Arc::new(open(records, options, address)?);
        let mut ends = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        ready(address);
        let together = tokio::spawn(Arc::clone(&hub).make_durable_together());
        let tidying = tokio::spawn(tidy_up(Arc::clone(&hub)));
        let mut ended = hub.ends.subscribe();
        let [interrupt, terminate] = &mut ends;
        tokio::select! {
            () = accept(&hub, &listener, tls) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = ended.wait_for(|ends| *ends) => {}
        }
        drop(listener);
        hub.ends.send_replace(true);
        _ = tokio::time::timeout(GRACE, all_gone(&hub)).await;
        together.abort();
        tidying.abort();
        finished(&hub)
    });
    runtime.shutdown_timeout(GRACE);
    result
}

fn finished(hub: &Hub) -> Result<(), Error> {
    if let Some(why) = hub.broken() {
        return Err(Error::Broken(why));
    }
    hub.finish().map_err(|trouble| Error::Broken(trouble.to_string()))
}

fn open(records: Arc<dyn Records>, options: Options, address: SocketAddr) -> Result<Hub, Error> {
    let mut seeds = fastrand::Rng::with_seed(options.seed);
    let store = |source| Error::Store { path: options.path.clone().into(), source };
    let keyspace = Keyspace::open(records, [seeds.u64(..), seeds.u64(..)]).map_err(store)?;
    let settings = Settings {
        password: options.password.clone(),
        port: address.port(),
        bind: address.ip().to_string(),
        connections: options.connections,
        argument: options.request,
        value: options.request,
        durable: !options.early,
        engine: options.engine.clone(),
        path: options.path.clone(),
    };
    Ok(Hub::new(Core::new(keyspace, settings, seeds.u64(..), now()), options))
}

async fn accept(hub: &Arc<Hub>, listener: &TcpListener, tls: Option<TlsAcceptor>) {
    let mut id = 0;
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            // Out of descriptors, as a rule: some are given back soon.
            tokio::time::sleep(TIDY_EVERY).await;
            continue;
        };
        id += 1;
        let full = {
            let shared = &mut hub.core().shared;
            let full = shared.clients.len() >= hub.options.connections;
            shared.stats.connections += 1;
            shared.stats.refused += u64::from(full);
            full
        };
        if full {
            tokio::spawn(refuse(stream));
        } else {
            tokio::spawn(greet(Arc::clone(hub), stream, address, id, tls.clone()));
        }
    }
}

async fn refuse(mut stream: TcpStream) {
    let words = b"-ERR max number of clients reached\r\n";
    _ = tokio::time::timeout(GRACE, stream.write_all(words)).await;
}

async fn greet(hub: Arc<Hub>, stream: TcpStream, address: SocketAddr, id: u64, tls: Option<TlsAcceptor>) {
    _ = stream.set_nodelay(true);
    let ours = stream.local_addr().unwrap_or(address);
    match tls {
        None => connection::serve(hub, stream, [address, ours], id).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(GRACE, tls.accept(stream)).await {
                connection::serve(hub, stream, [address, ours], id).await;
            }
        }
    }
}

/// Removes what expired or was deleted, a little at a time.
async fn tidy_up(hub: Arc<Hub>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        let records = Arc::clone(hub.core().keyspace.records());
        // On a thread of its own: it copies what is still needed.
        _ = tokio::task::spawn_blocking(move || while matches!(records.tidy_up(), Ok(true)) {}).await;
        loop {
            let result = hub.core().tidy_up(now());
            match result {
                Ok(true) => tokio::task::yield_now().await,
                // A store without room stays as it is; it is tried again.
                Ok(false) | Err(_) => break,
            }
        }
    }
}

async fn all_gone(hub: &Hub) {
    while !hub.core().shared.clients.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
