//! `DELETE`, `PUT` and `POST /{path}/messages/{name}/{lock token}`.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use consign_core::{
    Disposition,
    message::{EntityPath, LockToken},
    transport::Lease,
};

use super::Settlement;
use crate::{
    entities::{Entity, key},
    http::{Http, refusal::Refusal},
};

pub(super) async fn run(
    http: &Http,
    path: &EntityPath,
    settlement: Settlement,
    name: &str,
    token: LockToken,
    timeout: Duration,
) -> Result<(), Refusal> {
    let shared = http.server.shared();
    let lost =
        || Refusal::new(StatusCode::NOT_FOUND, "No message has this id and this lock token, or its lock is lost.");
    Entity::find(&shared.broker, path, None).map_err(|failure| Refusal::from(failure).gone())?;
    let entity: Arc<str> = key(path);
    if !http.locks.has(token, name) {
        return Err(lost());
    }
    let disposition = match settlement {
        Settlement::Renew => {
            let renewed = shared.locks.renew_all(&[token], &entity).ok_or_else(lost)?;
            if let Some(until) = renewed?.first() {
                http.locks.renew(token, *until);
            }
            return Ok(());
        }
        Settlement::Complete => Disposition::Complete,
        Settlement::Abandon => Disposition::Abandon(consign_core::settlement::Changes::default()),
    };
    let settlement = crate::links::settle::Settlement::By(disposition.clone());
    let locks = shared.locks.take_all(&[token], &entity, None, Some(&settlement)).ok_or_else(lost)?;
    let lock = locks?.pop().ok_or_else(lost)?;
    http.locks.remove(token);
    match tokio::time::timeout(timeout, lock.lease.settle(disposition)).await {
        Ok(settled) => Ok(settled?),
        Err(_) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The settlement was not stored in time.")),
    }
}
