//! The cryptography provider for TLS.

use async_nats::rustls::crypto::CryptoProvider;

/// Why a connection with TLS is refused.
pub(crate) const NO_PROVIDER: &str = "no cryptography provider: enable the feature `tls-aws-lc` or `tls-ring` of consign-nats, or \
     install one by `rustls::crypto::CryptoProvider::install_default`";

/// Returns whether the process has a provider. The one of a feature is installed if it has none: async-nats uses that of the
/// process, and panics if there is none and rustls has two to choose from.
pub(crate) fn has_provider() -> bool {
    if CryptoProvider::get_default().is_some() {
        return true;
    }
    // Another thread may have installed one in between.
    #[cfg(feature = "tls-aws-lc")]
    let _ = async_nats::rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc")))]
    let _ = async_nats::rustls::crypto::ring::default_provider().install_default();
    CryptoProvider::get_default().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_installs_a_provider_and_keeps_the_one_that_is_there() {
        assert_eq!(has_provider(), cfg!(any(feature = "tls-aws-lc", feature = "tls-ring")));
        let first = CryptoProvider::get_default();
        has_provider();
        assert_eq!(first.map(std::sync::Arc::as_ptr), CryptoProvider::get_default().map(std::sync::Arc::as_ptr));
    }
}
