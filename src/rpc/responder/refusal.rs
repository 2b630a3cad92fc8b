use std::convert::Infallible;

use consign_codecs::Encode;

use crate::{
    Disposition,
    rpc::Fault,
    settlement::{IntoDisposition, Permanent, Transient, Undecodable},
};

/// The return value of a handler that replies to requests: a [`Reply`], or a `Result` whose error is a [`Fault`], or
/// converts into a [`Refusal`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer to a request",
    note = "return a `Reply<T>`, or a `Result<T, E>` whose error is a `Fault`, a `Transient`, a `Permanent`, or a type of yours that converts into a `Refusal`"
)]
pub trait IntoAnswer {
    /// The value that is written into the reply.
    type Value: Encode;

    /// Returns the value, or the refusal.
    fn into_answer(self) -> Result<Self::Value, Refusal>;
}

/// An answer that cannot fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply<T>(
    /// The value.
    pub T,
);

impl<T: Encode> IntoAnswer for Reply<T> {
    type Value = T;

    fn into_answer(self) -> Result<T, Refusal> {
        Ok(self.0)
    }
}

impl<T: Encode, E: Into<Refusal>> IntoAnswer for Result<T, E> {
    type Value = T;

    fn into_answer(self) -> Result<T, Refusal> {
        self.map_err(Into::into)
    }
}

/// Why a handler has no reply.
#[derive(Debug)]
pub enum Refusal {
    /// The requester gets the fault, and the request is completed.
    Fault(Box<Fault>),
    /// The request is settled so. If it is dead-lettered, the requester gets the reason.
    Settle(Disposition),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

macro_rules! settled {
    ($($error:ty)*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self::Settle(error.into_disposition())
            }
        }
    )*};
}

settled! { Disposition Transient Permanent Undecodable Infallible }
