//! TLS to a RabbitMQ of the test's own, whose certificate only the test trusts.

mod support;

use std::{fs, path::Path, process::Command};

use consign::{
    Message,
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_amqp10::{Amqp10, connector};

use crate::support::{
    managed::Queues,
    node::{Node, free_port},
    rabbitmq::RabbitMqQueues,
};

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

/// Rules: A-68.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqps10_is_encrypted_and_checks_the_certificate() {
    let port = free_port();
    let node = Node::start_with(|folder| {
        certify(folder);
        let at = |name| folder.join(name).display().to_string();
        let (certificate, key) = (at("certificate.pem"), at("key.pem"));
        format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {certificate}\n\
             ssl_options.certfile = {certificate}\nssl_options.keyfile = {key}\nssl_options.verify = verify_none\n"
        )
    });
    let Some(node) = node.await else { return };
    let url = format!("amqps10://guest:guest@localhost:{port}");
    let error = Amqp10::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let queue = EntityPath::new("tls").unwrap();
    RabbitMqQueues::connect(&node.url()).await.create(queue.as_str()).await.unwrap();
    let certificate = node.folder().join("certificate.pem");
    let pem = fs::read_to_string(&certificate).unwrap();
    let amqp = Amqp10::options().certificates(pem).connect(&url).await.unwrap();
    amqp.sender(&queue).await.unwrap().send(Message::new("secret")).await.unwrap();

    let registry = TransportRegistry::new().with(connector());
    let by_url = registry.connect(&format!("{url}?certificates={}", certificate.display())).await.unwrap();
    let mut receiver = by_url.receiver(&queue, ReceiveMode::PeekLock).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
}
