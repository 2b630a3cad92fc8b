//! The types that a router is made of. They are in signatures of public items, and no user can name them.

pub(crate) use super::{
    describe::BuiltRouter,
    handler::{Call, HandlerFuture, Invoke},
    layered::{HandlerService, Layered},
    route::{CountRoutes, ERASED, Fallback, Merged, NO_ROUTE, NoRoute, OpenEnd, Route, RouteList, RouteNumber},
};
