//! `$cbs`: tokens of a client.

use consign_amqp::engine::Connection as Engine;
use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, Escaped},
};
use tokio::time::Instant;

use super::{Request, Response};
use crate::{
    auth::Token,
    connection::Client,
    entities::{Entity, entity_of},
    errors::Failure,
    log::warn_of,
};

/// The longest audience of a token, in bytes: the connection keeps it.
const MAX_AUDIENCE: usize = 1_024;

impl Client {
    /// Takes a token. It is for this connection and one entity.
    pub(super) fn put_token(&mut self, engine: &mut Engine, request: &Request) -> Result<Response, Failure> {
        match request.property("operation") {
            Some("put-token") => {}
            Some(other) => {
                return Err(Failure::new(ErrorKind::NotSupported, format!("The operation '{other}' is not known.")));
            }
            None => return Err(Failure::argument("the request has no operation")),
        }
        let field = |name| {
            let missing = || Failure::argument(format!("the request has no '{name}'"));
            request.property(name).ok_or_else(missing)
        };
        let (token_type, audience) = (field("type")?, field("name")?);
        if audience.len() > MAX_AUDIENCE {
            return Err(Failure::argument(format!("the audience of a token has at most {MAX_AUDIENCE} bytes")));
        }
        let token = request.body().as_str().ok_or_else(|| Failure::argument("the body is not a token"))?;
        let granted = self.shared.authorize(&Token::new(token_type, audience, token));
        let grant = granted.map_err(|denied| {
            // The text may quote the audience.
            let text = Escaped(denied.description());
            warn_of!("TokenRefused", audience = %Escaped(audience), denied = %text, "a token was refused");
            Failure::new(ErrorKind::Unauthorized, denied.description().to_owned())
        })?;
        self.check_audience(audience)?;
        let now = Instant::now();
        if !self.held.add(audience, &grant, now) {
            let text = format!("A connection has at most {} tokens.", self.shared.limits.max_tokens);
            return Err(Failure::new(ErrorKind::QuotaExceeded, text));
        }
        self.times_changed();
        // It may have fewer rights than the one that it replaces.
        self.detach_unauthorized(engine, now, "was replaced by one with other rights");
        self.admit(engine);
        Ok(Response::accepted())
    }

    /// The service refuses a token for an entity that does not exist, and clients depend on it. A server that creates entities on
    /// first use has none.
    fn check_audience(&self, audience: &str) -> Result<(), Failure> {
        let entity = entity_of(audience);
        if self.shared.create_entities || entity.is_empty() || entity.starts_with('$') {
            return Ok(());
        }
        let Ok(path) = EntityPath::new(&entity) else { return Err(Failure::no_entity(&entity)) };
        Entity::find(&self.shared.broker, &path, None).map(drop)
    }
}
