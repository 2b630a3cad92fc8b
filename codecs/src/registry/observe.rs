use std::{fmt, sync::Arc};

use super::{Attempt, Chosen, Declared, DecodeFailure, Decoded, FailureReason};

/// Learns how each body was read: for counts by codec, decision and outcome. A closure `Fn(&Reading<'_>)` is one.
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
    /// A body was read, or was not. It is called before the value is handed out, on the thread that reads, and must not
    /// block. A panic goes to whoever asked for the value.
    fn decoded(&self, reading: &Reading<'_>);
}

impl<F: Fn(&Reading<'_>) + Send + Sync + 'static> Observe for F {
    fn decoded(&self, reading: &Reading<'_>) {
        self(reading);
    }
}

/// How one body was read. Everything in it is one of a few values that the set decides, never a text of the producer's.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Reading<'r> {
    /// What the ContentType was to the set.
    pub declared: Declared,
    /// The codec that read the body; of a body that none could read the first that tried. `None` if none tried.
    pub codec: Option<&'static str>,
    /// Why that codec got to read it.
    pub chosen: Option<Chosen>,
    /// Why there is no value. `None` if there is one.
    pub failure: Option<FailureReason>,
    /// The attempts that failed, in order.
    pub attempts: &'r [Attempt],
}

impl Reading<'_> {
    /// The decision as a code: that of [`Chosen`], or `rejected` where no codec tried.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        self.chosen.map_or("rejected", Chosen::code)
    }

    /// The outcome as a code: `ok`, or that of the [`FailureReason`].
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.failure.map_or("ok", FailureReason::code)
    }
}

/// Who learns it.
#[derive(Clone)]
pub(super) struct Observer(Arc<dyn Observe>);

impl Observer {
    pub(super) fn new(observe: impl Observe) -> Self {
        Self(Arc::new(observe))
    }

    /// Tells it of a value, or of none.
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
