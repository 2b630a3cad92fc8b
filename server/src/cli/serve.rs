//! `consign serve`.

use std::{
    io::{self, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

use consign_broker::{Broker, OnDisconnect, Quirks};
use consign_core::time::SystemClock;
use consign_server::{Server, Timeouts, auth::SharedAccessKeys, config::Config, http::HttpOptions};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::filter::LevelFilter;

use super::{Error, files, log, operators::Operators, options::Serve, ports::Ports};

/// How long connections may take to close: `docker stop` kills a process after 10 s, and the store is closed after them.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);

/// Serves until SIGTERM or SIGINT.
#[expect(clippy::disallowed_methods, reason = "how long a start takes is printed, not used")]
pub(super) fn run(options: &Serve) -> Result<(), Error> {
    let began = Instant::now();
    log::init(options.log_format, LevelFilter::INFO);
    files::raise_limit();
    Runtime::new()?.block_on(serve(options, began))
}

async fn serve(options: &Serve, began: Instant) -> Result<(), Error> {
    let mut config = options.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let mut keys = config.take_keys();
    if let Some(file) = &options.keys {
        keys.extend(Config::read_keys(file)?);
    }
    let has_keys = !keys.is_empty();
    // Before a store is created, and with the signals handled from the first moment on.
    let ports = Ports::open(options, has_keys).await?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);

    let broker = match &options.data {
        Some(folder) => Broker::options()
            .quirks(quirks(options))
            .hold_locks(options.hold_locks)
            .open(folder)
            .map_err(|error| Error::Storage { folder: folder.clone(), error })?,
        None => Broker::with_quirks(SystemClock::new(), quirks(options)),
    };
    config.apply(&broker).map_err(|error| Error::Entities { file: options.config.clone(), error })?;
    if options.data.is_some() {
        stored(&broker, options).await?;
    }
    let mut server = Server::builder()
        .broker(broker.clone())
        .create_entities(options.creates_entities())
        .timeouts(Timeouts::default().shutdown(SHUTDOWN_TIMEOUT));
    if has_keys {
        server = server.authorizer(SharedAccessKeys::new(keys));
    }
    let server = server.build();
    let operators = Operators::new(options, &server, has_keys, ports.is_http_tls)?;
    announce(options, &ports, &broker, has_keys, operators.page.is_some(), began)?;

    let Ports { amqp, amqps, http: (http, acceptor), .. } = ports;
    let plain = async {
        match amqp {
            Some(listener) => server.serve(listener).await,
            None => Ok(()),
        }
    };
    let encrypted = async {
        match amqps {
            Some((listener, acceptor)) => server.serve_with(listener, acceptor).await,
            None => Ok(()),
        }
    };
    let http = server.serve_http(http, HttpOptions::default().acceptor(acceptor).routes(operators.routes()));
    let served = async { tokio::try_join!(plain, encrypted, http, operators.run()).map(drop) };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down");
        operators.shutdown();
        server.shutdown().await;
    };
    let (served, ()) = tokio::join!(served, stop);
    served?;
    match &options.data {
        Some(folder) => broker.close().await.map_err(|error| Error::Storage { folder: folder.clone(), error }),
        None => Ok(()),
    }
}

/// What a broker in memory and one on a disk do with the locks of a client that is gone.
fn quirks(options: &Serve) -> Quirks {
    let on_disconnect = if options.hold_locks { OnDisconnect::HoldUntilExpiry } else { OnDisconnect::Release };
    Quirks::default().on_disconnect(on_disconnect)
}

/// Waits until the entities of the configuration are stored.
async fn stored(broker: &Broker, options: &Serve) -> Result<(), Error> {
    let folder = options.data.clone().unwrap_or_default();
    broker.flush().await.map_err(|error| Error::Storage { folder, error })
}

/// Prints what the server is, and the connection string.
fn announce(
    options: &Serve,
    ports: &Ports,
    broker: &Broker,
    has_keys: bool,
    has_page: bool,
    began: Instant,
) -> io::Result<()> {
    let mut lines = Vec::new();
    lines.push(match &options.data {
        Some(folder) => format!("Messages are stored in {}.", folder.display()),
        None => "Messages are in memory: they are lost when this process ends.".to_owned(),
    });
    lines.push(if options.creates_entities() {
        "Queues, topics and subscriptions are created on first use.".to_owned()
    } else {
        format!("There are {} entities; others do not exist.", broker.entities().len())
    });
    lines.push(
        if has_keys { "Clients need a shared access key." } else { "Any key is accepted, from this machine only." }
            .to_owned(),
    );
    let key = if has_keys { "SharedAccessKeyName=<name>;SharedAccessKey=<key>" } else { ANY_KEY };
    if let Some(address) = ports.amqp.as_ref().map(local).transpose()? {
        lines.push(format!("AMQP: Endpoint=sb://{address};{key};UseDevelopmentEmulator=true;"));
    }
    if let Some((listener, _)) = &ports.amqps {
        lines.push(format!("AMQP over TLS: {}", local(listener)?));
    }
    let (http, web_socket) = if ports.is_http_tls { ("https", "wss") } else { ("http", "ws") };
    let address = local(&ports.http.0)?;
    lines.push(format!("HTTP: {http}://{address}"));
    lines.push(format!("AMQP over WebSocket: {web_socket}://{address}/$servicebus/websocket"));
    if has_page {
        lines.push(format!("Page: {http}://{address}/$page/"));
    }
    if let Some(amqp) = ports.amqp.as_ref().map(local).transpose()?
        && !has_keys
        && !ports.is_http_tls
    {
        let http_port = address.port();
        lines.push(format!("Commands: --url 'servicebus://any:any@{amqp}?emulator=true&http_port={http_port}'"));
    }
    lines.push(format!("Ready in {} ms.", began.elapsed().as_millis()));
    let mut out = io::stdout().lock();
    writeln!(out, "{}", lines.join("\n"))?;
    out.flush()
}

const ANY_KEY: &str = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=any";

fn local(listener: &tokio::net::TcpListener) -> io::Result<SocketAddr> {
    listener.local_addr()
}
