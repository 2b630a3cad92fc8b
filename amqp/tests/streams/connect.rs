use std::error::Error as _;

use consign_amqp::{client::Connector, stream::ErrorKind};
use tokio::net::TcpListener;

use super::{Node, exchange};

/// Rules: A-71.
#[tokio::test]
async fn every_address_of_a_host_is_tried() {
    // Where localhost is `::1` as well, that address refuses.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            assert!(stream.set_nodelay(true).is_ok());
            tokio::spawn(Node::new().serve(stream));
        }
    });
    for host in ["127.0.0.1", "localhost"] {
        exchange(Connector::new(host, address.port()).connect().await.unwrap()).await.unwrap();
    }
}

/// Rules: A-71.
#[tokio::test]
async fn a_host_that_refuses_or_has_no_address_is_a_typed_error() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let error = Connector::new("127.0.0.1", port).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.source().is_some());
    let error = Connector::new("::1::1", port).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resolve);
}
