//! A store that loses what a delivery says.

use std::{future::Future, sync::Arc, time::Duration};

use consign::middleware::dedup::{Begin, DedupKey, DedupStore, StoreError, StoreErrorKind};
use consign_store_postgres::{PostgresStore, PostgresToken};
use futures_util::FutureExt;

use super::{
    DELIVERY,
    fault::{Delivery, Fault, Lost, Request},
};

pub(super) struct Lossy(pub(super) PostgresStore);

/// A reservation, and the delivery whose it is: a call that was dropped ends it in another task.
pub(super) struct Token(PostgresToken, Arc<Delivery>);

impl Lossy {
    async fn ask<T>(
        delivery: &Delivery,
        request: Request,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let lost = || Err(StoreError::new(StoreErrorKind::Unavailable));
        if delivery.comes(Fault::Lose(request, Lost::Request)) {
            return lost();
        }
        if delivery.comes(Fault::Lose(request, Lost::Interest)) {
            // It is sent at the first poll.
            drop(asked.now_or_never());
            return lost();
        }
        let answer = asked.await;
        if delivery.comes(Fault::Lose(request, Lost::Answer)) { lost() } else { answer }
    }
}

impl DedupStore for Lossy {
    type Token = Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<Token>, StoreError> {
        let delivery = DELIVERY.get();
        Ok(match Self::ask(&delivery, Request::Begin, self.0.begin(key, lease)).await? {
            Begin::New(token) => Begin::New(Token(token, delivery)),
            Begin::InProgress { left } => Begin::InProgress { left },
            Begin::Committed => Begin::Committed,
        })
    }

    async fn commit(&self, Token(token, delivery): &Token) -> Result<(), StoreError> {
        Self::ask(delivery, Request::Commit, self.0.commit(token)).await
    }

    async fn forget(&self, Token(token, delivery): &Token) -> Result<(), StoreError> {
        if delivery.is_dead() { Ok(()) } else { self.0.forget(token).await }
    }
}
