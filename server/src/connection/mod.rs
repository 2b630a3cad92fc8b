//! One connection of a client.

mod handshake;

use std::sync::Arc;

use consign_amqp::{
    engine::{Event, Options},
    server::Connection,
    types::{Error, Open, condition},
    value::Symbol,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::Shared;

/// The mechanisms that are offered, in the order of the hosted service.
const MECHANISMS: [&str; 4] = ["MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL"];

/// Serves a connection until it is closed.
pub(crate) async fn serve<S>(stream: S, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut connection = Connection::accept(stream, options(shared));
    while let Some(event) = connection.next_event().await {
        connection.command(|engine| match event {
            Event::SaslInit(init) => {
                let _ = handshake::authenticate(engine, &init, &*shared.authorizer);
            }
            Event::Opened(_) => {
                let _ = engine.open(open(shared));
            }
            _ => {}
        });
    }
}

/// Tells a client that there are too many connections.
pub(crate) async fn refuse<S>(stream: S, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut connection = Connection::accept(stream, options(shared));
    while let Some(event) = connection.next_event().await {
        connection.command(|engine| match event {
            Event::SaslInit(init) => {
                let _ = handshake::authenticate(engine, &init, &*shared.authorizer);
            }
            Event::Opened(_) => {
                let _ = engine.open(open(shared));
                let text = format!("the server has {} connections, its limit", shared.limits.max_connections);
                let _ = engine.close(Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, text)));
            }
            _ => {}
        });
    }
}

fn options(shared: &Shared) -> Options {
    let limits = &shared.limits;
    Options::default()
        .with_sasl_mechanisms(MECHANISMS.map(Symbol::from_static))
        .with_sasl_optional(true)
        .with_max_sessions(limits.max_sessions)
        .with_max_links(limits.max_links)
        .with_max_unsettled(limits.max_unsettled)
        .with_max_frame_size(limits.max_frame_size)
        .with_handshake_timeout(shared.timeouts.handshake)
        .with_idle_timeout(shared.timeouts.silence)
}

fn open(shared: &Shared) -> Open {
    Open { container_id: shared.container_id.clone(), ..Open::default() }
}
