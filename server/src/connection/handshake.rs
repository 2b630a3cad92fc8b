//! SASL.

use consign_amqp::{
    engine::{CommandError, Connection as Engine},
    types::{SaslCode, SaslInit},
};

use consign_core::transport::Escaped;

use crate::{
    auth::{Access, Authorizer, Credentials, Denied},
    log::warn_of,
};

/// Answers the credentials of a client. None if they are refused.
pub(super) fn authenticate(
    engine: &mut Engine,
    init: &SaslInit,
    authorizer: &dyn Authorizer,
) -> Result<Option<Access>, CommandError> {
    let decided = match init.mechanism.as_str() {
        "PLAIN" => match init.initial_response.as_deref().and_then(|response| plain(response)) {
            Some((name, key)) => authorizer.authenticate(&Credentials::Plain { name, key }),
            None => Err(Denied::new("the initial response of PLAIN is malformed")),
        },
        _ => authorizer.authenticate(&Credentials::Anonymous),
    };
    match decided {
        Ok(access) => {
            engine.sasl_outcome(SaslCode::Ok)?;
            Ok(Some(access))
        }
        Err(denied) => {
            let (mechanism, denied) = (Escaped(&init.mechanism), Escaped(denied.description()));
            warn_of!("NotAuthenticated", %mechanism, %denied, "a client was not authenticated");
            engine.sasl_outcome(SaslCode::Auth)?;
            Ok(None)
        }
    }
}

/// The name and the password of `[identity] NUL name NUL password`.
fn plain(response: &[u8]) -> Option<(&str, &str)> {
    let mut parts = str::from_utf8(response).ok()?.splitn(3, '\0');
    let (_, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some((name, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attacks: 85.
    #[test]
    fn the_response_of_plain_has_three_parts() {
        assert_eq!(plain(b"\0name\0key"), Some(("name", "key")));
        assert_eq!(plain(b"other\0name\0key"), Some(("name", "key")));
        assert_eq!(plain(b"name\0key"), None);
        assert_eq!(plain(b"\0\xff\0key"), None);
    }
}
