//! What becomes of messages when connections break and the server dies, by the harness of all transports.

mod support;

use std::{net::SocketAddr, time::Duration};

use consign::transport::{DynTransport, ErrorKind};
use consign_conformance::{
    Failure,
    faults::{Plan, Server},
};
use consign_postgres::Postgres;

use crate::support::cluster::Cluster;

const SCHEMA: &str = "faults";

struct Faulty(Cluster);

impl Server for Faulty {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let options = Postgres::options().schema(SCHEMA).connections(1).timeout(self.deadline());
        let options = options.poll_every(Duration::from_millis(500)).grace(Duration::from_secs(2));
        Ok(options.connect(&Cluster::url(address)).await?.into())
    }

    async fn restart(&self) -> Result<(), Failure> {
        tokio::task::block_in_place(|| self.0.restart())
            .map_err(|error| Failure::answer(ErrorKind::General, error.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let url = Cluster::url(cluster.address());
    Postgres::options().schema(SCHEMA).connect(&url).await.unwrap().migrate().await.unwrap();
    let report = Plan::from_env().run(&Faulty(cluster)).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out().is_empty(), "{report}");
}
