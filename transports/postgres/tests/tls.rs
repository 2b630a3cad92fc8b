//! TLS to a PostgreSQL of the test's own, whose certificate nobody else trusts.
#![cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::{fs, path::Path, process::Command, sync::Arc};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use consign_postgres::Postgres;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::support::cluster::Cluster;

/// A certificate for `localhost`, and its key.
fn certify(folder: &Path) {
    let certified = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl");
    assert!(certified.status.success(), "{certified:?}");
}

/// What trusts this certificate alone.
fn trusting(certificate: &Path) -> MakeRustlsConnect {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&fs::read(certificate).unwrap()).unwrap()).unwrap();
    #[cfg(feature = "tls-aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "tls-aws-lc"))]
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap();
    MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sslmode_require_encrypts_and_checks_the_certificate() {
    let cluster = Cluster::start_with(|folder| {
        certify(folder);
        let at = |name| folder.join(name).display().to_string();
        format!("-c ssl=on -c ssl_cert_file={} -c ssl_key_file={}", at("certificate.pem"), at("key.pem"))
    });
    let Some(cluster) = cluster else { return };
    let port = cluster.address().port();
    let url = |host: &str, mode: &str| format!("postgresql://test@{host}:{port}/postgres?sslmode={mode}");
    let error = Postgres::connect(&url("localhost", "require")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");

    let certificate = cluster.folder().join("certificate.pem");
    // It is for a name, and not for an address.
    let named = url("127.0.0.1", "require").parse().unwrap();
    let error = Postgres::options().connect_with(named, trusting(&certificate)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let config = url("localhost", "require").parse().unwrap();
    let postgres = Postgres::options().connect_with(config, trusting(&certificate)).await.unwrap();
    postgres.migrate().await.unwrap();
    postgres.create_queue("tls", QueueSettings::default()).await.unwrap();
    postgres.sender("tls").await.unwrap().send(Message::new("secret")).await.unwrap();
    let delivery = postgres.receiver("tls").await.unwrap().receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
    // That which listens too.
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL";
    let row = postgres.pool().get().await.unwrap().query_one(sql, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}
