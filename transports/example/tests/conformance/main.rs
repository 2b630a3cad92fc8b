//! The suite of all transports on this one, in virtual time.

mod backend;

use consign_conformance::{Suite, table};

use crate::backend::InChannels;

#[tokio::test(start_paused = true)]
async fn the_table_is_up_to_date() {
    let report = Suite::new().run(&InChannels::new()).await;
    table::keep(&report, concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md")).unwrap();
}
