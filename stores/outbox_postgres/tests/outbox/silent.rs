//! Connections that break without a word.

use std::{future::pending, net::SocketAddr, time::Duration};

use consign::{administration::QueueSettings, broker::Broker};
use consign_conformance::log::Lines;
use consign_outbox_postgres::{
    Relay,
    tokio_postgres::{Config, NoTls, config::Host},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, lookup_host},
    sync::watch,
    time::sleep,
};

use crate::support::{self, Bench, Running, message};

async fn server() -> SocketAddr {
    let config = support::config();
    let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first()) else {
        panic!("CONSIGN_POSTGRES names a host and a port")
    };
    lookup_host((host.as_str(), *port)).await.unwrap().next().unwrap()
}

/// The configuration of a bench, with other servers.
fn through(bench: &Bench, ports: &[u16]) -> Config {
    let (named, mut config) = (bench.named(), Config::new());
    for port in ports {
        config.host("127.0.0.1").port(*port);
    }
    config.user(named.get_user().unwrap()).dbname(named.get_dbname().unwrap()).application_name(&bench.name);
    if let Some(password) = named.get_password() {
        config.password(password);
    }
    config
}

/// A firewall before the database: it forgets the connections that there are, and does not tell the two ends.
struct Firewall {
    port: u16,
    generation: watch::Sender<u32>,
}

impl Firewall {
    async fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, generation) = (listener.local_addr().unwrap().port(), watch::Sender::new(0));
        let forgotten = generation.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut forgotten = forgotten.subscribe();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        // Both stay open, and nothing passes.
                        _ = forgotten.changed() => pending().await,
                    }
                });
            }
        });
        Self { port, generation }
    }

    fn forget(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

/// Starts a relay to `orders` on these servers, and waits until it has the lock.
async fn start(bench: &Bench, ports: &[u16]) -> Running {
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    let running = Running::start(Relay::new(bench.outbox.clone(), through(bench, ports), NoTls, broker));
    bench
        .until(
            "EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) \
             WHERE application_name = '{t}' AND locktype = 'advisory' AND granted)",
        )
        .await;
    running
}

/// Rules: X-41.
#[tokio::test]
async fn a_relay_ends_its_connection_that_was_lost_silently() {
    let mut bench = Bench::new().await;
    let firewall = Firewall::new(server().await).await;
    let running = start(&bench, &[firewall.port]).await;
    firewall.forget();
    bench.add("orders", [message("a")]).await;
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 1);
    bench.end().await;
}

/// Rules: X-41.
#[tokio::test]
async fn a_host_that_accepts_connections_and_does_not_answer_is_left_for_the_next_one() {
    let mut bench = Bench::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = start(&bench, &[silent.local_addr().unwrap().port(), server().await.port()]).await;
    bench.add("orders", [message("a")]).await;
    bench.until_sent().await;
    running.stop().await;
    bench.end().await;
}

/// Rules: X-47.
#[tokio::test]
async fn the_log_says_why_there_is_no_connection() {
    let (lines, _guard) = Lines::capture();
    let bench = Bench::new().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let relay = Relay::new(bench.outbox.clone(), through(&bench, &[closed]), NoTls, Broker::new());
    let logged = async {
        while lines.of("consign::outbox").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    relay.run_until(logged).await.unwrap();
    let lines = lines.of("consign::outbox");
    assert!(lines[0].contains("efused"), "{lines:?}");
    bench.end().await;
}
