//! The settlement of a received message: a [`Disposition`], and the types that convert into one.

mod cause;
mod convert;
mod failure;
mod undecodable;

pub(crate) use self::cause::cause_of;
pub use self::{
    convert::IntoDisposition,
    failure::{Permanent, Transient},
    undecodable::Undecodable,
};
pub use consign_core::settlement::*;
