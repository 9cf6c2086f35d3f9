//! TLS by rustls.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::server::error::Error;
use crate::server::settings::Tls;

/// What takes TLS connections.
///
/// # Errors
/// If the certificate or its key can't be read, or they do not belong together.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, Error> {
    let wrong = |path: &Path, why: String| Error::Tls { path: path.to_owned(), why };
    let read = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect);
    let chain: Vec<_> = read.map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&tls.certificate, "there is no certificate in it".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong(&tls.key, error.to_string()))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let config = config.map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
