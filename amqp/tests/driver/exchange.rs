use consign_amqp::{
    client::{Connection, Error, Options},
    engine::{self, CommandError, Event, OutboundDelivery, Reason, SaslCredentials},
    server,
    types::{Attach, Modified, Open, Rejected, Released, Role, SenderSettleMode, Source, Target, condition},
};
use tokio::net::TcpListener;

use super::{Node, accepted, connect, message, read, receiver, sender, stream};

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_received_and_settled_each_way() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    assert_eq!(sender.send(message("1")).await.unwrap(), Some(accepted()));
    let mut receiver = receiver(&session, "orders").await;
    let states = [Released {}.into(), Modified { delivery_failed: true, ..Modified::default() }.into(), accepted()];
    for (state, count) in states.into_iter().zip([0, 0, 1]) {
        receiver.set_credit(1).unwrap();
        let delivery = receiver.recv().await.unwrap();
        assert_eq!(read(delivery.payload.into_bytes()).1, count);
        let settler = receiver.settler();
        assert_eq!(settler.settle_confirmed(delivery.id, &state).await.unwrap(), Some(state));
        assert_eq!(settler.settle([delivery.id], &accepted()).unwrap(), 0, "it is settled");
    }
    assert_eq!(node.len("orders"), 0);

    sender.send(message("2")).await.unwrap();
    receiver.set_credit(1).unwrap();
    let delivery = receiver.recv().await.unwrap();
    let rejected = Rejected { error: Some(consign_amqp::types::Error::new(condition::DECODE_ERROR, "bad")) };
    assert_eq!(receiver.settle([delivery.id], &rejected.into()).unwrap(), 1);
    receiver.detach().await.unwrap();
    assert_eq!((node.len("orders"), node.len("dead/orders")), (0, 1));
}

/// Rules: A-72.
#[tokio::test(start_paused = true)]
async fn several_deliveries_are_settled_with_confirmation() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    for body in ["1", "2", "3"] {
        sender.send(message(body)).await.unwrap();
    }
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_credit(3).unwrap();
    let mut ids = Vec::new();
    while ids.len() < 3 {
        ids.push(receiver.recv().await.unwrap().id);
    }
    let settler = receiver.settler();
    assert_eq!(settler.settle([ids[1]], &accepted()).unwrap(), 1);
    let outcomes = settler.begin_confirmed(ids, &accepted()).unwrap().wait().await;
    assert!(
        matches!(&outcomes[..], [Ok(Some(first)), Err(Error::Detached(_)), Ok(Some(third))] if *first == accepted() && *third == accepted()),
        "{outcomes:?}"
    );
    assert_eq!((node.len("orders"), receiver.ended().is_none(), settler.ended().is_none()), (0, true, true));
    session.end().await.unwrap();
    assert!(receiver.ended().is_some() && sender.ended().is_some());
    assert!(settler.begin_confirmed([], &accepted()).is_err());
}

/// Rules: A-65.
#[tokio::test(start_paused = true)]
async fn many_sends_at_a_time_are_received_in_order_however_the_stream_splits_them() {
    for buffer in [1, 7, 64, 100_000] {
        let node = Node::new();
        let connection = Connection::open(stream(&node, buffer), Options::new("client")).await.unwrap();
        let session = connection.begin().await.unwrap();
        let sender = sender(&session, "orders").await;
        // More than the credit of the node.
        let sends = (0..300_u32).map(|n| {
            let sender = &sender;
            async move { sender.send(message(n.to_be_bytes().to_vec())).await }
        });
        for outcome in futures_of(sends).await {
            assert_eq!(outcome.unwrap(), Some(accepted()));
        }
        let mut receiver = receiver(&session, "orders").await;
        receiver.set_automatic_credit(10).unwrap();
        for n in 0..300_u32 {
            let delivery = receiver.recv().await.unwrap();
            assert_eq!(delivery.payload.into_bytes(), message(n.to_be_bytes().to_vec()));
            receiver.settle([delivery.id], &accepted()).unwrap();
        }
        connection.close().await.unwrap();
    }
}

/// Polls the futures in their order, all in one task.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in &mut futures {
            if output.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        if futures.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

#[tokio::test]
async fn a_message_of_many_frames_crosses_tcp_with_sasl() {
    let node = Node::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = node.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        server.serve(stream).await;
    });
    let engine = engine::Options::default().max_frame_size(4_096).sasl_client(SaslCredentials::plain("guest", "guest"));
    let connection = Connection::connect(address, Options::new("client").engine(engine)).await.unwrap();
    assert_eq!(connection.peer().container_id.as_str(), "node");
    let session = connection.begin().await.unwrap();
    let large = message(vec![7; 1_000_000]);
    sender(&session, "large").await.send(large.clone()).await.unwrap();
    let mut receiver = receiver(&session, "large").await;
    receiver.set_credit(1).unwrap();
    assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), large);
    connection.close().await.unwrap();
}

/// Rules: A-55.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_the_queue_is_empty() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    sender(&session, "orders").await.send(message("1")).await.unwrap();
    let mut receiver = receiver(&session, "orders").await;
    receiver.set_credit(10).unwrap();
    receiver.drain().await.unwrap();
    let delivery = receiver.recv().await.unwrap();
    receiver.settle([delivery.id], &accepted()).unwrap();
    // The credit is used up: what comes now is not sent.
    sender(&session, "orders").await.send(message("2")).await.unwrap();
    assert_eq!(node.len("orders"), 1);
    receiver.set_credit(1).unwrap();
    assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), message("2"));
}

/// Rules: A-62.
#[tokio::test(start_paused = true)]
async fn a_link_that_is_refused_says_why() {
    let session = connect(&Node::new()).await.begin().await.unwrap();
    let errors = [
        session.attach_sender("a", "missing").await.map(drop).unwrap_err(),
        session.attach_receiver("b", "missing").await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Detached(Reason::Peer(_))), "{error:?}");
        assert_eq!(error.condition(), Some(&condition::NOT_FOUND));
        assert_eq!(error.to_string(), "the link is detached by the peer: amqp:not-found (no queue \"missing\")");
    }
    assert!(session.attach_sender("c", "orders").await.is_ok(), "the session goes on");
}

/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn two_ends_that_send_a_large_message_at_the_same_time_both_succeed() {
    const SIZE: usize = 8 << 20;
    let engine = engine::Options::default().max_message_size(16 << 20);
    let node = Node::with_options(engine.clone());
    let options = Options::new("client").engine(engine);
    let connection = Connection::open(stream(&node, 65_536), options).await.unwrap();
    let session = connection.begin().await.unwrap();
    let (first, second) = (message(vec![1; SIZE]), message(vec![2; SIZE]));
    assert_eq!(sender(&session, "first").await.send(first.clone()).await.unwrap(), Some(accepted()));
    let mut receiver = receiver(&session, "first").await;
    let sender = sender(&session, "second").await;
    // The credit precedes the message: the node begins to send when it reads the first part.
    receiver.set_credit(1).unwrap();
    let (outcome, delivery) = tokio::join!(sender.send(second), receiver.recv());
    assert_eq!(outcome.unwrap(), Some(accepted()));
    let delivery = delivery.unwrap();
    let confirmed = receiver.settler().settle_confirmed(delivery.id, &accepted()).await;
    assert_eq!(confirmed.unwrap(), Some(accepted()));
    assert!(delivery.payload.into_bytes() == first);
}

/// Rules: A-55.
#[tokio::test(start_paused = true)]
async fn deliveries_that_wait_are_a_part_of_those_that_are_requested() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    let mut receiver = receiver(&session, "orders").await;
    assert_eq!(receiver.request(2).unwrap(), 2);
    sender.send(message("1")).await.unwrap();
    // It waits in the link.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(receiver.request(3).unwrap(), 3);
    for body in ["2", "3", "4", "5"] {
        sender.send(message(body)).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(node.len("orders"), 2, "three of five were sent");
    // What waits already is not taken back.
    assert_eq!(receiver.request(1).unwrap(), 3);
    for body in ["1", "2", "3"] {
        assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), message(body));
    }
    assert_eq!(receiver.request(1).unwrap(), 1);
    assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), message("4"));
    assert_eq!(node.len("orders"), 1);
}

/// Rules: A-58.
#[tokio::test(start_paused = true)]
async fn a_large_settled_delivery_is_sent_before_the_connection_is_closed() {
    let engine = engine::Options::default().max_message_size(16 << 20);
    let node = Node::with_options(engine.clone());
    let options = Options::new("client").engine(engine);
    let connection = Connection::open(stream(&node, 65_536), options).await.unwrap();
    let session = connection.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    let delivery = OutboundDelivery { settled: true, ..OutboundDelivery::default() };
    assert_eq!(sender.send_with(delivery, &[message(vec![1; 8 << 20])]).await.unwrap(), None);
    connection.close().await.unwrap();
    assert_eq!(node.len("orders"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_settled_delivery_has_no_outcome() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    let delivery = OutboundDelivery { settled: true, ..OutboundDelivery::default() };
    assert_eq!(sender.send_with(delivery, &[message("1")]).await.unwrap(), None);
    let attach = Attach {
        name: "settled".into(),
        snd_settle_mode: SenderSettleMode::Settled,
        source: Some(Box::new(Source { address: Some("orders".into()), ..Source::default() })),
        target: Some(Target::default().into()),
        ..Attach::default()
    };
    let mut receiver = session.attach_receiver_with(attach).await.unwrap();
    receiver.set_credit(1).unwrap();
    let delivery = receiver.recv().await.unwrap();
    assert!(delivery.settled);
    assert_eq!(receiver.settle([delivery.id], &accepted()).unwrap(), 0);
}

/// Rules: A-63.
#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_given_back() {
    let node = Node::new();
    let connection = connect(&node).await;
    let session = connection.begin().await.unwrap();
    sender(&session, "orders").await.send(message("1")).await.unwrap();
    let mut first = receiver(&session, "orders").await;
    first.set_credit(1).unwrap();
    first.recv().await.unwrap();
    drop(first);
    // The detach precedes this attach.
    let mut second = receiver(&session, "orders").await;
    second.set_credit(1).unwrap();
    second.recv().await.unwrap();
    drop((second, session));
    let session = connection.begin().await.unwrap();
    let mut third = receiver(&session, "orders").await;
    third.set_credit(1).unwrap();
    third.recv().await.unwrap();
    drop((third, session, connection));
    let session = connect(&node).await.begin().await.unwrap();
    let mut fourth = receiver(&session, "orders").await;
    fourth.set_credit(1).unwrap();
    let delivery = fourth.recv().await.unwrap();
    assert_eq!(read(delivery.payload.into_bytes()).1, 0, "no delivery has failed");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_settles_second_has_its_outcome_settled() {
    let (client, server) = tokio::io::duplex(4_096);
    let served = tokio::spawn(async move {
        let mut connection = server::Connection::accept(server, engine::Options::default());
        while let Some(event) = connection.next_event().await {
            let settled = connection.command(|engine| {
                match event {
                    Event::Opened(_) => engine.open(Open { container_id: "second".into(), ..Open::default() }),
                    Event::AttachRequested { link, attach } => {
                        engine.accept(
                            link,
                            Attach { source: attach.source, target: attach.target, ..Attach::default() },
                        )?;
                        engine.credit(link, 1)
                    }
                    Event::Delivery(delivery) => {
                        engine.settle(delivery.link, [delivery.id], Some(&accepted()), false).map(drop)
                    }
                    Event::Disposition { role: Role::Sender, settled: true, state, .. } => {
                        assert_eq!(state, Some(accepted()));
                        return Ok::<_, CommandError>(true);
                    }
                    _ => Ok(()),
                }?;
                Ok(false)
            });
            if settled.unwrap() {
                return;
            }
        }
        panic!("the connection is closed before the delivery is settled");
    });
    let session = Connection::open(client, Options::new("client")).await.unwrap().begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    assert_eq!(sender.send(message("1")).await.unwrap(), Some(accepted()));
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_other_end_does_not_accept_is_not_sent() {
    let node = Node::new();
    let session = connect(&node).await.begin().await.unwrap();
    let sender = sender(&session, "orders").await;
    let error = sender.send(message(vec![0; 2_000_000])).await.unwrap_err();
    assert!(matches!(error, Error::Command(CommandError::MessageTooLarge { max: 1_048_576 })), "{error:?}");

    sender.send(message(vec![0; 1_000])).await.unwrap();
    let attach = Attach {
        name: "small".into(),
        source: Some(Box::new(Source { address: Some("orders".into()), ..Source::default() })),
        target: Some(Target::default().into()),
        max_message_size: Some(100),
        ..Attach::default()
    };
    let mut receiver = session.attach_receiver_with(attach).await.unwrap();
    receiver.set_credit(1).unwrap();
    sender.send(message("small")).await.unwrap();
    assert_eq!(receiver.recv().await.unwrap().payload.into_bytes(), message("small"));
    assert_eq!(node.len("dead/orders"), 1);
}
