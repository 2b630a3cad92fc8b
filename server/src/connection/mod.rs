//! One connection of a client: its task, its state, its time.

mod admission;
pub(crate) mod client;
mod events;
mod handshake;
mod idle;
mod rights;
mod times;
mod wakes;

use std::{pin::pin, sync::Arc};

use consign_amqp::{
    engine::{Event, Options},
    server::Connection,
    types::Open,
    value::Symbol,
};
use futures_util::StreamExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};

pub(crate) use self::{
    client::{Client, Done},
    wakes::LinkWake,
};
use crate::{places::Place, shared::Shared};

/// The mechanisms that are offered, in the order of the hosted service.
const MECHANISMS: [&str; 4] = ["MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL"];

/// How many events are handled before the connection's output is written.
const MAX_EVENTS: usize = 32;

/// What a connection has to do next.
enum Turn {
    Event(Option<Event>),
    Done(Done),
    Woken(Vec<consign_amqp::engine::LinkId>),
    Writable,
    Due,
    Shutdown,
    Evicted,
}

/// Serves a connection until it is closed.
pub(crate) async fn serve<S>(stream: S, place: Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut connection = Connection::accept(stream, options(shared));
    connection.command(admission::limit);
    let evicted = place.evicted();
    let mut refusal = None;
    let mut client = Client::new(Arc::clone(shared), place, Instant::now());
    let wakes = Arc::clone(client.wakes());
    let mut shutdown = shared.shutdown.subscribe();
    let mut stopping = pin!(shutdown.wait_for(|shutdown| *shutdown));
    let commands = connection.commands();
    let mut timer = pin!(sleep_until(client.due()));
    loop {
        if timer.deadline() != client.due() {
            timer.as_mut().reset(client.due());
        }
        let (is_stalled, is_closing) = (client.is_stalled(), client.is_closing());
        let turn = tokio::select! {
            event = connection.next_event() => Turn::Event(event),
            Some(done) = client.calls.next(), if !client.calls.is_empty() => Turn::Done(done),
            Some(done) = client.accepts.next(), if !client.accepts.is_empty() => Turn::Done(done),
            woken = wakes.woken() => Turn::Woken(woken),
            () = commands.writable(), if is_stalled => Turn::Writable,
            () = &mut timer => Turn::Due,
            _ = &mut stopping, if !is_closing => Turn::Shutdown,
            () = evicted.notified(), if !client.is_authenticated() => Turn::Evicted,
        };
        if matches!(turn, Turn::Evicted) {
            refusal = shared.refusals.try_acquire().ok();
            if refusal.is_none() {
                return;
            }
        }
        let is_busy = connection.command(|engine| {
            let mut is_busy = false;
            match turn {
                Turn::Event(event) => {
                    client.handle(
                        engine,
                        event.unwrap_or(Event::Closed { reason: consign_amqp::engine::Reason::Disconnected }),
                    );
                    for _ in 0..MAX_EVENTS {
                        let Some(event) = engine.poll_event() else { break };
                        client.handle(engine, event);
                    }
                    is_busy = engine.has_event();
                }
                Turn::Done(done) => client.done(engine, done),
                Turn::Woken(links) => links.into_iter().for_each(|link| client.pump(engine, link)),
                Turn::Writable => client.resume(engine, None),
                Turn::Due => client.keep_time(engine, Instant::now()),
                Turn::Shutdown => client.shut_down(),
                Turn::Evicted => client.evicted(engine),
            }
            client.finish(engine);
            is_busy
        });
        if client.is_closed() {
            break;
        }
        if is_busy {
            // Nothing above waits while a client sends without a pause: connections that send little have their turn.
            tokio::task::yield_now().await;
        }
    }
    drop(refusal);
}

fn options(shared: &Shared) -> Options {
    let limits = &shared.limits;
    Options::default()
        .sasl_mechanisms(MECHANISMS.map(Symbol::from_static))
        .sasl_optional(true)
        .max_sessions(limits.max_sessions)
        .max_links(limits.max_links)
        .max_connection_links(limits.max_connection_links)
        .max_unsettled(limits.max_unsettled)
        .max_frame_size(limits.max_frame_size)
        .max_message_size(limits.max_message_size)
        .report_too_large(true)
        .handshake_timeout(shared.timeouts.handshake)
        .idle_timeout(shared.timeouts.silence)
}

fn open(shared: &Shared) -> Open {
    Open { container_id: shared.container_id.clone(), ..Open::default() }
}
