//! WebSocket and client certificates, to servers in the same process.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "support/certificates.rs"]
mod certificates;

use std::{path::Path, sync::Arc};

use consign::{
    Message,
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_amqp::{
    engine::{self, Event},
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
    server::{Acceptor, Connection},
    stream::WebSocketOptions,
    types::{Open, SaslCode, SaslInit},
    value::Symbol,
};
use consign_amqp10::{Amqp10, Sasl, connector};
use consign_server::Server;
use tokio::{net::TcpListener, sync::mpsc};

/// The configuration of a server, which accepts only the certificates of the client's authority if `authenticates`.
fn configuration(folder: &Path, authenticates: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = |name: &str| -> Vec<_> {
        let pem = certificates::read(folder, name);
        CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
    };
    let key = PrivateKeyDer::from_pem_slice(certificates::read(folder, "server-key.pem").as_bytes()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let config = if authenticates {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(chain("authority.pem"));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        config.with_client_cert_verifier(verifier)
    } else {
        config.with_no_client_auth()
    };
    Arc::new(config.with_single_cert(chain("server.pem"), key).unwrap())
}

/// Rules: K-288.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqp_is_transferred_over_web_socket() {
    let folder = tempfile::tempdir().unwrap();
    certificates::server(folder.path());
    let registry = TransportRegistry::new().with(connector());
    for (scheme, is_tls) in [("amqp10", false), ("amqps10", true)] {
        let acceptor = Acceptor::new().web_socket(WebSocketOptions::new("/amqp"));
        let acceptor = if is_tls { acceptor.tls(configuration(folder.path(), false)) } else { acceptor };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let server = Server::builder().build();
        tokio::spawn(async move { server.serve_with(listener, acceptor).await });

        let certificate = folder.path().join("server.pem");
        let url = format!("{host}?web_socket=/amqp&certificates={}", certificate.display());
        let amqp = registry.connect(&url).await.unwrap();
        let queue = EntityPath::new("orders").unwrap();
        // More than a frame.
        let body = "x".repeat(200_000);
        amqp.sender(&queue).await.unwrap().send(Message::new(body.clone())).await.unwrap();
        let delivery = amqp.receiver(&queue, ReceiveMode::PeekLock).await.unwrap().receive().await.unwrap();
        assert_eq!(delivery.message.payload(), Some(body.as_bytes()));
        delivery.complete().await.unwrap();
        amqp.close().await.unwrap();

        let options = || Amqp10::options().certificates(certificates::read(folder.path(), "server.pem"));
        for refused in [options().web_socket("/other"), options()] {
            let error = refused.connect(&host).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
        }
    }
    let error = Amqp10::options().web_socket("amqp").connect("amqp10://localhost").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// Rules: K-287.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_authenticates_by_external() {
    let folder = tempfile::tempdir().unwrap();
    certificates::server(folder.path());
    certificates::client(folder.path(), "shop");
    let acceptor = Acceptor::new().tls(configuration(folder.path(), true));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqps10://localhost:{}", listener.local_addr().unwrap().port());
    let (authenticated, mut inits) = mpsc::channel(8);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, authenticated.clone()));
            }
        }
    });
    let read = |name| certificates::read(folder.path(), name);
    let options = || Amqp10::options().certificates(read("server.pem")).sasl(Sasl::External);
    // None, and one of another authority.
    let stranger = options().client_certificate(read("server.pem"), read("server-key.pem"));
    for refused in [options(), stranger] {
        let error = refused.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    }
    assert!(inits.try_recv().is_err());

    let of_files = format!(
        "{url}?sasl=external&certificates={0}/server.pem&client_certificate={0}/client.pem&client_key={0}/client-key.pem",
        folder.path().display()
    );
    let by_url = TransportRegistry::new().with(connector()).connect(&of_files).await.unwrap();
    by_url.close().await.unwrap();
    let init: SaslInit = inits.recv().await.unwrap();
    assert_eq!(init.mechanism.as_str(), "EXTERNAL");
    // The identity is that of the certificate.
    assert!(init.initial_response.is_some_and(|identity| identity.is_empty()));
}

/// Serves a connection that authenticates by `EXTERNAL`.
async fn serve(stream: consign_amqp::stream::Stream, authenticated: mpsc::Sender<SaslInit>) {
    let options = engine::Options::default().sasl_mechanisms([Symbol::from_static("EXTERNAL")]);
    let mut connection = Connection::accept(stream, options);
    while let Some(event) = connection.next_event().await {
        match event {
            Event::SaslInit(init) => {
                authenticated.send(*init).await.unwrap();
                connection.command(|engine| engine.sasl_outcome(SaslCode::Ok)).unwrap();
            }
            Event::Opened(_) => {
                let open = Open { container_id: "server".into(), ..Open::default() };
                connection.command(|engine| engine.open(open)).unwrap();
            }
            Event::Closed { .. } => break,
            _ => {}
        }
    }
}
