use std::{
    fs,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions,
    jetstream::{
        self, AckKind, Context,
        consumer::{Consumer, pull},
        stream::{Config, RetentionPolicy, StorageType},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt, future::try_join_all};

use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, Unexpected, body, body_of},
    exchange::{Left, exchange},
    processes::port_of,
};

/// A stream of NATS by async-nats, with a server of its own. Completions are acknowledged (`double_ack`).
struct Nats {
    /// Killed when it is dropped.
    _server: Server,
    port: Option<u16>,
    context: Context,
    consumer: Consumer<pull::Config>,
    messages: Option<pull::Stream>,
    subject: String,
    body: Bytes,
}

pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server with the setting that syncs before it replies, or as often as it can be set to.
pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(entered(place, false))
}

/// The same server, whose files the kernel writes through (`chattr +S`), for a version without that setting.
pub(crate) fn enter_written_through(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(entered(place, true))
}

/// A server of its own, where it answers, and the port of its counters.
pub(crate) async fn start_monitored(place: Place<'_>) -> Result<(Server, String, u16), Error> {
    let monitor = free_port()?;
    let (server, address, _) = start_with(place, false, &format!("http: \"127.0.0.1:{monitor}\"\n")).await?;
    Ok((server, address, monitor))
}

/// A server of its own, where it answers, and how it syncs.
pub(crate) async fn start(place: Place<'_>, is_written_through: bool) -> Result<(Server, String, String), Error> {
    start_with(place, is_written_through, "").await
}

/// Returns a port that is free now. Another process may take it before the server does.
fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

async fn start_with(place: Place<'_>, is_written_through: bool, more: &str) -> Result<(Server, String, String), Error> {
    let store = place.folder.join("store");
    fs::create_dir_all(&store)?;
    let mut how = "";
    if is_written_through {
        if !Command::new("chattr").arg("+S").arg(&store).status()?.success() {
            return Err(Unexpected("chattr +S does not work here").into());
        }
        how = ", files written through (chattr +S)";
    }
    let port = free_port()?;
    let configuration = place.folder.join("nats.conf");
    let write = |sync: &str| {
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{\n store_dir: \"{}\"\n max_file: 20G\n{sync} }}\n{more}",
            store.display()
        );
        fs::write(&configuration, text)
    };
    let is_accepted = || {
        let test = Command::new("nats-server").arg("-t").arg("-c").arg(&configuration).stderr(Stdio::null()).status();
        test.map(|status| status.success())
    };
    write(" sync_interval: always\n")?;
    let sync = if is_accepted()? {
        "sync_interval: always"
    } else {
        write("")?;
        "no sync_interval: acknowledges what is not synced"
    };
    let log = fs::File::create(place.folder.join("nats.log"))?;
    let server = Command::new("nats-server").arg("-c").arg(&configuration).stderr(log).stdin(Stdio::null()).spawn()?;
    let server = Server(server);
    let address = format!("nats://127.0.0.1:{port}");
    let version = connect(&address).await?.server_info().version;
    Ok((server, address, format!("nats-server {version}, file storage, one replica, {sync}{how}")))
}

async fn entered(place: Place<'_>, is_written_through: bool) -> Result<Entered, Error> {
    let (server, address, settings) = start(place, is_written_through).await?;
    let client = connect(&address).await?;
    let context = jetstream::new(client);
    let subject = place.name.to_owned();
    let stream = context.create_stream(Config {
        name: place.name.into(),
        subjects: vec![subject.clone()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::File,
        num_replicas: 1,
        ..Config::default()
    });
    let consumer = pull::Config {
        durable_name: Some("bench".into()),
        ack_wait: Duration::from_secs(300),
        max_ack_pending: 100_000,
        ..pull::Config::default()
    };
    let consumer = stream.await?.create_consumer(consumer).await?;
    let port = port_of(&address);
    let contestant = Nats { _server: server, port, context, consumer, messages: None, subject, body: body().into() };
    Ok(Entered { contestant: Box::new(contestant), settings })
}

/// Waits until the server answers.
async fn connect(address: &str) -> Result<Client, Error> {
    let connect = async {
        loop {
            match ConnectOptions::new().connect(address).await {
                Ok(client) => return client,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(20), connect).await?)
}

impl Contestant for Nats {
    fn resize(&mut self, size: usize) {
        self.body = body_of(size).into();
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    /// Each receiver requests one message.
    fn exchange(&mut self, tasks: usize, messages: usize) -> Step<'_> {
        Box::pin(async move {
            self.messages = None;
            let mut receivers = Vec::with_capacity(tasks);
            for _ in 0..tasks {
                receivers.push(self.consumer.stream().max_messages_per_batch(1).messages().await?);
            }
            let left = Left::new(messages);
            let this = &*self;
            let sending = (0..tasks).map(|nth| async move {
                for _ in (nth..messages).step_by(tasks) {
                    this.context.publish(this.subject.clone(), this.body.clone()).await?.await?;
                }
                Ok::<_, Error>(())
            });
            let receiving = receivers.iter_mut().map(|messages| async {
                loop {
                    let message = messages.next().await.ok_or(Unexpected("the consumer has ended"))??;
                    message.double_ack_with(AckKind::Ack).await?;
                    left.take();
                }
            });
            exchange(sending, receiving, &left).await
        })
    }

    fn prepare(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            self.messages = None;
            let messages = self.consumer.stream().max_messages_per_batch(window).messages().await?;
            self.messages = Some(messages);
            Ok(())
        })
    }

    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let mut acknowledgements = Vec::with_capacity(window);
            for _ in 0..window {
                acknowledgements.push(self.context.publish(self.subject.clone(), self.body.clone()).await?);
            }
            try_join_all(acknowledgements.into_iter().map(IntoFuture::into_future)).await?;
            Ok(())
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let messages = self.messages.as_mut().ok_or(Unexpected("there is no consumer"))?;
            let mut received = Vec::with_capacity(window);
            for _ in 0..window {
                received.push(messages.next().await.ok_or(Unexpected("the consumer has ended"))??);
            }
            try_join_all(received.iter().map(|message| message.double_ack_with(AckKind::Ack))).await?;
            Ok(())
        })
    }
}
