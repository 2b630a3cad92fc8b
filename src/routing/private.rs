//! The types that a router is made of. They are in signatures, and not part of the API. Hidden, and not private: the compiler
//! leaves hidden implementations out of its lists of what implements a trait.

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
