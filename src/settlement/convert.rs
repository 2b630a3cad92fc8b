use std::convert::Infallible;

use consign_core::settlement::{DeadLetter, Disposition};

/// The return value of a handler: any type that converts into a [`Disposition`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not settle a message: return `()`, a `Disposition`, or a `Result` whose error is `Transient` or `Permanent`",
    note = "return `()`, a `Disposition`, or a `Result` of such whose error is a `Transient`, a `Permanent`, or a type of yours that implements `IntoDisposition`"
)]
pub trait IntoDisposition {
    /// Converts the value into a disposition.
    fn into_disposition(self) -> Disposition;
}

impl IntoDisposition for Disposition {
    #[inline]
    fn into_disposition(self) -> Disposition {
        self
    }
}

/// Complete.
impl IntoDisposition for () {
    #[inline]
    fn into_disposition(self) -> Disposition {
        Disposition::Complete
    }
}

impl IntoDisposition for Infallible {
    fn into_disposition(self) -> Disposition {
        match self {}
    }
}

impl IntoDisposition for DeadLetter {
    fn into_disposition(self) -> Disposition {
        Disposition::DeadLetter(Box::new(self))
    }
}

impl<T: IntoDisposition, E: IntoDisposition> IntoDisposition for Result<T, E> {
    #[inline]
    fn into_disposition(self) -> Disposition {
        match self {
            Ok(value) => value.into_disposition(),
            Err(error) => error.into_disposition(),
        }
    }
}
