use std::{error::Error as _, sync::Arc};

use consign_amqp::{
    client::Connector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
    server::Acceptor,
    stream::ErrorKind,
};
use tokio::net::{TcpListener, TcpStream};

use super::{Node, exchange, serve};

/// A server with a certificate of its own for a name, and a client that trusts it.
pub(crate) fn configurations(name: &str) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    (Arc::new(server), Arc::new(trusting(roots)))
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

/// Rules: A-68.
#[tokio::test]
async fn a_connection_over_tls_sends_and_receives() {
    let (server, client) = configurations("localhost");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = Node::new();
    let acceptor = Acceptor::new().tls(server);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(&node, acceptor.clone(), stream);
        }
    });
    let connector = Connector::new("127.0.0.1", port).tls(client).server_name("localhost");
    exchange(connector.connect().await.unwrap()).await.unwrap();
    let error = Connector::new("127.0.0.1", port).handshake(connected(port).await).await;
    // Without TLS the server's answer is not AMQP.
    assert!(exchange(error.unwrap()).await.is_err());
}

async fn connected(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.unwrap()
}

/// Rules: A-68.
#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_for_another_name_is_refused() {
    let (server, client) = configurations("broker.test");
    let stranger = configurations("broker.test").1;
    let nobody = Arc::new(trusting(RootCertStore::empty()));
    for (config, name, passes, text) in [
        (&client, "broker.test", true, ""),
        (&client, "other.test", false, "not valid for name"),
        (&client, "127.0.0.1", false, "not valid for name"),
        (&stranger, "broker.test", false, "invalid peer certificate"),
        (&nobody, "broker.test", false, "UnknownIssuer"),
    ] {
        let (near, far) = tokio::io::duplex(4_096);
        let acceptor = Acceptor::new().tls(Arc::clone(&server));
        let accepting = tokio::spawn(async move { acceptor.accept(far).await });
        let connector = Connector::new("127.0.0.1", 5671).tls(Arc::clone(config)).server_name(name);
        let outcome = connector.handshake(near).await;
        let accepted = accepting.await.unwrap();
        if passes {
            assert!(outcome.is_ok() && accepted.is_ok());
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls);
        assert_eq!(error.to_string(), "the TLS handshake failed");
        let source = error.source().unwrap().to_string();
        assert!(source.contains(text), "{name}: {source}");
        assert_eq!(accepted.unwrap_err().kind(), ErrorKind::Tls, "{name}");
    }
}

/// Rules: A-68.
#[tokio::test]
async fn a_name_that_no_certificate_can_have_is_refused() {
    let (_, client) = configurations("broker.test");
    let (near, _far) = tokio::io::duplex(4_096);
    let error = Connector::new("not a name", 5671).tls(client).handshake(near).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerName);
}
