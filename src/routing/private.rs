//! The types that a router is made of. Public because they are in signatures; not part of the API.

pub use super::{
    handler::{Call, HandlerFuture, Invoke},
    route::{NoRoute, OpenEnd, Otherwise, Route, Routes, RoutesFuture, TypedRoute},
    unknown::Forwarding,
};
