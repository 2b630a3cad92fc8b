use std::time::Duration;

use consign::transport::{DynTransport, Transport};
use tokio::time::timeout;

use super::{Proxy, Server};
use crate::{Failure, failure::ensure};

/// For what a machine that is busy does late.
const LATE: Duration = Duration::from_secs(30);

/// Checks that a [ping](Transport::ping) succeeds while the server answers, and only then: it is a retryable error within the
/// timeout while the server is silent, and while it cannot be reached.
///
/// # Errors
///
/// The first check that failed.
pub async fn check_pings<S: Server>(server: &S) -> Result<(), Failure> {
    let no_proxy = |error: std::io::Error| Failure::behaviour(format!("no proxy: {error}"));
    let proxy = Proxy::to(server.address()).await.map_err(no_proxy)?;
    let transport = server.connect(proxy.address()).await?;
    answered(&transport, "at first").await?;
    proxy.freeze(true);
    refused(server, &transport, "of a silent server").await?;
    refused(server, &transport, "of a server that is still silent").await?;
    proxy.freeze(false);
    answered(&transport, "after the silence").await?;
    proxy.refuse(true);
    proxy.cut();
    refused(server, &transport, "of a server that is gone").await?;
    refused(server, &transport, "of a server that is still gone").await?;
    proxy.refuse(false);
    answered(&transport, "of a server that is back").await?;
    transport.close().await?;
    let Err(error) = transport.ping().await else {
        return Err(Failure::behaviour("a ping of a transport that was closed succeeded"));
    };
    ensure!(!error.is_retryable(), "after a close a ping is retryable: {error:?}");
    Ok(())
}

/// A connection with faults has a short timeout, and may be opened with a pause.
async fn answered(transport: &DynTransport, when: &str) -> Result<(), Failure> {
    let mut last = None;
    let answered = async {
        while let Err(error) = transport.ping().await {
            last = Some(error);
            // A ping may fail at once.
            tokio::task::yield_now().await;
        }
    };
    if timeout(LATE, answered).await.is_ok() {
        return Ok(());
    }
    Err(Failure::behaviour(format!("no ping {when} succeeded: {last:?}")))
}

async fn refused<S: Server>(server: &S, transport: &DynTransport, what: &str) -> Result<(), Failure> {
    match timeout(server.deadline() + LATE, transport.ping()).await {
        Ok(Ok(())) => Err(Failure::behaviour(format!("a ping {what} succeeded"))),
        Ok(Err(error)) => {
            ensure!(error.is_retryable(), "a ping {what} is not retryable: {error:?}");
            Ok(())
        }
        Err(_) => Err(Failure::behaviour(format!("a ping {what} takes longer than the timeout"))),
    }
}
