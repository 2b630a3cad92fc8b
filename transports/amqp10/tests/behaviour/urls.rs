//! Errors of URLs.

use consign::transport::{ConnectErrorKind, ErrorKind, Transport, TransportRegistry};
use consign_amqp10::{Amqp10, connector};
use consign_conformance::log::Lines;

use super::Bench;

/// Rules: K-41.
#[tokio::test]
async fn a_refused_parameter_is_named_and_no_value_is_shown() {
    let registry = TransportRegistry::new().with(connector());
    for (parameter, name) in [
        ("timeout=s3cret", "timeout"),
        ("timeout=0ms", "timeout"),
        ("idle_timeout=1ms", "idle_timeout"),
        ("backoff=2s&max_backoff=1s", "max_backoff"),
        ("prefetch=4097", "prefetch"),
        ("address=s3cret", "address"),
        ("dead_letter_address=s3cret", "dead_letter_address"),
        ("dead_letters=s3cret", "dead_letters"),
        ("confirm_settlements=s3cret", "confirm_settlements"),
        ("scheduling=s3cret", "scheduling"),
        ("time_to_live=s3cret", "time_to_live"),
        ("max_delivery_count=0", "max_delivery_count"),
        ("max_message_size=1", "max_message_size"),
        ("sasl=s3cret", "sasl"),
        ("product=s3cret", "product"),
        ("web_socket=s3cret", "web_socket"),
        ("certificates=/s3cret", "certificates"),
        ("client_key=/s3cret", "client_certificate"),
        ("client_certificate=/s3cret", "client_key"),
    ] {
        let url = format!("amqp10://ledger:s3cret@127.0.0.1:1?{parameter}");
        let error = registry.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::InvalidParameter, "{parameter}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(&format!("`{name}`")) && !shown.contains("s3cret"), "{parameter}: {shown}");
    }
    let error = registry.connect("amqp10://u:s3cret@one/vhost").await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::InvalidUrl);
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

/// Rules: O-279.
#[tokio::test]
async fn a_connection_that_is_not_made_is_a_warning_without_the_password() {
    let (lines, _guard) = Lines::capture();
    let error = Amqp10::connect("amqp10://ledger:s3cret@127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem);
    let logged = lines.of("consign::amqp10");
    assert!(logged.iter().any(|line| line.contains("connecting failed") && line.contains("127.0.0.1:1")), "{logged:?}");
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// Rules: O-19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_the_only_one_of_the_address() {
    let Some(bench) = Bench::new().await else { return };
    let url = bench.proton.url();
    let (_, authority) = url.split_once("://").unwrap();
    let one = Amqp10::connect(&url).await.unwrap();
    assert_eq!(one.server().map(|server| server.to_string()).as_deref(), Some(authority));
    let two = Amqp10::connect(&format!("{url},127.0.0.1:1")).await.unwrap();
    assert_eq!(two.server(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_without_the_path_is_refused() {
    let Some(bench) = Bench::new().await else { return };
    let error = Amqp10::options().address("orders").connect(&bench.proton.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
