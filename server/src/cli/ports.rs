//! The listeners, and what may listen where.

use std::net::SocketAddr;

use consign_amqp::server::Acceptor;
use tokio::net::TcpListener;

use super::{Error, options::Serve, tls};

/// The listeners of a server. AMQP over TCP is without handshakes.
pub(super) struct Ports {
    pub(super) amqp: Option<TcpListener>,
    pub(super) amqps: Option<(TcpListener, Acceptor)>,
    pub(super) http: (TcpListener, Acceptor),
    pub(super) is_http_tls: bool,
}

impl Ports {
    /// Opens them.
    pub(super) async fn open(options: &Serve, has_keys: bool) -> Result<Self, Error> {
        let is_local = options.host.is_loopback();
        if !is_local && !has_keys {
            return Err(Error::NoKeys(options.host));
        }
        let acceptor = match (&options.tls_cert, &options.tls_key) {
            (Some(certificates), Some(key)) => Some(Acceptor::new().tls(tls::config(certificates, key)?)),
            _ => None,
        };
        let plain = is_local || options.allow_plain_tcp;
        if !plain && acceptor.is_none() {
            return Err(Error::PlainTcp(options.host));
        }
        let amqp = if plain { Some(listen(options, options.amqp_port, "--amqp-port").await?) } else { None };
        let amqps = match &acceptor {
            Some(acceptor) => Some((listen(options, options.amqps_port, "--amqps-port").await?, acceptor.clone())),
            None => None,
        };
        let is_http_tls = acceptor.is_some();
        let http = (listen(options, options.http_port, "--http-port").await?, acceptor.unwrap_or_default());
        Ok(Self { amqp, amqps, http, is_http_tls })
    }
}

async fn listen(options: &Serve, port: u16, option: &'static str) -> Result<TcpListener, Error> {
    let address = SocketAddr::new(options.host, port);
    TcpListener::bind(address).await.map_err(|error| Error::Listen { address, option, error })
}
