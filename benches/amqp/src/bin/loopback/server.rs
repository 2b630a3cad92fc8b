//! A server without queues, on the engine of this library.

use std::{sync::mpsc, thread};

use consign_amqp::{
    engine::{CommandError, Connection as Engine, Event, LinkId, Options, OutboundDelivery},
    server::Connection,
    types::{Accepted, Attach, DeliveryState, Open, Role, SaslCode},
    value::Symbol,
};
use tokio::net::TcpListener;

use crate::{Failure, WINDOW, runtime, sample};

/// Starts it on a thread, and returns its address.
pub(crate) fn start() -> Result<String, Failure> {
    let (address, started) = mpsc::channel();
    thread::spawn(move || {
        runtime().expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
            address.send(listener.local_addr().expect("an address").to_string()).expect("the main thread");
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket");
                let options = Options::default().sasl_mechanisms([Symbol::from_static("PLAIN")]);
                tokio::spawn(serve(Connection::accept(stream, options)));
            }
        });
    });
    Ok(started.recv()?)
}

async fn serve(mut connection: Connection) {
    let payload = [sample::encoded()];
    let accepted: DeliveryState = Accepted {}.into();
    let mut tag = 0_u64;
    let mut incoming = 0;
    while let Some(event) = connection.next_event().await {
        // A client may be gone.
        let _ = connection.command(|engine| match event {
            Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(_) => engine.open(Open { container_id: "server".into(), ..Open::default() }),
            Event::AttachRequested { link, attach } => attach_link(engine, link, *attach),
            Event::Delivery(delivery) => {
                engine.settle(delivery.link, [delivery.id], Some(&accepted), true)?;
                incoming += 1;
                if incoming % (WINDOW / 2) == 0 { engine.credit(delivery.link, WINDOW) } else { Ok(()) }
            }
            Event::CreditChanged { link, .. } => {
                while engine.sendable(link) > 0 {
                    tag += 1;
                    let delivery =
                        OutboundDelivery { tag: tag.to_be_bytes().to_vec().into(), ..OutboundDelivery::default() };
                    engine.send(link, delivery, &payload)?;
                }
                Ok(())
            }
            Event::Disposition { role: Role::Receiver, deliveries, state, settled: false, .. } => {
                for (link, id) in deliveries.iter() {
                    engine.settle(link, [id], state.as_ref(), true)?;
                }
                Ok(())
            }
            _ => Ok::<_, CommandError>(()),
        });
    }
}

fn attach_link(engine: &mut Engine, link: LinkId, attach: Attach) -> Result<(), CommandError> {
    let answer = Attach {
        source: attach.source,
        target: attach.target,
        rcv_settle_mode: attach.rcv_settle_mode,
        ..Attach::default()
    };
    engine.accept(link, answer)?;
    if attach.role == Role::Sender { engine.credit(link, WINDOW) } else { Ok(()) }
}
