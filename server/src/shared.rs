use std::sync::Arc;

use consign_amqp::value::Str;
use consign_broker::Broker;
use tokio::sync::{Semaphore, watch};

use crate::{
    auth::{Authorizer, Denied, Grant, Token, authorize_by_rule},
    limits::{Limits, Timeouts},
    locks::Locks,
    places::Places,
};

/// What the connections of a server share.
pub(crate) struct Shared {
    pub(crate) broker: Broker,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) create_entities: bool,
    /// Names the server to its clients.
    pub(crate) container_id: Str,
    pub(crate) shutdown: watch::Sender<bool>,
    /// The messages that clients have locked.
    pub(crate) locks: Locks,
    pub(crate) places: Arc<Places>,
    pub(crate) refusals: Semaphore,
}

impl Shared {
    /// Authorizes a client by a token: by the authorizer, or else by a rule of the entity.
    pub(crate) fn authorize(&self, token: &Token<'_>) -> Result<Grant, Denied> {
        self.authorizer.authorize(token).or_else(|denied| authorize_by_rule(&self.broker, token).unwrap_or(Err(denied)))
    }

    /// Returns whether a client without credentials has rights.
    #[cfg(feature = "http")]
    pub(crate) fn is_open(&self) -> bool {
        use crate::auth::{Access, Credentials, Rights};

        let access = self.authorizer.authenticate(&Credentials::Anonymous);
        matches!(access, Ok(Access::Granted(grant)) if grant.rights != Rights::NONE)
    }
}
