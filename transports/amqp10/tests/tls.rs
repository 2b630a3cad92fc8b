//! TLS to a RabbitMQ of the test's own, whose certificate only the test trusts.

mod support;

use consign::{
    Message,
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_amqp10::{Amqp10, Sasl, connector};

use crate::support::{certificates, managed::Queues, node::Node, rabbitmq::RabbitMqQueues};

/// Starts a server that has TLS on its further port, with more lines of configuration. The files of the client are those of a `name`.
async fn start(name: &str, verify: &str) -> Option<Node> {
    let node = Node::start_with(|folder, port| {
        certificates::server(folder);
        certificates::client(folder, name);
        let at = |name| folder.join(name).display().to_string();
        format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
             ssl_options.keyfile = {}\n{verify}",
            at("authority.pem"),
            at("server.pem"),
            at("server-key.pem"),
        )
    });
    node.await
}

/// Rules: A-68.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqps10_is_encrypted_and_checks_the_certificate() {
    let Some(node) = start("guest", "ssl_options.verify = verify_none\n").await else { return };
    let url = format!("amqps10://guest:guest@localhost:{}", node.further_port());
    let error = Amqp10::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let queue = EntityPath::new("tls").unwrap();
    RabbitMqQueues::connect(&node.url()).await.create(queue.as_str()).await.unwrap();
    let pem = certificates::read(node.folder(), "server.pem");
    let amqp = Amqp10::options().certificates(pem).connect(&url).await.unwrap();
    amqp.sender(&queue).await.unwrap().send(Message::new("secret")).await.unwrap();

    let registry = TransportRegistry::new().with(connector());
    let certificate = node.folder().join("server.pem");
    let by_url = registry.connect(&format!("{url}?certificates={}", certificate.display())).await.unwrap();
    let mut receiver = by_url.receiver(&queue, ReceiveMode::PeekLock).await.unwrap();
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
}

/// Rules: K-287.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_authenticates_by_the_client_certificate() {
    let external = "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
                    auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\nssl_cert_login_from = common_name\n";
    let Some(node) = start("guest", external).await else { return };
    let read = |name| certificates::read(node.folder(), name);
    let url = format!("amqps10://localhost:{}", node.further_port());
    let options = || Amqp10::options().certificates(read("server.pem")).sasl(Sasl::External);
    let error = options().connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let queue = EntityPath::new("external").unwrap();
    RabbitMqQueues::connect(&node.url()).await.create(queue.as_str()).await.unwrap();
    let options = options().client_certificate(read("client.pem"), read("client-key.pem"));
    let amqp = options.connect(&url).await.unwrap();
    amqp.sender(&queue).await.unwrap().send(Message::new("by certificate")).await.unwrap();
    let delivery = amqp.receiver(&queue, ReceiveMode::PeekLock).await.unwrap().receive().await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"by certificate"[..]));
    delivery.complete().await.unwrap();
}
