//! Credentials of the Azure SDK for Rust.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::{
    Error,
    credentials::{AccessToken, TokenCredential, TokenRequestOptions},
    error::ErrorKind,
    time::OffsetDateTime,
};
use consign::administration::QueueSettings;
use consign_server::auth::{Access, Authorizer, Credentials, Denied, Grant, Rights, Token};
use consign_servicebus::EntraCredential;

use super::{InMemory, create, send};

/// Has no token at first.
#[derive(Debug, Default)]
struct Fake(Mutex<Vec<String>>);

#[async_trait]
impl TokenCredential for Fake {
    async fn get_token(&self, scopes: &[&str], _: Option<TokenRequestOptions<'_>>) -> azure_core::Result<AccessToken> {
        let mut asked = self.0.lock().unwrap();
        asked.push(scopes.join(" "));
        if asked.len() == 1 {
            let kind = ErrorKind::HttpResponse { status: 429.into(), error_code: None, raw_response: None };
            return Err(Error::new(ErrorKind::Credential, Error::new(kind, "throttled")));
        }
        // An hour after the beginning of the test.
        Ok(AccessToken::new("s3cret", OffsetDateTime::from_unix_timestamp(1_700_003_600).unwrap()))
    }
}

/// Accepts the tokens of the fake.
struct OfFake;

impl Authorizer for OfFake {
    fn authenticate(&self, _: &Credentials<'_>) -> Result<Access, Denied> {
        Ok(Access::ByToken)
    }

    fn authorize(&self, token: &Token<'_>) -> Result<Grant, Denied> {
        match (token.token_type, token.token) {
            ("jwt", "s3cret") => Ok(Grant::new(Rights::MANAGE)),
            _ => Err(Denied::new("another token")),
        }
    }
}

/// Rules: K-300, K-304, K-306.
#[tokio::test(start_paused = true)]
async fn a_credential_of_the_azure_sdk_has_tokens_of_its_scope() {
    let server = InMemory::with(|_, builder| builder.authorizer(OfFake));
    let orders = create(&server, QueueSettings::default()).await;
    let fake = Arc::new(Fake::default());
    let credential = EntraCredential::new(fake.clone());
    let shown = format!("{credential:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let service_bus = server.connect_with(credential).await;
    send(&service_bus, &orders, &["a"]).await;
    let asked = fake.0.lock().unwrap().clone();
    assert_eq!(asked, ["https://servicebus.azure.net/.default"; 2]);
}
