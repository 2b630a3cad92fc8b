//! What the contract of `Service` allows, for the layers here and for those of other crates.

use std::future::poll_fn;

use tower::{Service, ServiceExt};

async fn ready<S: Service<R>, R>(service: &mut S)
where
    S::Error: std::fmt::Debug,
{
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
}

/// Uses a stack in every way that the contract of `Service` allows.
pub(crate) async fn exercise<S, R>(mut stack: S, request: impl Fn() -> R)
where
    S: Service<R> + Clone + Send + 'static,
    S::Error: std::fmt::Debug + Send,
    S::Response: Send,
    S::Future: Send,
    R: Send + 'static,
{
    for _ in 0..3 {
        ready(&mut stack).await;
        stack.call(request()).await.unwrap();
    }
    // Calls that overlap on one instance.
    ready(&mut stack).await;
    let first = stack.call(request());
    ready(&mut stack).await;
    let second = stack.call(request());
    first.await.unwrap();
    second.await.unwrap();
    // A clone of a ready instance is not ready, and the instance stays so.
    ready(&mut stack).await;
    let mut clone = stack.clone();
    stack.call(request()).await.unwrap();
    ready(&mut clone).await;
    drop(stack);
    clone.call(request()).await.unwrap();

    let calls: Vec<_> = (0..16).map(|_| tokio::spawn(clone.clone().oneshot(request()))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
