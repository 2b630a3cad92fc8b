//! `$management` of an entity: what has no link of its own.

mod disposition;
mod messages;
mod rules;
pub(crate) mod sessions;

use std::{sync::Arc, time::Duration};

use consign_amqp::{
    message::ApplicationProperties,
    value::{Binary, Map},
};

pub(crate) use self::{
    disposition::{Settled, lock_lost},
    messages::Locked,
};
use crate::{
    claim::Claim,
    error::Failure,
    requests::{Reply, Request, Requests},
};

/// The links to the management node of one entity, over one connection.
pub(crate) struct Management {
    requests: Requests,
    _claim: Arc<Claim>,
    timeout: Duration,
}

impl Management {
    pub(crate) fn new(requests: Requests, claim: Arc<Claim>, timeout: Duration) -> Self {
        Self { requests, _claim: claim, timeout }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.requests.is_over()
    }

    async fn call(&self, operation: &'static str, body: Map) -> Result<Reply, Failure> {
        self.call_in(operation, body, None, None).await
    }

    /// Calls an operation, about a link and in a transaction if there are any.
    async fn call_in(
        &self,
        operation: &'static str,
        body: Map,
        link: Option<&str>,
        txn_id: Option<Binary>,
    ) -> Result<Reply, Failure> {
        let mut properties = ApplicationProperties::default();
        properties.push("operation", operation);
        let millis = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        properties.push("com.microsoft:server-timeout", millis);
        if let Some(link) = link {
            properties.push("associated-link-name", link);
        }
        self.requests.call(Request { properties, body: body.into(), txn_id }).await
    }
}

fn missing(field: &'static str) -> Failure {
    Failure::new(consign_core::transport::ErrorKind::General, format!("the answer has no '{field}'")).for_good()
}
