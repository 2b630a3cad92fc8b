//! Connections that break, and a database that is not there or says nothing.

use std::{
    error::Error,
    fmt::Debug,
    future::{Future, pending},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::dedup::{Begin, DedupKey, DedupLayer, DedupStore, StoreError, StoreErrorKind},
};
use consign_conformance::{faults::Proxy, log::Lines};
use consign_store_postgres::{
    Builder, NoAnswer, PostgresStore, Table,
    tokio_postgres::{Config, NoTls, config::Host},
};
use futures_util::future::join_all;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, lookup_host},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::{
    cases::{LEASE, WINDOW, begin, is_committed, reserve},
    support::{self, Bench},
};

/// Rules: W-35.
#[tokio::test]
async fn connections_that_were_lost_are_made_again() {
    let Some(bench) = Bench::new().await else { return };
    let ended = async || assert!(bench.end_connections_of_stores().await > 0, "it had one");
    ended().await;
    let (token, forgotten) = (reserve(bench.store(), b"a").await, reserve(bench.store(), b"b").await);
    ended().await;
    bench.store().commit(&token).await.unwrap();
    ended().await;
    bench.store().forget(&forgotten).await.unwrap();
    ended().await;
    assert!(is_committed(bench.store(), b"a").await);
    reserve(bench.store(), b"b").await;
}

/// Has the table locked while something is done. The statements are prepared before, so that they wait when they are run.
async fn with_table_locked(bench: &Bench, done: impl Future<Output = ()>) {
    reserve(bench.store(), b"first").await;
    let mut client = support::client().await;
    let lock = client.transaction().await.unwrap();
    lock.batch_execute(&format!("LOCK TABLE {}", bench.name)).await.unwrap();
    done.await;
    lock.rollback().await.unwrap();
}

async fn wait_for_a_request(bench: &Bench) {
    while bench.requests_that_wait().await == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Rules: W-35.
#[tokio::test]
async fn a_request_is_repeated_when_its_connection_is_lost() {
    let Some(bench) = Bench::new().await else { return };
    let store = Arc::clone(bench.store());
    let mut token = None;
    with_table_locked(&bench, async {
        token = Some(tokio::spawn(async move { reserve(&store, b"a").await }));
        wait_for_a_request(&bench).await;
        assert_eq!(bench.end_connections_of_stores().await, 1);
        wait_for_a_request(&bench).await;
    })
    .await;
    bench.store().commit(&token.unwrap().await.unwrap()).await.unwrap();
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-35.
#[tokio::test]
async fn an_unreported_reservation_is_forgotten() {
    let Some(bench) = Bench::new().await else { return };
    let store = Arc::clone(bench.store());
    with_table_locked(&bench, async {
        let call = tokio::spawn(async move { begin(&store, b"a").await });
        wait_for_a_request(&bench).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    })
    .await;
    // Long before the end of its lease.
    for _ in 0..1_000 {
        if matches!(begin(bench.store(), b"a").await, Begin::New(_)) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it is still reserved");
}

async fn server() -> SocketAddr {
    let config = support::config();
    let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first()) else {
        panic!("CONSIGN_POSTGRES names a host and a port")
    };
    lookup_host((host.as_str(), *port)).await.unwrap().next().unwrap()
}

/// The configuration of a store over the table, with other servers.
fn through(bench: &Bench, ports: &[u16]) -> Config {
    let (config, mut through) = (support::config(), Config::new());
    for port in ports {
        through.host("127.0.0.1").port(*port);
    }
    through.application_name(&bench.name).user(config.get_user().unwrap()).dbname(config.get_dbname().unwrap());
    if let Some(password) = config.get_password() {
        through.password(password);
    }
    through
}

/// Repeats a call for 30 s at most, until it succeeds: one that precedes a test has its short timeout too.
async fn repeated<T, E: Debug>(mut call: impl AsyncFnMut() -> Result<T, E>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < until, "{error:?}"),
        }
    }
}

/// A store over the table, with a timeout that is also that of connecting.
async fn impatient(bench: &Bench, mut config: Config, short: impl Fn(Builder) -> Builder) -> PostgresStore {
    config.application_name(&bench.name);
    repeated(async || {
        let builder = short(PostgresStore::builder(WINDOW).table(Table::new(&bench.name).unwrap()));
        builder.connect(config.clone(), NoTls).await
    })
    .await
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

/// Rules: W-35.
#[tokio::test]
async fn idle_connections_that_a_firewall_has_dropped_silently_are_replaced() {
    let Some(bench) = Bench::new().await else { return };
    let firewall = Firewall::new(server().await).await;
    let through = through(&bench, &[firewall.port]);
    let table = Table::new(&bench.name).unwrap();
    // A check has a fifth of it.
    let builder = PostgresStore::builder(WINDOW).table(table).timeout(Duration::from_secs(20));
    let store = builder.connect(through, NoTls).await.unwrap();
    let ids: Vec<_> = (0..8_u8).map(|id| [id]).collect();
    let tokens = join_all(ids.iter().map(|id| reserve(&store, id))).await;
    // Longer than a connection may be idle without a check.
    sleep(Duration::from_millis(1_100)).await;
    firewall.forget();
    let began = Instant::now();
    for result in join_all(tokens.iter().map(|token| store.commit(token))).await {
        result.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(16), "each waited for one check at most: {:?}", began.elapsed());
    for id in &ids {
        assert!(is_committed(bench.store(), id).await);
    }
}

/// Rules: W-35.
#[tokio::test]
async fn a_host_that_accepts_connections_and_does_not_answer_is_left_for_the_next_one() {
    let Some(bench) = Bench::new().await else { return };
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = [silent.local_addr().unwrap().port(), server().await.port()];
    let builder =
        PostgresStore::builder(WINDOW).table(Table::new(&bench.name).unwrap()).timeout(Duration::from_secs(8));
    let store = builder.connect(through(&bench, &ports), NoTls).await.unwrap();
    store.commit(&reserve(&store, b"a").await).await.unwrap();
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-35.
#[tokio::test]
async fn a_commit_during_a_restart_of_the_database_waits_for_its_end() {
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(server().await).await.unwrap();
    let builder = PostgresStore::builder(WINDOW).table(Table::new(&bench.name).unwrap());
    let store = builder.connect(through(&bench, &[proxy.address().port()]), NoTls).await.unwrap();
    let token = reserve(&store, b"a").await;
    proxy.refuse(true);
    proxy.cut();
    let (committed, ()) = tokio::join!(store.commit(&token), async {
        sleep(Duration::from_secs(2)).await;
        proxy.refuse(false);
    });
    committed.unwrap();
    assert!(is_committed(bench.store(), b"a").await);
}

/// The statements that refuse writes by the connections that there are now.
fn read_only(name: &str) -> String {
    format!(
        "CREATE FUNCTION {name}_read_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) < TG_ARGV[0]::timestamptz THEN \
             RAISE EXCEPTION USING ERRCODE = '25006'; \
           END IF; RETURN NULL; \
         END $$; \
         DO $$ BEGIN EXECUTE format('CREATE TRIGGER read_only BEFORE INSERT OR UPDATE OR DELETE ON {name} \
           EXECUTE FUNCTION {name}_read_only(%L)', clock_timestamp()); END $$"
    )
}

/// As after a failover that has left the old primary running.
///
/// Rules: W-35.
#[tokio::test]
async fn a_connection_to_a_server_that_is_read_only_is_replaced() {
    let Some(bench) = Bench::new().await else { return };
    let store = bench.open(|builder| builder.connections(1)).await;
    // The first store over the table has its connection too.
    bench.client.batch_execute(&read_only(&bench.name)).await.unwrap();
    let begun = begin(&store, b"a").await;
    bench.client.batch_execute(&format!("DROP FUNCTION {}_read_only CASCADE", bench.name)).await.unwrap();
    assert!(matches!(begun, Begin::New(_)));
}

async fn connect(port: u16) -> StoreError {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("nobody");
    let builder = PostgresStore::builder(WINDOW).timeout(Duration::from_millis(800));
    builder.connect(config, NoTls).await.unwrap_err()
}

/// Rules: W-09.
#[tokio::test]
async fn a_database_that_is_not_there_or_says_nothing_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = connect(port).await;
    drop(listener);
    let gone = connect(port).await;
    assert_eq!((silent.kind(), gone.kind()), (StoreErrorKind::Unavailable, StoreErrorKind::Unavailable));
    assert_eq!(silent.source().unwrap().downcast_ref(), Some(&NoAnswer::TooLate));
    assert!(!gone.source().unwrap().is::<NoAnswer>());
}

/// Rules: W-09.
#[tokio::test]
async fn a_request_that_waits_too_long_is_unavailable_and_the_next_one_has_another_connection() {
    let Some(bench) = Bench::new().await else { return };
    let impatient =
        impatient(&bench, support::config(), |builder| builder.connections(1).timeout(Duration::from_millis(800)));
    let impatient = impatient.await;
    // What an attempt has reserved too late is forgotten.
    let token = repeated(async || match impatient.begin(DedupKey::new("orders", b"a"), LEASE).await {
        Ok(Begin::New(token)) => Ok(token),
        other => Err(format!("{:?}", other.err())),
    });
    let token = token.await;
    with_table_locked(&bench, async {
        let error = impatient.commit(&token).await.unwrap_err();
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&NoAnswer::TooLate));
    })
    .await;
    while impatient.commit(&token).await.is_err() {}
    assert!(is_committed(bench.store(), b"a").await);
}

/// Rules: W-09.
#[tokio::test]
async fn the_server_ends_a_statement_that_is_given_up() {
    let Some(bench) = Bench::new().await else { return };
    let name = &bench.name;
    let short = |builder: Builder| builder.timeout(Duration::from_millis(200));
    let store = impatient(&bench, support::config(), short).await;
    let slow = format!(
        "CREATE FUNCTION {name}_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON {name} EXECUTE FUNCTION {name}_slow()"
    );
    bench.client.batch_execute(&slow).await.unwrap();
    for id in 0..10_u8 {
        let begun = store.begin(DedupKey::new("orders", &[id]), LEASE).await;
        assert_eq!(begun.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    let active = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'";
    let ended = async {
        while bench.client.query_one(active, &[name]).await.unwrap().get::<_, i64>(0) > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let is_in_time = timeout(Duration::from_secs(20), ended).await.is_ok();
    bench.end_connections_of_stores().await;
    bench.client.batch_execute(&format!("DROP FUNCTION {name}_slow CASCADE")).await.unwrap();
    assert!(is_in_time, "statements go on");
}

/// Rules: W-09.
#[tokio::test]
async fn the_log_says_why_an_id_is_not_reserved() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new().await else { return };
    let proxy = Proxy::to(server().await).await.unwrap();
    let short = |builder: Builder| builder.timeout(Duration::from_millis(200));
    let store = impatient(&bench, through(&bench, &[proxy.address().port()]), short).await;
    proxy.freeze(true);
    let layer = DedupLayer::new(store, "orders");
    let stack = layer.layer(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
    let message = Message::builder().message_id("a").build("body").unwrap();
    let logged = async {
        while lines.all().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = stack.oneshot(message) => panic!("it waits"),
        logged = timeout(Duration::from_secs(20), logged) => logged.unwrap(),
    }
    assert!(lines.all()[0].contains("the database did not answer in time"), "{:?}", lines.all());
}
