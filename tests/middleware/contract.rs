//! Every layer calls only what was made ready on that very instance, and clones of a stack do not share readiness.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::{
        busy_pause::BusyPauseLayer,
        catch_panic::CatchPanicLayer,
        circuit_breaker::CircuitBreakerLayer,
        dead_letter::DeadLetterLayer,
        dedup::{DedupLayer, MemoryStore},
        expiry::ExpiryLayer,
        from_fn,
        in_flight::InFlightLayer,
        lock_renewal::LockRenewalLayer,
        message_id::MessageIdLayer,
        renewal::Renewal,
        retry::RetryLayer,
        size_limit::SizeLimitLayer,
    },
    time::SystemClock,
    transport::{Batch, SendError, SettleError},
};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::support::{Probe, message};

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

macro_rules! receiving {
    ($($name:ident: $layer:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            exercise($layer.layer(Probe::new(Disposition::Complete)), || message("m")).await;
            // Without readiness, around a service that needs none: an answer, not a panic.
            let mut stack = $layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
            stack.call(message("m")).await.unwrap();
        }
    )*};
}

macro_rules! sending {
    ($($name:ident: $layer:expr;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            exercise($layer.layer(Probe::new(())), || message("m")).await;
            exercise($layer.layer(Probe::new(())), || Batch(vec![message("a"), message("b")])).await;
            let mut stack = $layer.layer(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
            stack.call(message("m")).await.unwrap();
        }
    )*};
}

receiving! {
    i_36_catch_panic: CatchPanicLayer::new();
    i_36_dead_letter: DeadLetterLayer::new();
    i_36_dedup: {
        let number = AtomicU32::new(0);
        let key = move |_: &Message| Some(number.fetch_add(1, Ordering::Relaxed).to_string());
        DedupLayer::new(MemoryStore::new(Duration::from_secs(60)), "m").key(key)
    };
    i_36_expiry: ExpiryLayer::new(Arc::new(SystemClock::new()));
    i_36_from_fn: from_fn::from_fn(async |message, next| next.run(message).await);
    i_36_lock_renewal: LockRenewalLayer::new(
        |_: &Message| async { Ok::<_, SettleError>(()) },
        Renewal::new(Duration::from_millis(4)),
    );
    i_36_circuit_breaker: CircuitBreakerLayer::new(1, 1, Duration::from_secs(1));
    i_36_retry: RetryLayer::new().immediate(2);
}

sending! {
    i_36_busy_pause: BusyPauseLayer::new();
    i_36_in_flight: InFlightLayer::new(4);
    i_36_message_id: MessageIdLayer::new();
    i_36_size_limit: SizeLimitLayer::default();
    i_36_from_send_fn: from_fn::from_send_fn(async |request, next| next.run(request).await);
}
