//! The configuration of TLS.

use std::sync::Arc;

use consign_core::transport::ErrorKind;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{error::Failure, options::Options};

fn refused(detail: &'static str) -> Failure {
    Failure::new(ErrorKind::InvalidArgument, detail)
}

/// Trusts the authorities of the system, and those of the options.
pub(crate) fn config(options: &Options) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(pem) = &options.certificates {
        let added = certificates(pem).ok().map(|certificates| roots.add_parsable_certificates(certificates).0);
        if added.is_none_or(|added| added == 0) {
            return Err(refused("the certificates of authorities are not PEM"));
        }
    }
    if roots.is_empty() {
        return Err(refused("the system trusts no certificate, and the options have none"));
    }
    let provider = provider().ok_or_else(|| Failure::new(ErrorKind::NotSupported, NO_PROVIDER))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| refused("no version of TLS is left"))?
        .with_root_certificates(roots);
    let Some((chain, key)) = &options.client_certificate else { return Ok(Arc::new(config.with_no_client_auth())) };
    let chain = certificates(chain).ok().filter(|chain| !chain.is_empty());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok();
    let (Some(chain), Some(key)) = (chain, key) else {
        return Err(refused("the client certificate and its key are not PEM"));
    };
    let config = config.with_client_auth_cert(chain, key);
    Ok(Arc::new(config.map_err(|_| refused("the client certificate does not fit its key"))?))
}

const NO_PROVIDER: &str = "no cryptography provider: enable the feature `tls-aws-lc` or `tls-ring` of consign-amqp10, or install one \
     by `rustls::crypto::CryptoProvider::install_default`";

/// The provider that the process has installed, or else that of a feature.
fn provider() -> Option<Arc<CryptoProvider>> {
    CryptoProvider::get_default().cloned().or_else(of_feature)
}

#[cfg(feature = "tls-aws-lc")]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn of_feature() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc")))]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn of_feature() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::ring::default_provider()))
}

#[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn of_feature() -> Option<Arc<CryptoProvider>> {
    None
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tls-aws-lc")]
    #[test]
    fn the_installed_provider_comes_before_that_of_a_feature() {
        let mut own = rustls::crypto::aws_lc_rs::default_provider();
        own.cipher_suites.truncate(1);
        assert!(own.install_default().is_ok(), "no other test installs one");
        let used = provider().map(|provider| provider.cipher_suites.len());
        assert_eq!(used, Some(1));
    }

    #[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
    #[test]
    fn without_a_provider_the_error_names_the_features() {
        let failure = config(&Options::default()).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::NotSupported);
        assert!(failure.to_string().contains("`tls-aws-lc` or `tls-ring`"), "{failure}");
    }

    #[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
    #[test]
    fn what_is_not_pem_is_refused_without_being_shown() {
        for options in [Options::default().certificates("secret"), Options::default().client_certificate("a", "secret")]
        {
            let failure = config(&options).unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
            assert!(!format!("{failure} {options:?}").contains("secret"), "{failure} {options:?}");
        }
    }
}
