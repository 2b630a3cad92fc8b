//! `consign serve --transport`: the page alone, over the broker of a URL.

use std::{
    io::{self, Write},
    net::SocketAddr,
    time::Duration,
};

use axum::Router;
use consign_server::{
    http::{HttpOptions, serve_routes},
    operations::Health,
    page::Page,
};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::filter::LevelFilter;

use super::{
    Error, Failure, log, operators,
    options::Serve,
    serve::SHUTDOWN_TIMEOUT,
    target::{self, BrokerUrl, Target},
};

/// Serves until SIGTERM or SIGINT.
pub(super) fn run(options: &Serve, url: &BrokerUrl) -> Result<(), Failure> {
    log::init(options.log_format, LevelFilter::INFO);
    Runtime::new()?.block_on(serve(options, url))
}

async fn serve(options: &Serve, url: &BrokerUrl) -> Result<(), Failure> {
    let key = options.operator_key.as_deref().map(operators::read).transpose()?;
    if !options.host.is_loopback() {
        if key.is_none() {
            return Err(Failure::usage(format!("{} is not a loopback address: give --operator-key", options.host)));
        }
        if !options.allow_plain_tcp {
            return Err(Error::PlainTcp(options.host).into());
        }
    }
    let address = SocketAddr::new(options.host, options.http_port);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Error::Listen { address, option: "--http-port", error })?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let target =
        Target { url: url.clone(), tls: options.tls.clone(), connect_timeout: Duration::from_secs(30), json: false };
    let transport = tokio::select! {
        biased;
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
        transport = target.connect() => transport?,
    };

    let mut page = Page::builder(transport.clone()).consume(options.consume).undo_window(options.undo_window);
    if let Some(key) = key {
        page = page.key(key);
    }
    let page = match &options.jobs {
        Some(file) => page.open(file).map_err(|error| Failure::file(file, &error))?,
        None => page.build(),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "Page: http://{}/$page/\nReady.", listener.local_addr()?)?;
    out.flush()?;
    drop(out);

    let health = Health::new(transport.clone());
    let routes: Router = page.router().merge(health.router());
    let handle = page.clone();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutting down");
        health.shutdown();
        handle.shutdown();
    };
    let served = serve_routes(listener, HttpOptions::default().routes(routes), stop, SHUTDOWN_TIMEOUT);
    let (served, ()) = tokio::join!(served, page.run());
    target::close(&transport, served.map_err(Failure::from)).await
}
