//! TLS to a RabbitMQ of the test's own, whose certificate nobody else trusts.

mod support;

use std::{fs, path::Path, process::Command};

use consign::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use consign_rabbitmq::QueueSettings;

use crate::support::node::Node;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqps_is_encrypted_and_checks_the_certificate() {
    let node = Node::start_with(|folder, port| {
        certify(folder);
        let at = |name| folder.join(name).display().to_string();
        let (certificate, key) = (at("certificate.pem"), at("key.pem"));
        format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {certificate}\n\
             ssl_options.certfile = {certificate}\nssl_options.keyfile = {key}\nssl_options.verify = verify_none\n"
        )
    });
    let Some(node) = node.await else { return };
    let address = format!("amqps://guest:guest@localhost:{}/%2f", node.further_port());
    let error = support::options().connect(&address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let certificate = fs::read_to_string(node.folder().join("certificate.pem")).unwrap();
    let rabbit = support::options().certificates(certificate).connect(&address).await.unwrap();
    rabbit.create_queue("tls", QueueSettings::default()).await.unwrap();
    rabbit.sender("tls").unwrap().send(Message::new("secret")).await.unwrap();
    let delivery = rabbit.receiver("tls").unwrap().receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
    rabbit.close().await.unwrap();
}
