//! Receives and peeks.

use std::time::Duration;

use azservicebus::ServiceBusReceiverOptions;

use crate::support::{Context, Failure, WAIT, bodies, nothing, same, text};

pub(crate) async fn nothing_within_the_wait(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut receiver = context.receiver(&mut client).await?;
    nothing(&mut receiver).await?;
    // The link works after a drain.
    context.send(&mut client, ["1"]).await?;
    same("the bodies", bodies(&mut receiver, 1).await?, ["1"])?;
    Ok(client.dispose().await?)
}

pub(crate) async fn prefetch(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let sent: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    context.send(&mut client, sent.clone()).await?;
    let options = ServiceBusReceiverOptions { prefetch_count: 10, ..Default::default() };
    let mut receiver = client.create_receiver_for_queue(&context.entity, options).await?;
    same("the bodies", bodies(&mut receiver, 30).await?, sent)?;
    same("the peeked", receiver.peek_messages(1, Some(0)).await?.len(), 0)?;
    Ok(client.dispose().await?)
}

pub(crate) async fn peek(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1", "2", "3"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let first = receiver.peek_message(None).await?.ok_or("nothing is peeked")?;
    same("the first", first.body()?, b"1")?;
    // The next peek continues after the one before.
    let second = receiver.peek_message(None).await?.ok_or("nothing is peeked")?;
    same("the second", second.body()?, b"2")?;
    same("the bodies", bodies(&mut receiver, 3).await?, ["1", "2", "3"])?;
    Ok(client.dispose().await?)
}

pub(crate) async fn peek_from_a_sequence_number(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    context.send(&mut client, ["1", "2", "3"]).await?;
    let mut receiver = context.receiver(&mut client).await?;
    let all = receiver.peek_messages(10, Some(0)).await?;
    same("the count", all.len(), 3)?;
    let rest = receiver.peek_messages(10, Some(all[1].sequence_number())).await?;
    same("the rest", rest.len(), 2)?;
    same("the second", rest[0].body()?, b"2")?;
    Ok(client.dispose().await?)
}

pub(crate) async fn waits_for_a_message(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut receiver = context.receiver(&mut client).await?;
    let mut sender = context.sender(&mut client).await?;
    let send = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sender.send_message("1").await
    };
    let (received, sent) = tokio::join!(receiver.receive_message_with_max_wait_time(WAIT), send);
    sent?;
    let message = received?.ok_or("no message within the wait")?;
    same("the body", text(&message)?, "1")?;
    receiver.complete_message(&message).await?;
    Ok(client.dispose().await?)
}
