//! Many connections, and many links.

use std::time::Duration;

use consign_amqp::client::{Connection, ReceiverLink, SenderLink, Session};
use tokio::time::{Instant, sleep};

use crate::{
    Failure, Options,
    client::{accepted, connect, message, receiver},
    process::{Server, mib},
};

/// Links of a connection: half of them send, half receive.
const LINKS: u32 = 10;

struct One {
    _connection: Connection,
    session: Session,
    senders: Vec<SenderLink>,
    receivers: Vec<ReceiverLink>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let count = options.scaled(1_000);
    let server = Server::consign(&options.program, &[])?;
    // What the first connection adds is not of a connection.
    let (_first, _) = connect(server.address).await?;
    let (empty, _) = server.memory()?;
    let began = Instant::now();
    let mut all = Vec::new();
    for _ in 0..count {
        let (connection, session) = connect(server.address).await?;
        all.push(One { _connection: connection, session, senders: Vec::new(), receivers: Vec::new() });
    }
    let connected = began.elapsed();
    sleep(Duration::from_millis(500)).await;
    let (connections, _) = server.memory()?;

    let began = Instant::now();
    for (nth, one) in all.iter_mut().enumerate() {
        let queue = format!("orders-{}", nth % 100);
        for link in 0..LINKS / 2 {
            one.senders.push(one.session.attach_sender(format!("sender {link}"), queue.as_str()).await?);
            let mut link = receiver(&one.session, &format!("receiver {link}"), &queue).await?;
            link.set_automatic_credit(1)?;
            one.receivers.push(link);
        }
    }
    let attached = began.elapsed();
    sleep(Duration::from_millis(500)).await;
    let (links, _) = server.memory()?;

    let payload = message(100)?;
    let began = Instant::now();
    for one in &all {
        for sender in &one.senders {
            if sender.send(payload.clone()).await? != Some(accepted()) {
                return Err("a message was not accepted".into());
            }
        }
    }
    let sent = began.elapsed();
    let (_, peak) = server.memory()?;
    let each = |bytes: u64, count: u32| bytes / u64::from(count.max(1));
    println!(
        "links: {count} connections with a session each in {connected:.1?}, {} links in {attached:.1?}",
        count * LINKS
    );
    println!(
        "links: memory {:.1} MiB without, {:.1} MiB with the connections, {:.1} MiB with the links",
        mib(empty),
        mib(connections),
        mib(links)
    );
    let (connection, link) =
        (each(connections.saturating_sub(empty), count), each(links.saturating_sub(connections), count * LINKS));
    println!("links: {connection} bytes for a connection and its session, {link} bytes for a link");
    println!(
        "links: a message on each of {} senders in {sent:.1?}, memory at most {:.1} MiB",
        count * LINKS / 2,
        mib(peak)
    );
    Ok(())
}
