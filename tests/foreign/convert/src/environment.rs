//! The servers, and the programs of Python.

use std::{path::PathBuf, process::Stdio, time::Duration};

use aws_sdk_sqs::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region},
};
use consign::{
    Message,
    message::{MessageBody, PropertyValue, Value},
    time::{Clock, SystemClock, Timestamp},
};
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use tower::BoxError;

use crate::suite::answer;
pub(crate) use crate::suite::same;

/// Longer than a server of Python takes to start.
const LONG: Duration = Duration::from_secs(50);

/// A server for Amazon SQS on a port that the system chooses. It prints the port, and ends with its standard input.
const MOTO: &str = "\
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer('127.0.0.1', 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
";

/// What is there for every case.
pub(crate) struct Environment {
    folder: PathBuf,
    pub(crate) sqs_url: String,
    pub(crate) sqs: Client,
    pub(crate) kafka: String,
    _cluster: MockCluster<'static, DefaultProducerContext>,
    /// It ends with this value.
    _moto: Child,
}

impl Environment {
    pub(crate) async fn new(folder: PathBuf) -> Result<Self, BoxError> {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.args(["-c", MOTO]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut moto = command.kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(moto.stdout.take().ok_or("no standard output")?).lines();
        let port = timeout(LONG, lines.next_line()).await??.ok_or("the server of moto has not started")?;
        let sqs_url = format!("http://127.0.0.1:{port}");
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("a", "b", None, None, "test"))
            .endpoint_url(&sqs_url)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        let cluster = MockCluster::new(1)?;
        let kafka = cluster.bootstrap_servers();
        Ok(Self { folder, sqs_url, sqs: Client::from_conf(config), kafka, _cluster: cluster, _moto: moto })
    }

    /// Takes a step of `peers.py`. What it prints is its answer.
    pub(crate) async fn python(&self, step: &str, arguments: Json) -> Result<Json, BoxError> {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers.py");
        command.arg(program).arg(step).arg(arguments.to_string());
        Ok(serde_json::from_str(&answer(&mut command).await?)?)
    }

    /// Takes a step for Amazon SQS.
    pub(crate) async fn boto3(&self, step: &str, queue: &str) -> Result<Json, BoxError> {
        self.python(step, json!({ "url": self.sqs_url, "queue": queue })).await
    }

    /// Takes a step for a topic of Kafka.
    pub(crate) async fn confluent(&self, step: &str, topic: &str) -> Result<Json, BoxError> {
        self.python(step, json!({ "servers": self.kafka, "topic": topic })).await
    }
}

/// The name of an entity that no other case has.
pub(crate) fn unique() -> String {
    format!("foreign-{:016x}", fastrand::u64(..))
}

pub(crate) fn now() -> Timestamp {
    SystemClock::new().now().utc
}

pub(crate) fn property<'m>(message: &'m Message, name: &str) -> Option<&'m PropertyValue> {
    message.application_properties().get(name)
}

/// Messages with every property, and more than SQS has attributes for, and with every kind of body.
pub(crate) fn everything() -> Result<Vec<Message>, BoxError> {
    let mut full = Message::builder()
        .content_type("application/json")
        .message_id("order 7 é")
        .correlation_id("c\u{1}")
        .subject("")
        .reply_to("replies/In")
        .to("t")
        .session_id("a session é")
        .reply_to_session_id("r")
        .partition_key("a session é")
        .transaction_partition_key("t")
        .build("{}")?;
    for (name, value) in [
        ("text", PropertyValue::from("é \u{1f980}")),
        ("empty", "".into()),
        ("control", "a\u{b}b".into()),
        ("number", u64::MAX.into()),
        ("float", 1e300_f64.into()),
        ("truth", true.into()),
        ("bytes", PropertyValue::Bytes(vec![0, 0xff].into())),
        ("a name\u{e9}", PropertyValue::Uuid([7; 16])),
        ("AWS.reserved", PropertyValue::Null),
        ("Sb-To", "not the property".into()),
    ] {
        full.properties_mut().application_properties_mut().insert(name, value);
    }
    let rest = full.properties_mut().pass_through_mut();
    rest.user_id = Some(vec![0, 0xff].into());
    rest.content_encoding = Some("gzip".into());
    (rest.priority, rest.durable) = (Some(9), Some(true));
    rest.creation_time = Some(now());
    rest.annotations = vec![("x-opt-a".into(), Value::List(vec![Value::from(1_u8)]))];
    let mut all = vec![full];
    for body in [
        MessageBody::from(""),
        MessageBody::from("text é"),
        MessageBody::from(vec![0, 0xff]),
        MessageBody::sections(vec!["ab".into(), "".into(), vec![0xff].into()]),
        MessageBody::sections(vec![]),
        Value::Map(vec![(Value::from("k"), Value::from(5_i32))]).into(),
        MessageBody::Sequence([vec![Value::from(1_u8)], vec![]].into()),
    ] {
        all.push(Message::builder().message_id("m").build(body)?);
    }
    Ok(all)
}

/// Fails unless the page of wrapped clients has excerpts of a file.
pub(crate) fn excerpts(name: &str, source: &str, count: usize) -> Result<(), BoxError> {
    let page = include_str!("../../../../docs/wrapping-a-client.md");
    let begin = format!("```rust,ignore\n// tests/foreign/convert/src/{name}\n");
    let excerpts: Vec<_> = page.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
    same("the excerpts", excerpts.len(), count)?;
    match excerpts.iter().find(|excerpt| !source.contains(**excerpt)) {
        Some(excerpt) => Err(format!("{name} does not have {excerpt}").into()),
        None => Ok(()),
    }
}
