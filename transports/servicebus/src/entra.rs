//! Credentials of the Azure SDK for Rust.

use std::{error::Error, sync::Arc};

use azure_core::{
    credentials::TokenCredential as AzureCredential,
    error::{Error as AzureError, ErrorKind},
};
use consign_core::{time::Timestamp, transport::BoxFuture};

use crate::{AccessToken, CredentialError, TokenCredential, TokenType};

/// The tokens of a credential of `azure_core`, such as one of the crate `azure_identity`: those of Microsoft Entra ID.
///
/// The credential caches its tokens. An error of the network, and a status of HTTP that may pass, is
/// [temporary](CredentialError::is_temporary).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use azure_core::credentials::TokenCredential;
/// use consign_servicebus::{EntraCredential, ServiceBus};
///
/// # async fn run(credential: Arc<dyn TokenCredential>) -> Result<(), consign::transport::ManageError> {
/// // Such as `azure_identity::ManagedIdentityCredential::new(None)?`.
/// let credential = EntraCredential::new(credential);
/// let service_bus = ServiceBus::options().connect_with("example.servicebus.windows.net", credential).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EntraCredential {
    credential: Arc<dyn AzureCredential>,
    scope: String,
}

impl EntraCredential {
    /// Creates a credential with the scope `https://servicebus.azure.net/.default`.
    #[must_use]
    pub fn new(credential: Arc<dyn AzureCredential>) -> Self {
        Self { credential, scope: "https://servicebus.azure.net/.default".into() }
    }

    /// Sets the scope of the tokens, which clouds of a government may have another one of.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }
}

impl TokenCredential for EntraCredential {
    /// The token is that of the scope, for each audience.
    fn token(&self, _: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        let Self { credential, scope } = self.clone();
        Box::pin(async move {
            let token = credential.get_token(&[&scope], None).await.map_err(failed)?;
            let expiry = i64::try_from(token.expires_on.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX);
            Ok(AccessToken::new(TokenType::Jwt, token.token.secret()).with_expiry(Timestamp::from_millis(expiry)))
        })
    }
}

fn failed(error: AzureError) -> CredentialError {
    if is_temporary(&error) { CredentialError::temporary(error) } else { CredentialError::new(error) }
}

/// Credentials report what they do not have a kind for as one of their own, with the cause as its source.
fn is_temporary(error: &AzureError) -> bool {
    match error.kind() {
        ErrorKind::Connection | ErrorKind::Io => true,
        ErrorKind::HttpResponse { status, .. } => matches!(u16::from(*status), 408 | 429 | 500 | 502..=504),
        _ => error.source().and_then(|source| source.downcast_ref()).is_some_and(is_temporary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(error: AzureError) -> bool {
        failed(error).is_temporary()
    }

    #[test]
    fn errors_of_the_network_are_temporary() {
        let http = |status: u16| {
            AzureError::new(
                ErrorKind::HttpResponse { status: status.into(), error_code: None, raw_response: None },
                "refused",
            )
        };
        for status in [408, 429, 500, 503] {
            assert!(temporary(http(status)), "{status}");
            assert!(temporary(AzureError::new(ErrorKind::Credential, http(status))), "{status}");
        }
        assert!(temporary(AzureError::with_message(ErrorKind::Connection, "no route")));
        assert!(!temporary(http(400)) && !temporary(http(501)));
        assert!(!temporary(AzureError::with_message(ErrorKind::Credential, "not logged in")));
        assert!(!temporary(AzureError::new(ErrorKind::Credential, http(401))));
    }
}
