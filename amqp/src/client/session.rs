use std::{fmt, sync::Arc};

use tokio::sync::Notify;

use super::{
    Connection, Error, ReceiverLink, SenderLink,
    connection::Inner,
    routes::{LinkRoute, Routes, SessionRoute},
};
use crate::{
    engine::{Connection as Engine, LinkId, Reason, SessionId},
    types::{Attach, Begin, DeliveryState, Role, Source, Target},
    value::Str,
};

/// A session of a client. Clones are handles of the same session.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionInner>,
}

/// Ends the session when the last handle of it and of its links is dropped.
struct SessionInner {
    connection: Arc<Inner>,
    id: SessionId,
    changed: Arc<Notify>,
}

/// A link. It is detached when this is dropped.
pub(super) struct Link {
    session: Session,
    pub(super) id: LinkId,
    pub(super) changed: Arc<Notify>,
    pub(super) peer: Arc<Attach>,
}

impl Session {
    pub(super) async fn begin(connection: &Connection, begin: Begin) -> Result<Self, Error> {
        connection.inner.reached.begun();
        let changed = Arc::new(Notify::new());
        let id = connection.inner.shared.command(|engine, routes| {
            if let Some(reason) = &routes.closed {
                return Err(Error::Closed(reason.clone()));
            }
            let id = engine.begin(begin)?;
            routes.sessions.insert(id, SessionRoute { changed: Arc::clone(&changed), ..SessionRoute::default() });
            Ok(id)
        })?;
        let inner = Arc::new(SessionInner { connection: Arc::clone(&connection.inner), id, changed });
        inner
            .connection
            .wait("begin", &inner.changed, |_, routes| match routes.session_error(id) {
                Some(error) => Some(Err(error)),
                None => routes.sessions.get(&id).is_some_and(|route| route.begun).then_some(Ok(())),
            })
            .await?;
        Ok(Self { inner })
    }

    /// Attaches a link that sends to an address, and waits until the server has attached it too.
    ///
    /// # Errors
    /// Those of [`Session::attach_sender_with`].
    pub async fn attach_sender(&self, name: impl Into<Str>, address: impl Into<Str>) -> Result<SenderLink, Error> {
        let target = Target { address: Some(address.into()), ..Target::default() };
        let source = Some(Box::new(Source::default()));
        self.attach_sender_with(Attach { name: name.into(), source, target: Some(target.into()), ..Attach::default() })
            .await
    }

    /// Attaches a link that sends, with all fields of the attach. The role and the handle are set.
    ///
    /// # Errors
    /// - [`Error::Detached`]: the server refused the link; [`Error::condition`] says why.
    /// - [`Error::Ended`], [`Error::Closed`]: the session has ended, or the connection is closed.
    /// - [`Error::TimedOut`]: the server did not answer.
    /// - [`Error::Command`]: too many links.
    pub async fn attach_sender_with(&self, attach: Attach) -> Result<SenderLink, Error> {
        Ok(SenderLink::new(self.attach(Attach { role: Role::Sender, ..attach }).await?))
    }

    /// Attaches a link that receives from an address, and waits until the server has attached it too. It has no credit.
    ///
    /// # Errors
    /// Those of [`Session::attach_receiver_with`].
    pub async fn attach_receiver(&self, name: impl Into<Str>, address: impl Into<Str>) -> Result<ReceiverLink, Error> {
        let source = Source { address: Some(address.into()), ..Source::default() };
        let target = Some(Target::default().into());
        self.attach_receiver_with(Attach {
            name: name.into(),
            source: Some(Box::new(source)),
            target,
            ..Attach::default()
        })
        .await
    }

    /// Attaches a link that receives, with all fields of the attach. The role and the handle are set. It has no credit.
    ///
    /// # Errors
    /// Those of [`Session::attach_sender_with`].
    pub async fn attach_receiver_with(&self, attach: Attach) -> Result<ReceiverLink, Error> {
        Ok(ReceiverLink::new(self.attach(Attach { role: Role::Receiver, ..attach }).await?))
    }

    async fn attach(&self, attach: Attach) -> Result<Link, Error> {
        let changed = Arc::new(Notify::new());
        let id = self.command(|engine, routes| {
            let id = engine.attach(self.inner.id, attach)?;
            routes.links.insert(id, LinkRoute { changed: Arc::clone(&changed), ..LinkRoute::default() });
            Ok(id)
        })?;
        let mut link = Link { session: self.clone(), id, changed, peer: Arc::default() };
        link.peer = link.wait("attach", |_, route| route.attached.clone().map(Ok)).await?;
        self.inner.connection.reached.attached();
        Ok(link)
    }

    /// Ends the session with its links, and waits until the server has confirmed it.
    ///
    /// # Errors
    /// [`Error::Ended`] or [`Error::Closed`] if it had ended before, or the server has reported an error.
    pub async fn end(self) -> Result<(), Error> {
        let id = self.inner.id;
        self.command(|engine, _| Ok(engine.end(id, None)?))?;
        let ended =
            self.inner.connection.wait("end", &self.inner.changed, |_, routes| routes.session_error(id).map(Ok));
        match ended.await? {
            Error::Ended(Reason::Local(None)) => Ok(()),
            error => Err(error),
        }
    }

    fn command<R>(&self, command: impl FnOnce(&mut Engine, &mut Routes) -> Result<R, Error>) -> Result<R, Error> {
        self.inner.connection.shared.command(|engine, routes| match routes.session_error(self.inner.id) {
            Some(error) => Err(error),
            None => command(engine, routes),
        })
    }
}

impl Link {
    /// Gives commands for the link.
    pub(super) fn command<R>(
        &self,
        command: impl FnOnce(&mut Engine, &mut LinkRoute) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.connection().shared.command(|engine, routes| self.run(engine, routes, command))
    }

    /// Waits for something of the link, or its end.
    pub(super) async fn wait<T>(
        &self,
        waiting_for: &'static str,
        mut check: impl FnMut(&mut Engine, &mut LinkRoute) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let run = |engine: &mut Engine, routes: &mut Routes| {
            self.run(engine, routes, |engine, route| Ok(check(engine, route))).unwrap_or_else(|error| Some(Err(error)))
        };
        self.connection().wait(waiting_for, &self.changed, run).await
    }

    pub(super) fn run<R>(
        &self,
        engine: &mut Engine,
        routes: &mut Routes,
        command: impl FnOnce(&mut Engine, &mut LinkRoute) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match (routes.link_error(self.id), routes.links.get_mut(&self.id)) {
            (None, Some(route)) => command(engine, route),
            (error, _) => Err(error.unwrap_or(Error::Detached(Reason::Local(None)))),
        }
    }

    /// Settles deliveries of the link in either direction. Returns how many were unsettled.
    pub(super) fn settle(
        &self,
        deliveries: impl IntoIterator<Item = crate::engine::DeliveryId>,
        state: &DeliveryState,
        settled: bool,
    ) -> Result<usize, Error> {
        self.command(|engine, _| Ok(engine.settle(self.id, deliveries, Some(state), settled)?))
    }

    /// Why the link has ended.
    pub(super) fn error(&self) -> Option<Error> {
        self.connection().shared.read(|_, routes| routes.link_error(self.id))
    }

    /// Detaches the link, and waits until the server has confirmed it.
    pub(super) async fn detach(&self, closed: bool) -> Result<(), Error> {
        self.command(|engine, _| Ok(engine.detach(self.id, closed, None)?))?;
        match self.wait("detach", |_, _| None::<Result<Error, Error>>).await {
            Ok(error) | Err(error) => match error {
                Error::Detached(Reason::Local(None)) => Ok(()),
                error => Err(error),
            },
        }
    }

    pub(super) fn connection(&self) -> &Inner {
        &self.session.inner.connection
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.connection().shared.command(|engine, routes| {
            routes.links.remove(&self.id);
            // A link that has ended refuses it.
            let _ = engine.detach(self.id, true, None);
        });
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.connection.shared.command(|engine, routes| {
            routes.sessions.remove(&self.id);
            // A session that has ended refuses it.
            let _ = engine.end(self.id, None);
        });
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.inner.id).finish()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}
