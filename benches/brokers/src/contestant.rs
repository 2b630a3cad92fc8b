use std::{future::Future, path::Path, pin::Pin};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Step<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// Bytes of each message's body, unless others are given.
pub(crate) const SIZE: usize = 1_024;

/// A way to have a durable queue, with one queue of it.
pub(crate) trait Contestant {
    /// Makes ready for windows of this size. Not measured.
    fn prepare(&mut self, _window: usize) -> Step<'_> {
        Box::pin(async { Ok(()) })
    }

    /// Sends bodies of so many bytes from here on. Contestants on a disk have [`SIZE`].
    fn resize(&mut self, _size: usize) {}

    /// Where its server listens on this machine.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Sends so many messages by some senders while as many receivers receive and complete them, each one after the other.
    fn exchange(&mut self, _tasks: usize, _messages: usize) -> Step<'_> {
        Box::pin(async { Err(Unexpected("it has one sender and one receiver").into()) })
    }

    /// Sends so many messages, and waits until all of them are acknowledged.
    fn send(&mut self, window: usize) -> Step<'_>;

    /// Receives so many messages, completes them, and waits until that is acknowledged, where it is.
    fn take(&mut self, window: usize) -> Step<'_>;

    /// Has so many tasks send so many messages each, one after the other, and waits for all of them. `None` where a task
    /// cannot send for itself.
    fn send_from(&mut self, _senders: usize, _each: usize) -> Option<Step<'_>> {
        None
    }

    /// Takes everything away that it has made.
    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async { Ok(()) })
    }
}

/// What takes part, and how it does.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    /// Whether it writes in this process, so that the system can say how much.
    pub(crate) is_here: bool,
    pub(crate) enter: fn(Place<'_>) -> Step<'_, Entered>,
}

/// Where a contestant may keep its files, and what to call what it makes elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) folder: &'p Path,
    pub(crate) name: &'p str,
}

pub(crate) struct Entered {
    pub(crate) contestant: Box<dyn Contestant>,
    /// The version and the settings that determine how safe a message is, as the contestant itself reports them.
    pub(crate) settings: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The broker of this library on a disk, beside other ways.
    Disk,
    /// The transports of this library, each beside its client by hand.
    Transports,
    Both,
}

impl Part {
    pub(crate) const DISK: &'static str = "disk";
    pub(crate) const TRANSPORTS: &'static str = "transports";

    pub(crate) fn is_of(self, word: &str) -> bool {
        match self {
            Self::Disk => word == Self::DISK,
            Self::Transports => word == Self::TRANSPORTS,
            Self::Both => word == Self::DISK || word == Self::TRANSPORTS,
        }
    }
}

/// A body that nothing compresses. Every message has the same one.
pub(crate) fn body() -> Vec<u8> {
    body_of(SIZE)
}

pub(crate) fn body_of(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}

/// A failure of the bench itself.
#[derive(Debug)]
pub(crate) struct Unexpected(pub(crate) &'static str);

impl std::fmt::Display for Unexpected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unexpected {}
