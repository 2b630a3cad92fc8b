//! Whether the disk of a broker, if it has one, takes more changes now.

use consign_core::transport::ErrorKind;

#[cfg(feature = "durable")]
use super::effects::Space;
use super::{effects::Effects, store::Refused};

/// The most bytes of messages that wait for the disk. They are one batch, which has 2 GiB at most.
#[cfg(feature = "durable")]
pub(super) const MAX_UNWRITTEN: u64 = 1 << 30;

/// Why the disk does not take so many bytes now.
#[derive(Debug, PartialEq)]
pub(crate) struct Lack {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
}

/// The detail of a refusal.
pub(super) const FULL: &str = "the disk is full";

impl From<Lack> for Refused {
    #[cold]
    fn from(lack: Lack) -> Self {
        Self::Disk(Box::new(lack))
    }
}

impl Effects {
    /// Whether so many bytes more may wait for the disk, if there is one. None always may.
    #[inline]
    #[cfg_attr(
        not(feature = "durable"),
        allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as it is where there may be a disk")
    )]
    pub(super) fn check_unwritten(&self, bytes: u64) -> Result<(), Lack> {
        #[cfg(feature = "durable")]
        if self.is_recorded() && bytes > 0 && self.unwritten.saturating_add(bytes) > self.space.left {
            return Err(self.lack(bytes));
        }
        let _ = bytes;
        Ok(())
    }

    /// Whether the disk, if there is one, has space for the state of a session that writes so many bytes.
    pub(super) fn check_state(&self, grows: bool, bytes: u64) -> Result<(), Refused> {
        if grows && !self.has_space() {
            return Err(Lack { kind: ErrorKind::QuotaExceeded, detail: FULL.to_owned() }.into());
        }
        self.check_unwritten(bytes).map_err(Refused::from)
    }

    /// Whether the disk, if there is one, takes a settlement that writes so many bytes. The lock of a message that it does
    /// not take holds.
    pub(super) fn check_settlement(&self, bytes: u64) -> Result<(), Refused> {
        self.check_unwritten(bytes).map_err(|mut lack| {
            // The space is not the limit of one message: there will be more of it.
            lack.kind = ErrorKind::ServiceBusy;
            if !self.has_space() {
                FULL.clone_into(&mut lack.detail);
            }
            lack.into()
        })
    }

    #[cfg(feature = "durable")]
    #[cold]
    fn lack(&self, bytes: u64) -> Lack {
        let (waiting, Space { most, .. }) = (self.unwritten, self.space);
        let (kind, detail) = if bytes > MAX_UNWRITTEN {
            (ErrorKind::MessageSizeExceeded, format!("{bytes} bytes at once, at most {MAX_UNWRITTEN} on a disk"))
        } else if bytes > most {
            (ErrorKind::QuotaExceeded, format!("{bytes} bytes at once, and the disk has space for {most}"))
        } else {
            (ErrorKind::ServiceBusy, format!("{waiting} bytes wait for the disk"))
        };
        Lack { kind, detail }
    }
}
