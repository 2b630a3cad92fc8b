//! Whether a queue is empty.

use consign::{
    administration::Administration,
    dead_letters::UnderLocks,
    message::{EntityPath, SequenceNumber},
    transport::{
        Capability, DynTransport, ErrorKind, PeekMessages, ReceiveMode, Transport, deadline::OPERATION_TIMEOUT,
    },
};

use super::super::failure::Failure;

/// Refuses a queue that has messages: a measurement would receive them, and leave its own behind them.
pub(super) async fn check(transport: &DynTransport, path: &EntityPath) -> Result<(), Failure> {
    let is_empty = match transport.counts(path).await {
        Ok(counts) => counts.active + counts.locked == 0,
        Err(error) if error.kind() == ErrorKind::NotSupported => first(transport, path).await?,
        Err(error) => return Err(error.into()),
    };
    if is_empty {
        return Ok(());
    }
    Err(Failure::usage("the queue has messages of others: a measurement needs an empty queue"))
}

/// Whether there is no first message, where the transport does not count them.
async fn first(transport: &DynTransport, path: &EntityPath) -> Result<bool, Failure> {
    let capabilities = transport.capabilities();
    if capabilities.supports(Capability::Peek) {
        return Ok(transport.peek(path, SequenceNumber::new(0), 1).await?.is_empty());
    }
    if !capabilities.supports(Capability::Release) {
        return Ok(true);
    }
    let receiver = transport.receiver(path, ReceiveMode::PeekLock).await?;
    let mut is_empty = true;
    let mut each = |_| {
        is_empty = false;
        0
    };
    let list = UnderLocks { operation: OPERATION_TIMEOUT, expected: None };
    list.list(receiver, 1, std::future::pending(), &mut each).await?;
    Ok(is_empty)
}
