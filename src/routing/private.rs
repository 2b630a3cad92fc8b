//! The types that a router is made of. Public because they are in signatures; not part of the API.

pub use super::{
    handler::{Call, HandlerFuture, Invoke},
    route::{Fallback, NoRoute, OpenEnd, Route, Routes, RoutesFuture, TypedRoute},
    unknown::Forwarding,
};
