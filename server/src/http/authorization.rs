//! What the client of a request may do.

use axum::http::{StatusCode, header};
use base64::{Engine, engine::general_purpose::STANDARD};
use consign_core::transport::Escaped;

use super::{call::Call, refusal::Refusal};
use crate::{
    auth::{Access, Credentials, Denied, Grant, Rights, Token},
    errors::Failure,
    log::warn_of,
    shared::Shared,
};

const SHARED_ACCESS_SIGNATURE: &str = "servicebus.windows.net:sastoken";

/// Checks that the client has a right for a path: by a shared access signature or a JWT, by the name of a key and the key, or without
/// any.
pub(super) fn authorize(shared: &Shared, call: &Call, needed: Rights) -> Result<(), Refusal> {
    let grant = grant(shared, call).map_err(|denied| {
        // Only a guess of a key is logged, not a request without credentials.
        if call.headers.contains_key(header::AUTHORIZATION) {
            let (path, denied) = (Escaped(&call.path), Escaped(denied.description()));
            warn_of!("HttpNotAuthenticated", %path, %denied, "a request was not authenticated");
        }
        Refusal::new(StatusCode::UNAUTHORIZED, denied.description().to_owned())
    })?;
    if grant.rights.contains(needed) {
        if let Some(place) = &call.place {
            place.authorized();
        }
        return Ok(());
    }
    let failure = Failure::unauthorized(needed, &call.path);
    Err(Refusal::new(StatusCode::UNAUTHORIZED, failure.description))
}

fn grant(shared: &Shared, call: &Call) -> Result<Grant, Denied> {
    let mut values = call.headers.get_all(header::AUTHORIZATION).iter();
    let malformed = || Denied::new("MalformedToken: The authorization header was malformed.");
    let Some(value) = values.next() else {
        return match shared.authorizer.authenticate(&Credentials::Anonymous)? {
            Access::Granted(grant) => Ok(grant),
            Access::ByToken => Err(Denied::new("MissingToken: The authorization header was not found.")),
        };
    };
    if values.next().is_some() {
        return Err(malformed());
    }
    let value = value.to_str().map_err(|_| malformed())?.trim();
    let (scheme, rest) = value.split_once(' ').ok_or_else(malformed)?;
    // A path may have the characters of a URL: it stands behind a host.
    let audience = format!("sb://{}/{}", call.host, call.path);
    if scheme.eq_ignore_ascii_case("SharedAccessSignature") {
        return shared.authorize(&Token::new(SHARED_ACCESS_SIGNATURE, &audience, value));
    }
    if scheme.eq_ignore_ascii_case("Bearer") {
        return shared.authorize(&Token::new("jwt", &audience, rest.trim()));
    }
    if !scheme.eq_ignore_ascii_case("Basic") {
        return Err(malformed());
    }
    let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(malformed)?;
    let (name, key) = decoded.split_once(':').ok_or_else(malformed)?;
    match shared.authorizer.authenticate(&Credentials::Plain { name, key })? {
        Access::Granted(grant) => Ok(grant),
        Access::ByToken => Err(malformed()),
    }
}
