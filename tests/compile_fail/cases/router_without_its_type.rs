//! A function returns a `Router` without its type parameters.
//! Return `BoxCloneSyncService<Message, Disposition, Infallible>` of tower: `BoxCloneSyncService::new(router)`.

use consign::{
    BuildError,
    codecs::Codecs,
    routing::{Body, Router},
};

async fn placed(Body(_): Body<u64>) {}

fn router() -> Result<Router, BuildError> {
    Router::new(Codecs::json()).route("order.placed", placed).build()
}

fn main() {
    let _ = router();
}
