//! Warnings that a client can cause: at most 10 lines in a second of each kind.

/// Logs a warning of a kind, unless there were too many of it.
macro_rules! warn_of {
    ($kind:literal, $($line:tt)*) => {
        if let Some(suppressed) = consign_core::transport::log_limit("server", $kind) {
            tracing::warn!(kind = $kind, suppressed, $($line)*);
        }
    };
}

pub(crate) use warn_of;
