use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{
    bench::Bench,
    dead_letters::DeadLetters,
    decode::Decode,
    entities::Entities,
    messages::{Export, Import, Peek, Receive, Send},
    store::Store,
    target::{BrokerUrl, ClientTls},
    values,
};

/// Messages on every broker: send, receive, look into queues and dead letters, and serve Azure Service Bus clients.
///
/// Exit codes: 0 success, 1 failure, 2 wrong arguments, 3 not found, 4 not supported by the transport, 5 no connection,
/// 6 done in part, 7 no message arrived, 8 unreadable body or store, 130 interrupted,
/// 141 the standard output was closed.
#[derive(Debug, Parser)]
#[command(name = "consign", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve Azure Service Bus clients over AMQP 1.0
    ///
    /// Without --config, --data and --keys the server is for development: messages are in memory, queues, topics and
    /// subscriptions are created on first use, and any key is accepted.
    Serve(Serve),
    /// List, show, create, change and delete queues, topics, subscriptions and rules
    #[command(subcommand)]
    Entities(Entities),
    /// Send messages: texts, files, or the lines of the standard input
    Send(Box<Send>),
    /// Look at messages without receiving them
    Peek(Peek),
    /// Receive messages, and complete them after they are printed
    Receive(Receive),
    /// List, explain, resubmit, edit, transcode, export and purge dead letters
    #[command(subcommand)]
    DeadLetters(Box<DeadLetters>),
    /// Report which codec reads a body, and why others do not
    Decode(Decode),
    /// Write the messages of an entity as JSON Lines, and keep them
    Export(Export),
    /// Send the messages of a file of JSON Lines
    Import(Import),
    /// Check, compact, back up and salvage the store of a file: URL
    #[command(subcommand)]
    Store(Store),
    /// Measure the rates and latencies of a broker
    Bench(Bench),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Serve {
    /// Create the entities of a file: TOML if it ends with .toml, or the JSON of Microsoft's emulator
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep messages and entities in a folder of their own, created if it does not exist, and below a mount point; without it they are in memory
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Accept only the shared access keys of a TOML file, in addition to those of --config
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Create entities on first use also with --config or --data
    #[arg(long)]
    pub(crate) create_entities: bool,
    /// Keep the locks of a lost connection or a detached link until they expire, as Azure Service Bus does
    #[arg(long)]
    pub(crate) hold_locks: bool,
    /// The address to listen on; other addresses than loopback need keys
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// The port of AMQP; 0 is any free port
    #[arg(long, value_name = "PORT", default_value_t = 5672)]
    pub(crate) amqp_port: u16,
    /// The port of HTTP and of AMQP over WebSocket, with TLS if there is a certificate; 0 is any free port
    #[arg(long, value_name = "PORT", default_value_t = 5300)]
    pub(crate) http_port: u16,
    /// The port of AMQP over TLS; 0 is any free port
    #[arg(long, value_name = "PORT", default_value_t = 5671, requires = "tls_cert")]
    pub(crate) amqps_port: u16,
    /// The certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Allow unencrypted TCP on other addresses than loopback
    #[arg(long)]
    pub(crate) allow_plain_tcp: bool,
    /// File with the operator key, at least 16 bytes, for the web UI and /metrics
    ///
    /// Beyond loopback, and with shared access keys, the web UI and the metrics are served only with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) operator_key: Option<PathBuf>,
    /// Do not serve the web UI
    #[arg(long = "no-web-ui", alias = "no-page")]
    pub(crate) no_page: bool,
    /// How long a resubmission or a removal in the web UI waits, and can be undone
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) undo_window: Duration,
    /// File of the background jobs of the web UI that have not ended; by default beside the folder of --data
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// Serve the web UI alone, over the broker of a URL, such as that of RabbitMQ, NATS, PostgreSQL or a store
    ///
    /// No broker of this program is served. memory: is refused, because it would be empty. Beyond loopback it needs
    /// --operator-key and --allow-plain-tcp, for a proxy with TLS.
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["config", "data", "keys", "create_entities", "hold_locks", "tls_cert", "no_page"]
    )]
    pub(crate) transport: Option<BrokerUrl>,
    #[command(flatten)]
    pub(crate) tls: ClientTls,
    /// Allow listing where it counts as a failed delivery: on a transport that cannot peek, nor release without counting
    #[arg(long, requires = "transport")]
    pub(crate) consume: bool,
    /// The form of the log on the standard error
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// A JSON object for each line
    Json,
}

impl Serve {
    /// Entities are created on first use.
    pub(crate) fn creates_entities(&self) -> bool {
        self.create_entities || (self.config.is_none() && self.data.is_none())
    }
}
