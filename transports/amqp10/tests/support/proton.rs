//! A broker on the container of Qpid Proton: `broker.py`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
};

use consign::transport::{ErrorKind, ManageError};
use consign_amqp::client::{Connection, Error, Options, Session};
use consign_conformance::left_out;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::managed::Queues;

/// The process. It ends when this is dropped.
pub(crate) struct Proton {
    address: SocketAddr,
    _process: Child,
}

impl Proton {
    /// Starts one; `None` without a Python that has the package, if none is configured.
    pub(crate) async fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("CONSIGN_PYTHON") else {
            left_out("tests on Qpid Proton: CONSIGN_PYTHON is not set; scripts/foreign installs the packages");
            return None;
        };
        let mut process = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/broker.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a Python that starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its standard output")).lines();
        let port = lines.next_line().await.expect("its standard output").expect("its port");
        let address = (Ipv4Addr::LOCALHOST, port.trim().parse::<u16>().expect("its port")).into();
        Some(Self { address, _process: process })
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp10://{}", self.address)
    }

    pub(crate) fn queues(&self) -> ProtonQueues {
        ProtonQueues(self.address)
    }
}

/// The control addresses of the broker.
#[derive(Clone)]
pub(crate) struct ProtonQueues(SocketAddr);

impl ProtonQueues {
    /// Attaches to a control address.
    async fn control(&self, address: String) -> Result<(), ManageError> {
        self.attach(&address).await.map_err(|error| {
            let kind = match error.condition().map(consign_amqp::value::Symbol::as_str) {
                Some("amqp:precondition-failed") => ErrorKind::AlreadyExists,
                Some("amqp:not-found") => ErrorKind::EntityNotFound,
                _ => ErrorKind::General,
            };
            ManageError::new(kind).with_detail(error.to_string())
        })
    }

    async fn attach(&self, address: &str) -> Result<(), Error> {
        let name = super::unique("control");
        let connection = Connection::connect(self.0, Options::new(name.clone())).await?;
        let session: Session = connection.begin().await?;
        session.attach_sender(name, address.to_owned()).await?.detach().await
    }

    pub(crate) async fn create_small(&self, name: &str, bytes: u64) -> Result<(), ManageError> {
        self.control(format!("$create/{name}?{bytes}")).await
    }
}

impl Queues for ProtonQueues {
    async fn create(&self, name: &str) -> Result<(), ManageError> {
        self.control(format!("$create/{name}")).await
    }

    async fn delete(&self, name: &str) -> Result<(), ManageError> {
        self.control(format!("$delete/{name}")).await
    }
}
