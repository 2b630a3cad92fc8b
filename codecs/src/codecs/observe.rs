use std::{fmt, sync::Arc};

use super::{Attempt, Chosen, Declared, DecodeFailure, Decoded, FailureReason};

/// An observer of how each body was read: for counts by codec, decision and outcome. A closure `Fn(&Reading<'_>)` is one.
///
/// ```
/// # #[cfg(feature = "json")] {
/// use std::sync::{Arc, Mutex};
/// use consign_codecs::{Codecs, Json, Reading};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = Arc::clone(&seen);
/// let codecs = Codecs::builder()
///     .with(Json::default())
///     .observe(move |reading: &Reading<'_>| log.lock().unwrap().push((reading.codec, reading.outcome())))
///     .build()?;
/// assert_eq!(codecs.decode::<u32>(None, b"7"), Ok(7));
/// assert!(codecs.decode::<u32>(Some("image/png"), b"7").is_err());
/// assert_eq!(*seen.lock().unwrap(), [(Some("json"), "ok"), (None, "UnsupportedContentType")]);
/// # }
/// # Ok::<_, consign_codecs::ConfigError>(())
/// ```
pub trait Observe: Send + Sync + 'static {
    /// Is called after a body was read, or was refused, and before the value is returned. It runs on the thread that reads, and
    /// must not block. A panic propagates to the caller of the decode.
    fn decoded(&self, reading: &Reading<'_>);
}

impl<F: Fn(&Reading<'_>) + Send + Sync + 'static> Observe for F {
    fn decoded(&self, reading: &Reading<'_>) {
        self(reading);
    }
}

/// A report of how one body was read. Every field has one of a few values that the set determines, never a text of the
/// producer's.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Reading<'r> {
    /// The class of the ContentType for the set.
    pub declared: Declared,
    /// The codec that read the body, or the first one that tried if none could read it. `None` if none tried.
    pub codec: Option<&'static str>,
    /// The reason for choosing that codec.
    pub chosen: Option<Chosen>,
    /// The reason why there is no value. `None` if there is one.
    pub failure: Option<FailureReason>,
    /// The attempts that failed, in order.
    pub attempts: &'r [Attempt],
}

impl Reading<'_> {
    /// Returns the decision as a code: that of [`Chosen`], or `rejected` if no codec tried.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        self.chosen.map_or("rejected", Chosen::code)
    }

    /// Returns the outcome as a code: `ok`, or that of the [`FailureReason`].
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.failure.map_or("ok", FailureReason::code)
    }
}

/// The observer of a set.
#[derive(Clone)]
pub(super) struct Observer(Arc<dyn Observe>);

impl Observer {
    pub(super) fn new(observe: impl Observe) -> Self {
        Self(Arc::new(observe))
    }

    /// Notifies it of a value or a failure.
    pub(super) fn tell<T>(&self, declared: Declared, result: &Result<Decoded<T>, DecodeFailure>) {
        let (codec, chosen, failure, attempts) = match result {
            Ok(decoded) => (Some(decoded.by), Some(decoded.chosen), None, decoded.attempts.as_slice()),
            Err(failure) => {
                let first = failure.attempts().first();
                let (codec, chosen) = (first.map(|first| first.codec), first.map(|first| first.chosen));
                (codec, chosen, Some(failure.reason()), failure.attempts())
            }
        };
        self.0.decoded(&Reading { declared, codec, chosen, failure, attempts });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
