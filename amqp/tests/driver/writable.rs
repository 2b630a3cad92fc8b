use std::time::Duration;

use consign_amqp::{
    bytes::Bytes,
    client::{Connection, Options, ReceiverLink},
    engine::{self, Event, OutboundDelivery},
    server::{self, Commands},
    types::{Attach, Open},
};
use tokio::{
    io::DuplexStream,
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

/// Copies until `stop` changes to true, and goes on when it changes back.
async fn relay(client: DuplexStream, server: DuplexStream, mut stop: watch::Receiver<bool>) {
    let (mut client, mut server) = (client, server);
    loop {
        let stopped = stop.clone();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
            _ = async { let mut stopped = stopped; stopped.wait_for(|stop| *stop).await.map(drop) } => {}
        }
        if stop.wait_for(|stop| !*stop).await.is_err() {
            return;
        }
    }
}

/// A server whose output is full, with two tasks that wait until it takes deliveries again.
struct Stalled {
    /// Stops the stream while it is true.
    stop: watch::Sender<bool>,
    receiver: ReceiverLink,
    waiting: [JoinHandle<()>; 2],
}

async fn stalled(options: engine::Options) -> Stalled {
    let (client, client_end) = tokio::io::duplex(4_096);
    let (server_end, server) = tokio::io::duplex(4_096);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(relay(client_end, server_end, stopped));
    let mut connection = server::Connection::accept(server, options.output_limit(100_000));
    let commands = connection.commands();
    let (credited, link) = oneshot::channel();
    tokio::spawn(async move {
        let mut credited = Some(credited);
        while let Some(event) = connection.next_event().await {
            let answered = connection.command(|engine| match event {
                Event::Opened(_) => engine.open(Open { container_id: "server".into(), ..Open::default() }),
                Event::AttachRequested { link, attach } => {
                    let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                    engine.accept(link, answer)
                }
                Event::CreditChanged { link, .. } => {
                    let _ = credited.take().map(|credited| credited.send(link));
                    Ok(())
                }
                _ => Ok(()),
            });
            answered.unwrap();
        }
    });
    let connection = Connection::open(client, Options::new("client")).await.unwrap();
    let session = connection.begin().await.unwrap();
    let mut receiver = session.attach_receiver("r", "orders").await.unwrap();
    receiver.set_credit(100).unwrap();
    let link = link.await.unwrap();
    stop.send(true).unwrap();
    // The relay has stopped when nothing else runs.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let body = Bytes::from(vec![0; 30_000]);
    let send = |engine: &mut engine::Connection| {
        let delivery = OutboundDelivery { tag: vec![1].into(), settled: true, ..OutboundDelivery::default() };
        engine.send(link, delivery, std::slice::from_ref(&body))
    };
    while commands.run(send).is_ok() {}
    let wait = |commands: Commands| tokio::spawn(async move { commands.writable().await });
    let waiting = [wait(commands.clone()), wait(commands.clone())];
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(commands.run(|engine| engine.is_output_full()), "the output is full");
    assert!(waiting.iter().all(|task| !task.is_finished()), "they wait");
    Stalled { stop, receiver, waiting }
}

async fn all_end(waiting: [JoinHandle<()>; 2]) {
    for task in waiting {
        timeout(Duration::from_secs(60), task).await.expect("of the paused clock").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_task_that_waits_for_output_goes_on() {
    let Stalled { stop, mut receiver, waiting } = stalled(engine::Options::default()).await;
    stop.send(false).unwrap();
    receiver.recv().await.unwrap();
    while let Ok(received) = timeout(Duration::from_secs(1), receiver.recv()).await {
        received.unwrap();
    }
    all_end(waiting).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_output_goes_on_when_the_connection_is_closed() {
    let options = engine::Options::default().idle_timeout(Duration::from_secs(2));
    let Stalled { stop: _stop, receiver: _receiver, waiting } = stalled(options).await;
    all_end(waiting).await;
}
