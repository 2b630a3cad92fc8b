//! The servers, and the scripts in Python and JavaScript.

use std::path::{Path, PathBuf};

use consign::{broker::Broker, transport::Transport as _};
use consign_amqp10::Amqp10;
use consign_nats::Nats;
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use consign_server::{
    Server,
    auth::{Rights, SharedAccessKey, SharedAccessKeys},
};
use consign_servicebus::ServiceBus;
use tokio::{net::TcpListener, process::Command, task::JoinHandle};
use tower::BoxError;

use crate::{
    amqp10::{self, Proton},
    suite::answer,
};

/// The shared access key of the server, and the same key percent-encoded for a URL.
const KEY: &str = "a+key/of=";
const KEY_IN_URL: &str = "a%2Bkey%2Fof%3D";

/// What is there for every case.
pub(crate) struct Environment {
    folder: PathBuf,
    pub(crate) rabbit_url: String,
    pub(crate) rabbit: RabbitMq,
    pub(crate) nats_url: String,
    pub(crate) nats: Nats,
    /// With the schema of this process in its search path.
    pub(crate) postgres_url: String,
    pub(crate) postgres: Postgres,
    schema: String,
    /// The connection string of a server in this process, on the embedded broker.
    pub(crate) service_bus_url: String,
    /// Its URL of AMQP 1.0, with the key as the password.
    pub(crate) server_url: String,
    pub(crate) service_bus: ServiceBus,
    pub(crate) broker: Broker,
    server: JoinHandle<std::io::Result<()>>,
    /// The plugin of the same RabbitMQ for AMQP 1.0.
    pub(crate) rabbit10: Amqp10,
    pub(crate) proton: Proton,
}

impl Environment {
    pub(crate) async fn new(folder: PathBuf) -> Result<Self, BoxError> {
        let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
        let rabbit_url = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
        let nats_url = variable("CONSIGN_NATS", "nats://127.0.0.1:4222");
        let url = variable("CONSIGN_POSTGRES", "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test");
        let rabbit = RabbitMq::connect(&rabbit_url).await.map_err(|error| format!("RabbitMQ: {error}"))?;
        // The scripts use the default namespace.
        let options = Nats::options().server_syncs();
        let nats = options.connect(&nats_url).await.map_err(|error| format!("NATS: {error}"))?;
        let schema = unique();
        let options = Postgres::options().schema(&schema);
        let postgres = options.connect(&url).await.map_err(|error| format!("PostgreSQL: {error}"))?;
        postgres.migrate().await?;
        let postgres_url = format!("{url}?options=-csearch_path%3D{schema}");
        let broker = Broker::new();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service_bus_url = format!(
            "Endpoint=sb://{address};SharedAccessKeyName=clients;SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
        );
        let server_url = format!("amqp://clients:{KEY_IN_URL}@{address}");
        let keys = SharedAccessKeys::new([SharedAccessKey::new("clients", KEY, Rights::MANAGE)]);
        let served = Server::builder().broker(broker.clone()).authorizer(keys).build();
        let server = tokio::spawn(async move { served.serve(listener).await });
        let service_bus = ServiceBus::connect(&service_bus_url).await?;
        let rabbit10_url = amqp10::transport_url(&amqp10::script_url(&rabbit_url));
        let rabbit10 = Amqp10::connect(&rabbit10_url).await;
        let rabbit10 = rabbit10.map_err(|error| format!("AMQP 1.0 of RabbitMQ: {error}"))?;
        let proton = Proton::start(&folder).await.map_err(|error| format!("Qpid Proton: {error}"))?;
        Ok(Self {
            folder,
            rabbit_url,
            rabbit,
            nats_url,
            nats,
            postgres_url,
            postgres,
            schema,
            service_bus_url,
            server_url,
            service_bus,
            broker,
            server,
            rabbit10,
            proton,
        })
    }

    /// Runs a script of this package, such as `nats/call.py`, to its end. Returns what it prints.
    pub(crate) async fn run(&self, script: &str, arguments: &[&str]) -> Result<String, BoxError> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let mut command = if path.extension().is_some_and(|extension| extension == "py") {
            let mut command = Command::new(self.folder.join("venv/bin/python"));
            command.arg(path);
            command
        } else {
            // Node looks for packages beside a script.
            let copy = self.folder.join(format!("{:016x}-{}", fastrand::u64(..), script.replace('/', "-")));
            std::fs::copy(path, &copy)?;
            let mut command = Command::new("node");
            command.arg(&copy);
            let printed = answer(command.args(arguments)).await;
            std::fs::remove_file(copy)?;
            return printed.map_err(|error| format!("{script}: {error}").into());
        };
        answer(command.args(arguments)).await.map_err(|error| format!("{script}: {error}").into())
    }

    pub(crate) async fn close(self) {
        if let Err(error) = self.service_bus.close().await {
            eprintln!("Azure Service Bus: {error}");
        }
        self.server.abort();
        for amqp in [&self.rabbit10, &self.proton.amqp] {
            if let Err(error) = amqp.close().await {
                eprintln!("AMQP 1.0: {error}");
            }
        }
        if let Err(error) = self.rabbit.close().await {
            eprintln!("RabbitMQ: {error}");
        }
        if let Err(error) = self.nats.close().await {
            eprintln!("NATS: {error}");
        }
        let drop = format!("DROP SCHEMA \"{}\" CASCADE", self.schema);
        match self.postgres.pool().get().await {
            Ok(client) => drop_schema(&client, &drop).await,
            Err(error) => eprintln!("PostgreSQL: {error}"),
        }
    }
}

async fn drop_schema(client: &consign_postgres::tokio_postgres::Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql).await {
        eprintln!("PostgreSQL: {error}");
    }
}

/// The name of an entity that no other case has.
pub(crate) fn unique() -> String {
    format!("languages-{:016x}", fastrand::u64(..))
}
