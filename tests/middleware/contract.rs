//! Every layer calls only what was made ready on that very instance, and clones of a stack do not share readiness.

use std::{
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
        trace::TraceLayer,
    },
    time::SystemClock,
    transport::{Batch, SendError, SettleError},
};
use tower::{BoxError, Layer, Service, service_fn};

pub(crate) use super::exercise::exercise;
use super::support::{Probe, message};

#[cfg(any(feature = "encryption", feature = "signing"))]
fn keys() -> consign::middleware::keys::Keys {
    use consign::middleware::keys::{Key, Keys};
    Keys::new(Key::new("1", [1; 32]).unwrap())
}

#[cfg(feature = "claim-check")]
fn blobs() -> consign::middleware::claim_check::MemoryBlobs {
    consign::middleware::claim_check::MemoryBlobs::new(1 << 20)
}

macro_rules! receiving {
    ($($(#[$attribute:meta])* $name:ident: $layer:expr;)*) => {$(
        /// Rules: I-36.
        $(#[$attribute])*
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
    ($($(#[$attribute:meta])* $name:ident: $layer:expr;)*) => {$(
        /// Rules: I-36.
        $(#[$attribute])*
        #[tokio::test(start_paused = true)]
        async fn $name() {
            exercise($layer.layer(Probe::new(())), || message("m")).await;
            exercise($layer.layer(Probe::new(())), || Batch::from([message("a"), message("b")])).await;
            let mut stack = $layer.layer(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
            stack.call(message("m")).await.unwrap();
        }
    )*};
}

receiving! {
    catch_panic: CatchPanicLayer::new();
    dead_letter: DeadLetterLayer::new();
    dedup: {
        let number = AtomicU32::new(0);
        let key = move |_: &Message| Some(number.fetch_add(1, Ordering::Relaxed).to_string());
        DedupLayer::new(MemoryStore::new(Duration::from_secs(60)), "m").key(key)
    };
    expiry: ExpiryLayer::new(Arc::new(SystemClock::new()));
    from_fn: from_fn::from_fn(async |message, next| next.run(message).await);
    lock_renewal: LockRenewalLayer::new(
        |_: &Message| async { Ok::<_, SettleError>(()) },
        Renewal::new(Duration::from_millis(4)),
    );
    #[cfg(feature = "gzip")]
    decompress: consign::middleware::content_encoding::DecompressLayer::new([consign::middleware::content_encoding::Encoding::Gzip]);
    #[cfg(feature = "encryption")]
    decrypt: consign::middleware::encryption::DecryptLayer::new(keys()).allow_plaintext();
    #[cfg(feature = "signing")]
    verify: consign::middleware::signing::VerifyLayer::new(keys()).allow_unsigned();
    #[cfg(feature = "claim-check")]
    check_out: consign::middleware::claim_check::ResolveClaimLayer::new(blobs());
    circuit_breaker: CircuitBreakerLayer::new(1, 1, Duration::from_secs(1));
    retry: RetryLayer::new().immediate(2);
    trace: TraceLayer::receiving("orders");
}

sending! {
    busy_pause: BusyPauseLayer::new();
    #[cfg(feature = "gzip")]
    compress: consign::middleware::content_encoding::CompressLayer::new(consign::middleware::content_encoding::Encoding::Gzip).threshold(0);
    #[cfg(feature = "encryption")]
    encrypt: consign::middleware::encryption::EncryptLayer::new(keys());
    #[cfg(feature = "signing")]
    sign: consign::middleware::signing::SignLayer::new(keys());
    #[cfg(feature = "claim-check")]
    check_in: consign::middleware::claim_check::StoreClaimLayer::new(blobs()).threshold(4);
    in_flight: InFlightLayer::new(4);
    message_id: MessageIdLayer::new();
    size_limit: SizeLimitLayer::default();
    trace_sending: TraceLayer::sending("orders");
    from_send_fn: from_fn::from_send_fn(async |request, next| next.run(request).await);
}
