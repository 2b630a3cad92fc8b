//! The configuration of TLS.

use std::sync::Arc;

use consign_core::transport::ErrorKind;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject},
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
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let added = parsed.ok().map(|certificates| roots.add_parsable_certificates(certificates).0);
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
    Ok(Arc::new(config.with_no_client_auth()))
}

const NO_PROVIDER: &str = "no cryptography provider: enable the feature `tls-aws-lc` or `tls-ring` of consign-servicebus, or install one \
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let options = Options::default().certificates("secret");
        let failure = config(&options).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
        assert!(!format!("{failure} {options:?}").contains("secret"));
    }
}
