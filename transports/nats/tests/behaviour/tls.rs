//! TLS to a server of the test's own, whose certificate nobody else trusts.

use std::{path::Path, process::Command};

use consign::{
    Message,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use consign_nats::{Nats, Options, QueueSettings, async_nats::ConnectOptions};

use crate::{LONG, own::OwnServer};

/// A certificate for `localhost`, and its key.
pub(crate) fn certify(folder: &Path) {
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
async fn tls_is_encrypted_and_checks_the_certificate() {
    let server = OwnServer::start_with(|folder| {
        certify(folder);
        let at = |name| folder.join(name).display().to_string();
        ["--tls".into(), "--tlscert".into(), at("certificate.pem"), "--tlskey".into(), at("key.pem")].into()
    });
    let Some(server) = server.await else { return };
    let port = server.socket().port();
    let trusting = || -> Options {
        let certificate = server.folder().join("certificate.pem");
        Nats::options().server_syncs().client(ConnectOptions::new().add_root_certificates(certificate))
    };
    let has_provider = cfg!(any(feature = "tls-aws-lc", feature = "tls-ring"));
    let refused = if has_provider { ErrorKind::CommunicationProblem } else { ErrorKind::NotSupported };
    for address in [format!("tls://localhost:{port}"), format!("nats://localhost:{port}")] {
        let error = Nats::options().server_syncs().connect(&address).await.unwrap_err();
        assert_eq!(error.kind(), refused, "{address}: {error}");
    }
    if !has_provider {
        return;
    }
    // The name is checked too.
    let error = trusting().connect(&format!("tls://127.0.0.1:{port}")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");

    let nats = trusting().connect(&format!("tls://localhost:{port}")).await.unwrap();
    assert!(nats.client().server_info().tls_required);
    nats.create_queue("tls", QueueSettings::default()).await.unwrap();
    nats.sender("tls").await.unwrap().send(Message::new("secret")).await.unwrap();
    let delivery = nats.receiver("tls").await.unwrap().receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"secret"[..]));
    delivery.complete().await.unwrap();
    nats.close().await.unwrap();
}
