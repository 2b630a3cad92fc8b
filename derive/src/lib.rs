//! The derive macro of `consign`: an enum whose variants are types of messages. It is used as `consign::message_types::MessageTypes`,
//! whose page describes it.
#![forbid(unsafe_code)]

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements the traits of message types for an enum or a struct: see `consign::message_types`.
///
/// On a variant with one field, whose type is the body, or without one, and on a struct that is a body itself:
///
/// | in `#[message(..)]` | |
/// |---|---|
/// | `"order.created"` | the name; it comes first, and has to be there |
/// | `alias = "OrderCreated"` | another name that it is received under; any number |
/// | `version = 3` | the version that the type of the field is |
/// | `from(1 = CreatedV1, 2 = CreatedV2)` | the versions before, each converted into the next by `TryFrom` or `From` |
/// | `codec = "msgpack"` | the codec that writes it |
///
/// On the enum, or beside those on a struct:
///
/// | in `#[message(..)]` | |
/// |---|---|
/// | `property = "message-type"` | the application property that says the type, instead of the Subject |
/// | `version_property = "version"` | the application property that says the version, instead of `x-message-version` |
/// | `receive`, `send` | only this side, for bodies that cannot be written, or not be read |
/// | `crate = "path"` | where the crate `consign` is, if it is not `::consign` |
#[proc_macro_derive(MessageTypes, attributes(message))]
pub fn message_types(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
