use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

/// Returns whether connections are encrypted: if that is required, or if nothing is configured and a host is another machine.
pub(crate) fn is_wanted(config: &Config) -> bool {
    match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Prefer => {
            config.get_hosts().iter().any(|host| !is_here(host))
                || config.get_hostaddrs().iter().any(|address| !address.is_loopback())
        }
        _ => true,
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Returns a TLS connector that trusts the certificates of the system, and those of the options.
#[cfg(feature = "tls")]
pub(crate) fn connector(
    options: &crate::Options,
) -> Result<tokio_postgres_rustls::MakeRustlsConnect, consign_core::transport::ManageError> {
    use consign_core::transport::{ErrorKind, ManageError};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

    // No error has a part of a file.
    let malformed = |detail: &'static str| ManageError::new(ErrorKind::InvalidArgument).with_detail(detail);
    let chain = |pem: &str| {
        let parsed: Option<Vec<_>> = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::ok).collect();
        parsed.filter(|chain: &Vec<CertificateDer<'static>>| !chain.is_empty())
    };
    let refused = |detail: &'static str| ManageError::new(ErrorKind::General).with_detail(detail);
    let mut roots = rustls::RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if let Some(pem) = &options.certificates {
        let added = chain(pem).map_or(0, |chain| roots.add_parsable_certificates(chain).0);
        if added == 0 {
            return Err(malformed("the certificates of authorities are not PEM"));
        }
    }
    if roots.is_empty() {
        return Err(refused("the system trusts no certificate, and the options have none"));
    }
    let no_provider = "no cryptography provider: enable the feature `tls-aws-lc` or `tls-ring` of consign-postgres, or install \
                       one by `rustls::crypto::CryptoProvider::install_default`";
    let unsupported = || ManageError::new(ErrorKind::NotSupported).with_detail(no_provider);
    let provider = provider().ok_or_else(unsupported)?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("no version of TLS is left").with_source(error))?;
    let config = config.with_root_certificates(roots);
    let config = match &options.client_certificate {
        None => config.with_no_client_auth(),
        Some((certificates, key)) => {
            let malformed = || malformed("the certificate of the client or its key is not PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| malformed())?;
            let chain = chain(certificates).ok_or_else(malformed)?;
            config.with_client_auth_cert(chain, key).map_err(|error| {
                ManageError::new(ErrorKind::InvalidArgument)
                    .with_detail("the certificate of the client and its key cannot be used")
                    .with_source(error)
            })?
        }
    };
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}

/// The provider that the process has installed, or else that of a feature.
#[cfg(feature = "tls")]
#[allow(clippy::unnecessary_wraps, reason = "without a feature there is none")]
fn provider() -> Option<std::sync::Arc<rustls::crypto::CryptoProvider>> {
    if let Some(installed) = rustls::crypto::CryptoProvider::get_default() {
        return Some(std::sync::Arc::clone(installed));
    }
    #[cfg(feature = "tls-aws-lc")]
    return Some(std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc")))]
    return Some(std::sync::Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
    None
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

    #[cfg(all(feature = "tls", not(any(feature = "tls-aws-lc", feature = "tls-ring"))))]
    #[test]
    fn without_a_provider_the_error_names_the_features() {
        let error = connector().err().unwrap();
        assert!(error.to_string().contains("`tls-aws-lc` or `tls-ring`"), "{error}");
    }

    #[test]
    fn connections_to_other_machines_use_tls_by_default() {
        for (url, wanted) in [
            ("postgresql://u@127.0.0.1/d", false),
            ("postgresql://u@localhost,[::1]/d", false),
            ("host=/run/postgresql user=u", false),
            ("postgresql://u@db.example/d", true),
            ("postgresql://u@localhost,db.example/d", true),
            ("host=localhost hostaddr=192.0.2.1 user=u", true),
            ("postgresql://u@db.example/d?sslmode=disable", false),
            ("postgresql://u@127.0.0.1/d?sslmode=require", true),
        ] {
            assert_eq!(is_wanted(&url.parse().unwrap()), wanted, "{url}");
        }
    }
}
