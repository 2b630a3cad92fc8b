//! The URLs of this transport: their servers, their parameters, and that no error has a secret of them in it.

use std::net::TcpListener;

use consign::{
    administration::{Administration, EntityKind, QueueSettings},
    transport::{ConnectError, ConnectErrorKind, DynTransport, Transport, TransportRegistry},
};
use consign_nats::Nats;

use crate::{
    declare::new_path,
    own::{OwnServer, free_port},
    server,
    tls::certify,
};

async fn connect(url: &str) -> Result<DynTransport, ConnectError> {
    TransportRegistry::new().with(consign_nats::connector()).connect(url).await
}

/// Requires an error of this kind, without a secret of the URL in any of its texts.
async fn refused(url: &str, kind: ConnectErrorKind) -> String {
    let error = connect(url).await.expect_err("it is refused");
    assert_eq!(error.kind(), kind, "{url}: {error}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("secret"), "{url}: {text}");
    error.to_string()
}

#[test]
fn the_schemes_are_nats_and_tls() {
    let registry = TransportRegistry::new().with(consign_nats::connector());
    assert_eq!(registry.schemes().collect::<Vec<_>>(), ["nats", "tls"]);
}

#[tokio::test]
async fn a_parameter_that_is_unknown_or_out_of_its_range_is_refused_by_name() {
    for parameter in ["unknown=secret", "Namespace=secret", "timeouts=1s"] {
        let text = refused(&format!("nats://127.0.0.1:1?{parameter}"), ConnectErrorKind::UnknownParameter).await;
        assert!(text.contains(parameter.split('=').next().unwrap()), "{text}");
    }
    let long = "x".repeat(33);
    for parameter in [
        "namespace=",
        "namespace=a.secret",
        &format!("namespace={long}"),
        "domain=",
        "domain=a.secret",
        "timeout=5",
        "timeout=0s",
        "timeout=1441m",
        "backoff=0ms",
        "max_backoff=1h",
        "max_backoff=99ms",
        "backoff=2s&max_backoff=1s",
        "server_syncs=yes",
        "server_syncs",
        "credentials_file=/nothing/secret",
    ] {
        let text = refused(&format!("nats://127.0.0.1:1?{parameter}"), ConnectErrorKind::InvalidParameter).await;
        let name = parameter.split('&').next_back().and_then(|last| last.split('=').next()).unwrap();
        assert!(text.contains(&format!("`{name}`")), "{parameter}: {text}");
    }
    for url in [
        "nats:",
        "nats:secret",
        "nats:/secret",
        "nats://",
        "nats://a:secret@",
        "nats://a:secret@one/path",
        "tls://a:secret%@one",
    ] {
        refused(url, ConnectErrorKind::InvalidUrl).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_without_the_password() {
    let port = free_port();
    for scheme in ["nats", "tls"] {
        refused(&format!("{scheme}://user:secret@127.0.0.1:{port}"), ConnectErrorKind::Connection).await;
    }
    refused("nats://secret@nowhere.invalid", ConnectErrorKind::Connection).await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://user:secret@{}?timeout=20ms", silent.local_addr().unwrap());
    refused(&url, ConnectErrorKind::Connection).await;
    refused(&format!("nats://127.0.0.1:{port}?certificates=secret"), ConnectErrorKind::Connection).await;
}

#[tokio::test]
async fn a_user_and_a_token_of_a_url_are_those_of_the_connection() {
    let arguments = |arguments: &[&str]| arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let user = OwnServer::start_with(|_| arguments(&["--user", "a user", "--pass", "secret,1"])).await;
    let token = OwnServer::start_with(|_| arguments(&["--auth", "secret/2"])).await;
    let (Some(user), Some(token)) = (user, token) else { return };
    let gone = format!("127.0.0.1:{}", free_port());
    for url in [
        format!("nats://a%20user:secret%2c1@{}", user.socket()),
        format!("nats://a%20user:secret%2c1@{gone},{}", user.socket()),
        format!("nats://secret%2F2@{}", token.socket()),
    ] {
        connect(&format!("{url}?server_syncs=true")).await.expect("a connection").close().await.unwrap();
        Nats::options().server_syncs().connect(&url).await.expect("a connection").close().await.unwrap();
    }
    for url in [
        format!("nats://{}", user.socket()),
        format!("nats://a%20user:secret@{}", user.socket()),
        format!("nats://secret@{}", token.socket()),
    ] {
        let text = refused(&url, ConnectErrorKind::Connection).await;
        assert!(text.contains("uthorization"), "{text}");
    }
}

#[tokio::test]
async fn one_of_several_servers_is_enough() {
    let Some(url) = server::url() else { return };
    let live = url.strip_prefix("nats://").unwrap();
    let gone = format!("127.0.0.1:{}", free_port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    // The client tries them in a random order.
    for _ in 0..8 {
        let url = format!("nats://{gone},{live}?server_syncs=true");
        connect(&url).await.unwrap().close().await.unwrap();
        let url = format!("nats://{silent},nats://{live},{gone}?server_syncs=true&timeout=3s");
        connect(&url).await.unwrap().close().await.unwrap();
    }
}

#[tokio::test]
async fn the_parameters_of_a_url_are_the_options_of_the_connection() {
    let Some(url) = server::url() else { return };
    let namespace = format!("n{:016x}", fastrand::u64(..));
    // The first attempt waits for no backoff.
    let url = format!("{url}?namespace={namespace}&timeout=9s&backoff=60m&server_syncs=true");
    let transport = connect(&url).await.unwrap();
    let path = new_path();
    transport.create(&path, &QueueSettings::default().into()).await.unwrap();
    let listed = transport.list().await.unwrap();
    assert_eq!(
        listed.iter().map(|entity| (&entity.path, entity.kind)).collect::<Vec<_>>(),
        [(&path, EntityKind::Queue)]
    );
    let nats = transport.extension::<Nats>().unwrap();
    let debug = format!("{nats:?}");
    assert!(debug.contains(&namespace), "{debug}");
    transport.delete(&path).await.unwrap();

    // This server has no such domain.
    let url = format!("{}?domain=nowhere&timeout=2s", server::url().unwrap());
    refused(&url, ConnectErrorKind::Connection).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheme_tls_requires_a_certificate_that_is_trusted() {
    let server = OwnServer::start_with(|folder| {
        certify(folder);
        let at = |name| folder.join(name).display().to_string();
        ["--tls".into(), "--tlscert".into(), at("certificate.pem"), "--tlskey".into(), at("key.pem")].into()
    });
    let (Some(server), Some(plain)) = (server.await, server::url()) else { return };
    let address = format!("tls://localhost:{}?server_syncs=true", server.socket().port());
    let trusted = format!("certificates={}", server.folder().join("certificate.pem").display());
    refused(&address, ConnectErrorKind::Connection).await;
    let transport = connect(&format!("{address}&{trusted}")).await.unwrap();
    assert!(transport.extension::<Nats>().unwrap().client().server_info().tls_required);
    transport.close().await.unwrap();
    // A server without TLS is refused, also as a further one.
    let plain = plain.replacen("nats://", "", 1);
    let gone = format!("127.0.0.1:{}", free_port());
    for servers in [plain.clone(), format!("{gone},{plain}")] {
        refused(&format!("tls://{servers}?{trusted}&timeout=3s"), ConnectErrorKind::Connection).await;
    }
}

/// Rules: O-19.
#[tokio::test]
async fn the_server_is_the_only_one_of_the_url() {
    let Some(url) = server::url() else { return };
    let one = connect(&url).await.unwrap();
    let authority = url.split("://").last().unwrap().rsplit('@').next().unwrap();
    assert_eq!(one.server().unwrap().to_string(), authority.trim_end_matches('/'));
    let several = connect(&format!("{url},{url}")).await.unwrap();
    assert_eq!(several.server(), None);
    let wrapped = Nats::wrap(Nats::connect(&url).await.unwrap().client().clone()).await.unwrap();
    assert_eq!(Transport::server(&wrapped), None);
}
