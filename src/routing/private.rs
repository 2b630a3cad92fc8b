//! The types that a router is made of. Public because they are in signatures; not part of the API.

pub use super::{
    describe::BuiltRouter,
    handler::{Call, HandlerFuture, Invoke},
    layered::{HandlerService, Layered, LayeredFuture},
    route::{
        CountRoutes, ERASED, Fallback, Merged, NO_ROUTE, NoRoute, OpenEnd, Route, RouteList, RouteNumber, RoutesFuture,
    },
    routes::BoxHandler,
    unknown::Forwarding,
};
