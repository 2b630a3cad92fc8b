use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
};

use super::Error;

/// Reads a certificate chain and its key.
pub(super) fn config(certificates: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let chain = CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unreadable(certificates, &error))?;
    if chain.is_empty() {
        return Err(Error::Pem { file: certificates.into(), text: "it has no certificate".into() });
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(provider().ok_or(Error::NoProvider)?))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(Error::Tls)?;
    Ok(Arc::new(config))
}

#[cfg(feature = "tls-aws-lc")]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn provider() -> Option<CryptoProvider> {
    Some(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc")))]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn provider() -> Option<CryptoProvider> {
    Some(rustls::crypto::ring::default_provider())
}

#[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn provider() -> Option<CryptoProvider> {
    None
}

fn unreadable(file: &Path, error: &pem::Error) -> Error {
    // The other errors show bytes of the file.
    let text = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it has no key".into(),
        _ => "it is not PEM".into(),
    };
    Error::Pem { file: file.into(), text }
}
