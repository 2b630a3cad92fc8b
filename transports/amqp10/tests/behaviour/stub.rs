//! A broker that a test writes.

use consign_amqp::{
    engine::{self, CommandError, Event, LinkId},
    server::Connection,
    types::{Attach, Open, SaslCode},
    value::Symbol,
};
use tokio::net::{TcpListener, TcpStream};

/// Serves connections, with `answer` for each event after a connection is open.
pub(crate) async fn serve(
    listener: TcpListener,
    answer: impl Fn(&mut engine::Connection, Event) -> Result<(), CommandError> + Clone + Send + 'static,
) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_one(stream, answer.clone()));
    }
}

/// Serves a connection.
pub(crate) async fn serve_one(
    stream: TcpStream,
    answer: impl FnMut(&mut engine::Connection, Event) -> Result<(), CommandError> + Send,
) {
    serve_if(stream, SaslCode::Ok, answer).await;
}

/// Serves a connection whose credentials have this outcome.
pub(crate) async fn serve_if(
    stream: TcpStream,
    outcome: SaslCode,
    mut answer: impl FnMut(&mut engine::Connection, Event) -> Result<(), CommandError> + Send,
) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    while let Some(event) = connection.next_event().await {
        let answered = connection.command(|engine| match event {
            Event::SaslInit(_) => engine.sasl_outcome(outcome),
            Event::Opened(_) => engine.open(Open { container_id: "broker".into(), ..Open::default() }),
            event => answer(engine, event),
        });
        answered.unwrap();
    }
}

/// Accepts a link as the client has requested it.
pub(crate) fn accept(engine: &mut engine::Connection, link: LinkId, attach: Attach) -> Result<(), CommandError> {
    engine.accept(link, Attach { source: attach.source, target: attach.target, ..Attach::default() })
}
