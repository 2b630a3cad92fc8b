//! Keys and their rights, and entities that do not exist.

use crate::support::{Context, Failure, refused};

pub(crate) async fn wrong_key(context: Context) -> Result<(), Failure> {
    let mut client = context.client_of("wrong_key").await?;
    refused("a sender", context.sender(&mut client).await, "InvalidSignature")
}

pub(crate) async fn listen_only(context: Context) -> Result<(), Failure> {
    let mut client = context.client_of("listen_only").await?;
    context.receiver(&mut client).await?.dispose().await?;
    refused("a sender", context.sender(&mut client).await, "'Send' claim(s) are required")
}

pub(crate) async fn send_only(context: Context) -> Result<(), Failure> {
    let mut client = context.client_of("send_only").await?;
    context.send(&mut client, ["1"]).await?;
    refused("a receiver", context.receiver(&mut client).await, "'Listen' claim(s) are required")
}

pub(crate) async fn unknown_entity(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let sender = client.create_sender("azservicebus-that-does-not-exist", Default::default()).await;
    // The status of the answer to its token.
    refused("a sender", sender, "StatusCode(404)")
}
