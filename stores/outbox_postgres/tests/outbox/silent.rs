//! Connections that break without a word.

use std::{future::pending, net::SocketAddr, time::Duration};

use consign::{Message, administration::QueueSettings, broker::Broker};
use consign_conformance::log::Lines;
use consign_outbox_postgres::{
    Relay,
    tokio_postgres::{Config, NoTls, config::Host},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional},
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
    let Some(mut bench) = Bench::new().await else { return };
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
    let Some(mut bench) = Bench::new().await else { return };
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = start(&bench, &[silent.local_addr().unwrap().port(), server().await.port()]).await;
    bench.add("orders", [message("a")]).await;
    bench.until_sent().await;
    running.stop().await;
    bench.end().await;
}

/// A connection that takes 10 ms for 16 KiB of what the server says. Returns its port.
async fn slow(to: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut client, mut to_client) = client.into_split();
            let (mut server, mut to_server) = TcpStream::connect(to).await.unwrap().into_split();
            tokio::spawn(async move { copy(&mut client, &mut to_server).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 16 << 10];
                while let Ok(read @ 1..) = server.read(&mut bytes).await {
                    sleep(Duration::from_millis(10)).await;
                    if to_client.write_all(&bytes[..read]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// Rules: X-41.
#[tokio::test]
async fn messages_that_take_longer_to_read_than_a_statement_may_are_sent() {
    let Some(mut bench) = Bench::new().await else { return };
    let port = slow(server().await).await;
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    let relay = Relay::new(bench.outbox.clone(), through(&bench, &[port]), NoTls, broker);
    let large = |id: u32| Message::builder().message_id(id.to_string()).build(vec![7; 200_000]).unwrap();
    // A tenth of a second for each of them.
    bench.add("orders", (0..10).map(large)).await;
    let running = Running::start(relay.database_timeout(Duration::from_millis(400)));
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 10);
    bench.end().await;
}

/// Rules: X-47.
#[tokio::test]
async fn the_log_says_why_there_is_no_connection() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
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
