//! The configuration of TLS.

use std::sync::Arc;

use consign_core::transport::ErrorKind;
use rustls::{
    ClientConfig, RootCertStore,
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
    #[cfg(feature = "tls-aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "tls-aws-lc"))]
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| refused("no version of TLS is left"))?
        .with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_pem_is_refused_without_being_shown() {
        let options = Options::default().certificates("secret");
        let failure = config(&options).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
        assert!(!format!("{failure} {options:?}").contains("secret"));
    }
}
