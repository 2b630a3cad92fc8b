//! What authorizes a client: keys, signatures, and credentials of the application.

use std::{error, fmt, sync::Arc, time::Duration};

use consign_core::{
    time::{Clock, SystemClock, Timestamp},
    transport::BoxFuture,
};

use crate::sas;

/// Returns tokens for a client, as `TokenCredential` of the Azure SDKs does.
///
/// The transport requests a token for each entity that it uses, and another one before it expires.
///
/// # Examples
///
/// A credential that has its tokens from another service:
///
/// ```
/// use consign_core::transport::BoxFuture;
/// use consign_servicebus::{AccessToken, CredentialError, TokenCredential, TokenType};
///
/// struct FromVault;
///
/// impl TokenCredential for FromVault {
///     fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
///         let audience = audience.to_owned();
///         Box::pin(async move {
///             // A token of Microsoft Entra ID has the scope `https://servicebus.azure.net/.default`.
///             Ok(AccessToken::new(TokenType::Jwt, format!("token for {audience}")))
///         })
///     }
/// }
/// ```
pub trait TokenCredential: Send + Sync + 'static {
    /// Returns a token for an audience. The path of an entity is in lower case:
    ///
    /// | of | audience |
    /// |---|---|
    /// | the links to an entity | `sb://host/path` |
    /// | the administration of an entity | `https://host/path` |
    /// | the lists of the administration | `https://host/` |
    ///
    /// # Errors
    ///
    /// The credential has no token. The transport tries again if the error [is temporary](CredentialError::temporary).
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>>;
}

impl<T: TokenCredential + ?Sized> TokenCredential for Arc<T> {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        (**self).token(audience)
    }
}

/// The kind of an [`AccessToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenType {
    /// A shared access signature.
    SharedAccessSignature,
    /// A JSON Web Token, such as one of Microsoft Entra ID.
    Jwt,
}

impl TokenType {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SharedAccessSignature => "servicebus.windows.net:sastoken",
            Self::Jwt => "jwt",
        }
    }
}

/// A token, and when it expires. `Debug` does not show the token.
#[derive(Clone)]
pub struct AccessToken {
    pub(crate) token_type: TokenType,
    pub(crate) token: String,
    pub(crate) expires_at: Option<Timestamp>,
}

impl AccessToken {
    /// Creates a token that does not expire as far as the client can tell.
    #[must_use]
    pub fn new(token_type: TokenType, token: impl Into<String>) -> Self {
        Self { token_type, token: token.into(), expires_at: None }
    }

    /// Sets when the token expires. It is renewed before.
    #[must_use]
    pub fn with_expiry(mut self, at: Timestamp) -> Self {
        self.expires_at = Some(at);
        self
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken")
            .field("token_type", &self.token_type)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A credential that has no token.
#[derive(Debug)]
pub struct CredentialError {
    is_temporary: bool,
    source: Box<dyn error::Error + Send + Sync>,
}

impl CredentialError {
    /// Creates an error after which another attempt is useless. The text of the cause must not have a secret.
    pub fn new(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self { is_temporary: false, source: source.into() }
    }

    /// Creates an error after which another attempt may succeed.
    pub fn temporary(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self { is_temporary: true, ..Self::new(source) }
    }

    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the credential has no token: {}", self.source)
    }
}

impl error::Error for CredentialError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// A shared access key, which signs tokens that are valid for an hour. `Debug` does not show the key.
#[derive(Clone)]
pub struct SharedAccessKey {
    name: String,
    key: String,
    lifetime: Duration,
    clock: Arc<dyn Clock>,
}

impl SharedAccessKey {
    /// Creates a credential of a key and its name.
    #[must_use]
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            key: key.into(),
            lifetime: Duration::from_secs(3_600),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Sets how long a token is valid, at least 1 s. An hour by default.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime.max(Duration::from_secs(1));
        self
    }

    /// Sets the clock by which tokens expire. A [`SystemClock`] by default.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

impl TokenCredential for SharedAccessKey {
    fn token(&self, audience: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        let seconds = self.clock.now().utc.saturating_add(self.lifetime).as_millis() / 1_000;
        let signed = sas::sign(audience, seconds, &self.name, &self.key);
        let token = signed.ok_or_else(|| CredentialError::new("the key cannot sign")).map(|signature| {
            let expiry = Timestamp::from_millis(seconds.saturating_mul(1_000));
            AccessToken::new(TokenType::SharedAccessSignature, signature).with_expiry(expiry)
        });
        Box::pin(std::future::ready(token))
    }
}

impl fmt::Debug for SharedAccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAccessKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A shared access signature that was signed elsewhere. It cannot be renewed. `Debug` does not show it.
#[derive(Clone)]
pub struct SharedAccessSignature(AccessToken);

impl SharedAccessSignature {
    /// Creates a credential of `SharedAccessSignature sr=...&sig=...&se=...&skn=...`.
    #[must_use]
    pub fn new(signature: impl Into<String>) -> Self {
        let signature = signature.into();
        let expiry = sas::expiry(&signature);
        let token = AccessToken::new(TokenType::SharedAccessSignature, signature);
        Self(match expiry {
            Some(seconds) => token.with_expiry(Timestamp::from_millis(seconds.saturating_mul(1_000))),
            None => token,
        })
    }
}

impl TokenCredential for SharedAccessSignature {
    fn token(&self, _: &str) -> BoxFuture<Result<AccessToken, CredentialError>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

impl fmt::Debug for SharedAccessSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAccessSignature").field("expires_at", &self.0.expires_at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use consign_core::time::ManualClock;

    use super::*;

    #[tokio::test]
    async fn no_debug_and_no_error_shows_a_secret() {
        let key = SharedAccessKey::new("root", "cret");
        let token = key.token("sb://h/q").await.unwrap();
        let signature = SharedAccessSignature::new("SharedAccessSignature sr=a&sig=cret&se=5");
        for shown in [format!("{key:?}"), format!("{signature:?}")] {
            assert!(!shown.contains("cret"), "{shown}");
        }
        assert!(!format!("{token:?}").contains("sig="), "{token:?}");
    }

    #[tokio::test]
    async fn a_key_signs_for_its_lifetime_and_a_signature_knows_its_own() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_500));
        let key = SharedAccessKey::new("root", "key").lifetime(Duration::from_secs(60)).clock(clock);
        let token = key.token("sb://h/q").await.unwrap();
        assert_eq!(token.expires_at, Some(Timestamp::from_millis(1_060_000)));
        assert!(token.token.contains("&se=1060&"), "{}", token.token);
        let signature = SharedAccessSignature::new(token.token).token("").await.unwrap();
        assert_eq!(signature.expires_at, Some(Timestamp::from_millis(1_060_000)));
    }
}
