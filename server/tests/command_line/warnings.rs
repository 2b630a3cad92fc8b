//! What a transport warns of, on the standard error.

use consign_amqp::{
    codec,
    engine::{self, CommandError, Event, OutboundDelivery},
    message::{Body, Sections},
    server::Connection,
    types::{Attach, DeliveryState, Open, Role, SaslCode},
    value::Symbol,
};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Shell, objects};

/// A broker of AMQP 1.0 that delivers a message which cannot be decoded, and then others.
async fn broker() -> Shell {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shell = Shell::on(&format!("amqp10://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    shell
}

async fn serve(stream: TcpStream) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("ANONYMOUS")]);
    let mut connection = Connection::accept(stream, options);
    let mut sent = 0;
    while let Some(event) = connection.next_event().await {
        connection.command(|engine| answer(engine, event, &mut sent)).unwrap();
    }
}

fn answer(engine: &mut engine::Connection, event: Event, sent: &mut usize) -> Result<(), CommandError> {
    match event {
        Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
        Event::Opened(_) => engine.open(Open { container_id: "broker".into(), ..Open::default() }),
        Event::AttachRequested { link, attach } => {
            let Attach { role, source, target, .. } = *attach;
            engine.accept(link, Attach { source, target, ..Attach::default() })?;
            if role == Role::Sender { engine.credit(link, 10) } else { Ok(()) }
        }
        Event::CreditChanged { link, drain: true, .. } => engine.drained(link),
        Event::CreditChanged { link, credit, .. } => {
            for _ in 0..credit {
                let next = Sections { body: Body::Data(vec![b"next".to_vec().into()]), ..Sections::default() };
                let malformed = b"\x00\x53\x7f\x40".to_vec().into();
                let encoded = if *sent == 0 { malformed } else { codec::encode(&next).unwrap() };
                engine.send(link, OutboundDelivery::default(), &[encoded])?;
                *sent += 1;
            }
            Ok(())
        }
        Event::Disposition { deliveries, state, settled: false, .. } => {
            for (link, delivery) in deliveries.iter() {
                engine.settle(link, [delivery], state.as_ref(), true)?;
            }
            Ok(())
        }
        Event::Delivery(delivery) => {
            let accepted = DeliveryState::Accepted(consign_amqp::types::Accepted {});
            engine.settle(delivery.link, [delivery.id], Some(&accepted), true).map(drop)
        }
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_of_the_transport_is_a_line_of_the_standard_error() {
    let shell = broker().await;
    let ran = shell.run(&["receive", "orders"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("WARN") && ran.err.contains("dead-lettered as MalformedMessage"), "{ran:?}");
    assert!(ran.out.contains("next") && !ran.out.contains("WARN"), "{ran:?}");

    let ran = shell.run(&["receive", "orders", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(objects(&ran.out)[0]["body"]["text"], "next", "{ran:?}");
    let is_warning = |line: &Value| line["level"] == "WARN" && line.to_string().contains("MalformedMessage");
    assert!(objects(&ran.err).iter().any(is_warning), "{ran:?}");

    let mut silent = shell.command(&["receive", "orders"]);
    let ran = silent.env("RUST_LOG", "off").output().unwrap();
    assert!(ran.status.success() && !String::from_utf8_lossy(&ran.stderr).contains("WARN"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_decoded_is_peeked_and_not_dead_lettered() {
    let ran = broker().await.run(&["peek", "orders", "--max", "2", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let peeked = objects(&ran.out);
    assert!(peeked.len() == 2 && peeked[0]["body"]["text"] != "next", "{ran:?}");
    assert!(!ran.err.contains("dead-lettered"), "{ran:?}");
}
