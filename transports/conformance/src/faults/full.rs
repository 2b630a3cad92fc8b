use std::time::Duration;

use consign::{
    Message,
    administration::Administration,
    message::EntityPath,
    transport::{DynTransport, ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport},
};
use tokio::time::{sleep, timeout};

use super::{Server, account::Account, report::FaultReport};
use crate::{Failure, failure::ensure};

const SIZE: u64 = 1 << 20;
const BODY: usize = 100 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that a full queue refuses messages, keeps those that it has, and accepts messages again when it has space.
pub(super) async fn run<S: Server>(
    server: &S,
    direct: &DynTransport,
    queue: &EntityPath,
    report: &mut FaultReport,
) -> Result<(), Failure> {
    match server.create_small_queue(direct, queue, SIZE).await {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            report.left_out.push("full queue");
            return Ok(());
        }
        created => created?,
    }
    let account = Account::default();
    let done = fill_and_drain(direct, queue, &account).await;
    report.take(&account);
    direct.delete(queue).await?;
    done
}

async fn fill_and_drain(direct: &DynTransport, queue: &EntityPath, account: &Account) -> Result<(), Failure> {
    let sender = direct.sender(queue).await?;
    let mut accepted = 0;
    loop {
        ensure!(accepted < 100, "a queue of {SIZE} bytes took 100 messages of {BODY}");
        let id = format!("full-{accepted}");
        account.attempts(&id);
        match sender.send(message(&id)?).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => break,
            Err(error) => return Err(error.into()),
        }
        account.accepted(&id);
        accepted += 1;
    }
    ensure!(accepted > 0, "an empty queue is full");
    let mut receiver = direct.receiver(queue, ReceiveMode::PeekLock).await?;
    for _ in 0..accepted {
        let delivery = receiver.receive_within(PATIENCE).await?;
        account.arrived(delivery.message.message_id().unwrap_or_default());
        delivery.complete().await?;
    }
    let message = message("full-again")?;
    let has_room = async {
        while sender.send(message.clone()).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    ensure!(timeout(PATIENCE, has_room).await.is_ok(), "a queue that was emptied is still full");
    Ok(())
}

fn message(id: &str) -> Result<Message, Failure> {
    Ok(Message::builder().message_id(id.to_owned()).build(vec![0; BODY])?)
}
