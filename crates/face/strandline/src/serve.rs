//! `strandline serve`: a durable store behind Redis's protocol.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use device::Size;
use serde_json::json;
use serve::{Options, Store, Tls};

/// Arguments of `strandline serve`.
#[derive(Debug, Args)]
#[command(after_help = "docs/serve.md lists the commands, and says what is different from Redis.\n\n\
                        Examples:\n  strandline serve /var/lib/books\n  \
                        strandline serve --port 0 --json /dev/shm/books\n  \
                        strandline serve --bind 0.0.0.0 --password-file secret --tls-cert cert.pem \
                        --tls-key key.pem books\n  redis-cli -p 6379 SET author Woolf")]
pub struct ServeArgs {
    /// The store's file; made if it is not there
    store: PathBuf,
    /// The port; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 6379)]
    port: u16,
    /// The address to listen on. One that other machines reach needs a password
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// How a new store keeps values: appended to logs, the default, or in slots that are used again
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// When a write is answered: once it is durable, or before. Then a power failure can lose answered writes
    #[arg(long, value_enum, default_value_t = Ack::Durable)]
    ack: Ack,
    /// The password that clients need. Others on this machine can see it; see --password-file
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,
    /// The file whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Speak TLS, with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clients: usize,
    /// Bytes of a request, and of a string
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    request: Size,
    /// Bytes of replies that may wait for one client; then its requests wait
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    replies: Size,
    /// Bytes of replies that may wait for all clients; beyond that clients are dropped
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    all_replies: Size,
    /// Requests of one client in a row, before other clients get their turn
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive)]
    pipeline: usize,
    /// How long a client may leave replies unread until it is dropped
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// Seed of random choices, as of SPOP
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the address as JSON: {"address": ..., "port": ..., "engine": ...}
    #[arg(long)]
    json: bool,
}

/// How values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Log,
    Slab,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ack {
    Durable,
    Early,
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a number above 0".to_owned())
}

impl ServeArgs {
    fn password(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let password = match (&self.password, &self.password_file) {
            (Some(password), _) => password.clone().into_bytes(),
            (None, None) => return Ok(None),
            (None, Some(file)) => {
                let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
                bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end().to_vec()
            }
        };
        if password.is_empty() {
            bail!("the password is empty");
        }
        Ok(Some(password))
    }

    fn options(&self, engine: &str) -> anyhow::Result<Options> {
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        Ok(Options {
            bind: self.bind,
            port: self.port,
            password: self.password()?,
            tls: tls.map(|(certificate, key)| Tls { certificate, key }),
            early: self.ack == Ack::Early,
            connections: self.clients,
            request: self.request.0 as usize,
            queued: self.replies.0 as usize,
            queued_all: self.all_replies.0 as usize,
            pipeline: self.pipeline,
            patience: self.patience,
            seed: self.seed,
            engine: engine.to_owned(),
            path: self.store.display().to_string(),
        })
    }

    /// Says where clients find the server, which may be a script's to wait for.
    fn announce(&self, address: SocketAddr, engine: &str) {
        let text = if self.json {
            let value = json!({ "address": address.to_string(), "port": address.port(), "engine": engine });
            format!("{value}\n")
        } else {
            format!("{}: listening on {address}\n", self.store.display())
        };
        // Nobody may read it, which is no reason to stop.
        let mut out = std::io::stdout();
        _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Runs the verb until it is interrupted, or a client says `SHUTDOWN`.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let engine = args.engine.map(|engine| match engine {
        Engine::Log => serve::Engine::Log,
        Engine::Slab => serve::Engine::Slab,
    });
    args.password()?;
    let store = Arc::new(Store::open(&args.store, engine)?);
    let engine = store.engine();
    serve::run(store.clone(), args.options(engine)?, |address| args.announce(address, engine))?;
    if let Some(store) = Arc::into_inner(store) {
        store.close()?;
    }
    Ok(())
}
