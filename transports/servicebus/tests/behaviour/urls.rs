//! Errors of URLs and connection strings.

use consign::transport::{ConnectErrorKind, ErrorKind, Transport, TransportRegistry};
use consign_conformance::log::Lines;
use consign_servicebus::{ServiceBus, connector};

use crate::support::InMemory;

/// Rules: K-41, K-306.
#[tokio::test]
async fn a_refused_parameter_is_named_and_no_value_is_shown() {
    let registry = TransportRegistry::new().with(connector());
    for (parameter, name) in [
        ("timeout=s3cret", "timeout"),
        ("timeout=0ms", "timeout"),
        ("idle_timeout=1ms", "idle_timeout"),
        ("backoff=2s&max_backoff=1s", "max_backoff"),
        ("retries=101", "retries"),
        ("prefetch=4097", "prefetch"),
        ("max_message_size=1", "max_message_size"),
        ("web_socket=s3cret", "web_socket"),
        ("emulator=s3cret", "emulator"),
        ("proxy=s3cret", "proxy"),
        ("certificates=/s3cret", "certificates"),
    ] {
        let url = format!("servicebus://ledger:s3cret@127.0.0.1:1?{parameter}");
        let error = registry.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::InvalidParameter, "{parameter}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(&format!("`{name}`")) && !shown.contains("s3cret"), "{parameter}: {shown}");
    }
    for url in [
        "servicebus://s3cret",
        "servicebus://u:s3cret@h/path",
        "servicebus://u:s3cret@",
        "servicebus:s3cret",
        "servicebus://u:s3cret@h?connection_string_from=PATH",
        "servicebus:?connection_string_from=PATH&emulator=true",
    ] {
        let error = registry.connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::InvalidUrl, "{url}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error:?}");
    }
}

/// Rules: K-306.
#[tokio::test]
async fn a_variable_without_a_connection_string_is_not_shown() {
    let registry = TransportRegistry::new().with(connector());
    for variable in ["PATH", "CONSIGN_NO_SUCH_VARIABLE"] {
        let error = registry.connect(&format!("servicebus:?connection_string_from={variable}")).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::InvalidParameter, "{error}");
        let value = std::env::var(variable).unwrap_or_else(|_| "nothing".into());
        assert!(!format!("{error} {error:?}").contains(&value), "{error:?}");
    }
}

/// Rules: K-306.
#[tokio::test]
async fn a_connection_that_is_not_made_is_a_warning_without_the_key() {
    let (lines, _guard) = Lines::capture();
    let text =
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=ledger;SharedAccessKey=s3cret;UseDevelopmentEmulator=true";
    let error = ServiceBus::connect(text).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem);
    let logged = lines.of("consign::servicebus");
    assert!(logged.iter().any(|line| line.contains("connecting failed") && line.contains("127.0.0.1:1")), "{logged:?}");
    let shown = format!("{:?} {error} {error:?}", lines.all());
    assert!(!shown.contains("s3cret"), "{shown}");
    let error = ServiceBus::connect("Endpoint=s3cret").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

/// Rules: O-19.
#[tokio::test(start_paused = true)]
async fn the_server_is_that_of_the_connection_string() {
    let service_bus = InMemory::new().connect().await;
    assert_eq!(service_bus.server().map(|server| server.to_string()).as_deref(), Some("localhost:5672"));
}
