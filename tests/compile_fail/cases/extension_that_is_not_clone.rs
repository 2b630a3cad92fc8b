//! The type of an extension does not implement `Clone`.

use consign::{
    codecs::Codecs,
    routing::{Extension, Router},
};

struct Tenant;

async fn created(Extension(tenant): Extension<Tenant>) {
    drop(tenant);
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
