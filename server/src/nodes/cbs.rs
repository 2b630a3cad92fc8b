//! `$cbs`: tokens of a client.

use consign_amqp::engine::Connection as Engine;
use consign_core::transport::{ErrorKind, Escaped};
use tokio::time::Instant;

use super::{Request, Response};
use crate::{auth::Token, connection::Client, errors::Failure, log::warn_of};

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
        let token = request.body().as_str().ok_or_else(|| Failure::argument("the body is not a token"))?;
        let granted = self.shared.authorizer.authorize(&Token::new(token_type, audience, token));
        let grant = granted.map_err(|denied| {
            warn_of!("TokenRefused", audience = %Escaped(audience), %denied, "a token was refused");
            Failure::new(ErrorKind::Unauthorized, denied.description().to_owned())
        })?;
        if !self.held.add(audience, &grant, Instant::now()) {
            let text = format!("A connection has at most {} tokens.", self.shared.limits.max_tokens);
            return Err(Failure::new(ErrorKind::QuotaExceeded, text));
        }
        self.times_changed();
        self.admit(engine);
        Ok(Response::accepted())
    }
}
