/// A policy for a body whose ContentType alone does not lead to a value.
///
/// There are five cases: it is *missing*, *unknown*, *malformed*, *not allowed* here, or the codec that it names *failed*. Each
/// has a policy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// No codec tries: the failure has the reason.
    Reject,
    /// This codec tries, and no other.
    Codec(&'static str),
    /// The codecs of the chain try, in order.
    Chain,
    /// This codec tries, then those of the chain.
    CodecThenChain(&'static str),
}

impl Policy {
    pub(super) const fn codec(self) -> Option<&'static str> {
        match self {
            Self::Codec(name) | Self::CodecThenChain(name) => Some(name),
            Self::Reject | Self::Chain => None,
        }
    }

    pub(super) const fn chain(self) -> bool {
        matches!(self, Self::Chain | Self::CodecThenChain(_))
    }
}
