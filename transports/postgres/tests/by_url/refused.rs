//! URLs that lead to no broker, and those that name several servers.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use consign::{
    administration::Administration,
    transport::{ConnectError, ConnectErrorKind, DynTransport, TransportRegistry},
};
use consign_conformance::faults::Proxy;
use consign_postgres::{Postgres, connector, tokio_postgres};
use tokio::net::TcpListener;

use crate::Fixture;

async fn connect(url: &str) -> Result<DynTransport, ConnectError> {
    TransportRegistry::new().with(connector()).connect(url).await
}

/// An address at which nothing listens.
async fn refusing() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
}

/// The URL of the server with other hosts before its own.
fn with_hosts_before(url: &str, hosts: &str) -> String {
    let (credentials, rest) = url.split_once('@').unwrap();
    format!("{credentials}@{hosts},{rest}")
}

fn assert_no_secret(error: &ConnectError) {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{text}");
        next = error.source();
    }
}

#[tokio::test]
async fn no_error_has_the_password_of_a_server_that_is_not_reached() {
    let refusing = refusing().await;
    for (url, kind) in [
        (format!("postgres://shop:s3cret@{refusing}/shop"), ConnectErrorKind::Connection),
        (format!("postgres://shop@{refusing}/shop?password=s3cret"), ConnectErrorKind::Connection),
        (format!("postgresql://shop:s3cret@{refusing}/shop?sslmode=require"), ConnectErrorKind::Connection),
        ("postgres://shop:s3cret@localhost:none/shop".into(), ConnectErrorKind::InvalidUrl),
        ("postgres://shop:p?s3cret@localhost/shop".into(), ConnectErrorKind::InvalidUrl),
        ("postgres://shop:s3cret@localhost/shop?namespace=s3cret".into(), ConnectErrorKind::UnknownParameter),
        ("postgres://shop:s3cret@localhost/shop?timeout=s3cret".into(), ConnectErrorKind::InvalidParameter),
    ] {
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_no_secret(&error);
    }
}

#[tokio::test]
async fn no_error_has_the_password_that_a_server_refuses() {
    let Some(fixture) = Fixture::new().await else { return };
    let (_, rest) = fixture.server.split_once('@').unwrap();
    let error = connect(&format!("postgres://nobody:s3cret@{rest}")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Connection, "{error}");
    assert_no_secret(&error);
    fixture.end().await;
}

#[tokio::test]
async fn the_next_host_is_used_when_one_refuses() {
    let Some(fixture) = Fixture::new().await else { return };
    let url = with_hosts_before(&fixture.url(), &refusing().await.to_string());
    let transport = connect(&url).await.unwrap();
    assert!(transport.list().await.unwrap().is_empty());
    fixture.end().await;
}

/// It accepts connections, as the kernel of a server that hangs does.
#[tokio::test]
async fn the_next_host_is_used_when_one_does_not_answer() {
    let Some(fixture) = Fixture::new().await else { return };
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = with_hosts_before(&fixture.url(), &silent.local_addr().unwrap().to_string());
    let transport = connect(&format!("{url}&timeout=8s&target_session_attrs=read-write")).await.unwrap();
    assert!(transport.list().await.unwrap().is_empty());
    fixture.end().await;
}

#[tokio::test]
async fn the_next_host_is_used_when_one_does_not_answer_any_more() {
    let Some(fixture) = Fixture::new().await else { return };
    let address = fixture.server.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let address = tokio::net::lookup_host(address).await.unwrap().next().unwrap();
    let proxy = Proxy::to(address).await.unwrap();
    let url = with_hosts_before(&fixture.url(), &proxy.address().to_string());
    let transport = connect(&format!("{url}&timeout=8s&target_session_attrs=read-write")).await.unwrap();
    proxy.freeze(true);
    drop(transport.extension::<Postgres>().unwrap().pool().retain(|_, _| false));
    assert!(transport.list().await.unwrap().is_empty());
    fixture.end().await;
}

#[tokio::test]
async fn a_server_that_is_read_only_is_not_the_primary() {
    let Some(fixture) = Fixture::new().await else { return };
    let read_only = format!("{}&options=-c%20default_transaction_read_only%3Don", fixture.url());
    // The schema is up to date: connecting writes nothing.
    connect(&read_only).await.unwrap();
    let error = connect(&format!("{read_only}&target_session_attrs=read-write")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Connection, "{error}");
    connect(&format!("{}&target_session_attrs=read-write", fixture.url())).await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn migrate_false_leaves_the_schema_out() {
    let Some(fixture) = Fixture::new().await else { return };
    let name = format!("{}_none", &*fixture.schema);
    let url = crate::url(&fixture.server, &name);
    let transport = connect(&format!("{url}&migrate=false")).await.unwrap();
    let error = transport.list().await.unwrap_err();
    assert!(error.to_string().contains("migrate"), "{error}");
    let (client, connection) = tokio_postgres::connect(&fixture.server, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    let found = client.query_one("SELECT to_regnamespace($1) IS NULL", &[&name]).await.unwrap();
    assert!(found.get::<_, bool>(0));
    driving.abort();
    fixture.end().await;
}

/// Nothing answers, and nothing refuses.
#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_after_the_timeout() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("postgres://shop:s3cret@{}/shop?timeout=50ms", silent.local_addr().unwrap());
    let error = tokio::time::timeout(Duration::from_secs(9), connect(&url)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Connection, "{error}");
    assert_no_secret(&error);
}

/// The texts of the database client have the cause in their sources alone.
#[tokio::test]
async fn the_error_of_a_server_that_is_not_reached_has_the_cause() {
    let refusing = refusing().await;
    let error = connect(&format!("postgres://shop:s3cret@{refusing}/shop")).await.unwrap_err().to_string();
    assert!(error.contains("refused (os error 111)") && error.contains(&refusing.to_string()), "{error}");
    let error = connect("postgres://shop:s3cret@consign.invalid/shop").await.unwrap_err().to_string();
    assert!(error.contains("failed to lookup address") && error.contains("consign.invalid:5432"), "{error}");
}
