//! `foreign-fe2o3 PORT IDLE_PORT PREFIX TRANSPORT`: the client of fe2o3-amqp beside the node of the tests. Prints what it has seen.
//!
//! TRANSPORT is `tcp`, `tls` or `websocket`. For TLS, `CERTIFICATE` has the node's certificate in hexadecimal digits.
#![forbid(unsafe_code)]

use std::{env, error::Error, sync::Arc, time::Duration};

use fe2o3_amqp::{
    Connection, Delivery, Receiver, Sender, Session,
    connection::ConnectionHandle,
    link::{ReceiverAttachError, SenderAttachError, receiver::CreditMode},
    sasl_profile::SaslProfile,
    session::SessionHandle,
    types::{
        definitions::{AmqpError, ReceiverSettleMode},
        messaging::{Data, Modified, Outcome},
        primitives::Binary,
    },
};
use fe2o3_amqp_ws::WebSocketStream;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Map, Value as Json, json};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

type Failure = Box<dyn Error>;

/// Longer than the idle timeout of the node.
const IDLE: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(20);

struct Node {
    prefix: String,
    transport: String,
    seen: Map<String, Json>,
    links: u32,
}

impl Node {
    async fn connect(&self, port: &str, profile: SaslProfile) -> Result<ConnectionHandle<()>, Failure> {
        let builder = Connection::builder().container_id("fe2o3").sasl_profile(profile).max_frame_size(16_384_u32);
        Ok(match self.transport.as_str() {
            "websocket" => {
                let url = format!("ws://127.0.0.1:{port}/$servicebus/websocket");
                let stream = WebSocketStream::connect_with_config(url, None, true).await?;
                builder.open_with_stream(stream).await?
            }
            "tls" => {
                let connector = TlsConnector::from(Arc::new(trusting()?));
                let builder = builder.rustls_connector(connector).alt_tls_establishment(true);
                builder.open(format!("amqps://localhost:{port}").as_str()).await?
            }
            _ => builder.open(format!("amqp://127.0.0.1:{port}").as_str()).await?,
        })
    }

    fn address(&self, queue: &str) -> String {
        format!("{}/{queue}", self.prefix)
    }

    fn link(&mut self) -> String {
        self.links += 1;
        format!("link {}", self.links)
    }

    async fn send(&mut self, session: &mut SessionHandle<()>, queue: &str, body: &[u8]) -> Result<String, Failure> {
        let mut sender = Sender::attach(session, self.link(), self.address(queue)).await?;
        let outcome = sender.send(Data(Binary::from(body))).await?;
        sender.close().await?;
        Ok(match outcome {
            Outcome::Accepted(_) => "accepted".into(),
            other => format!("{other:?}"),
        })
    }

    /// A link whose messages are requested and settled by the caller.
    async fn receiver(&mut self, session: &mut SessionHandle<()>, queue: &str) -> Result<Receiver, Failure> {
        let builder = Receiver::builder().name(self.link()).source(self.address(queue));
        let builder = builder.receiver_settle_mode(ReceiverSettleMode::Second).credit_mode(CreditMode::Manual);
        Ok(builder.attach(session).await?)
    }

    fn saw(&mut self, step: &str, what: Json) {
        self.seen.insert(step.into(), what);
    }

    async fn settle_each_way(&mut self, session: &mut SessionHandle<()>) -> Result<(), Failure> {
        let sent = [self.send(session, "orders", b"1").await?, self.send(session, "orders", b"2").await?];
        self.saw("sent", json!(sent));
        let mut link = self.receiver(session, "orders").await?;
        for step in ["released", "modified", "accepted", "rejected"] {
            let delivery = receive(&mut link).await?;
            self.saw(step, json!([text(&delivery), count(&delivery)]));
            match step {
                "released" => link.release(&delivery).await?,
                "modified" => {
                    let failed =
                        Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: None };
                    link.modify(&delivery, failed).await?;
                }
                "accepted" => link.accept(&delivery).await?,
                _ => {
                    let error = fe2o3_amqp::types::definitions::Error::new(
                        AmqpError::DecodeError,
                        Some("bad".to_owned()),
                        None,
                    );
                    link.reject(&delivery, error).await?;
                }
            }
        }
        Ok(link.close().await?)
    }

    async fn exchange_large(&mut self, session: &mut SessionHandle<()>) -> Result<(), Failure> {
        let large: Vec<u8> = (0..1_u32 << 20).map(|n| (n * 31 % 251) as u8).collect();
        self.send(session, "large", &large).await?;
        let mut link = self.receiver(session, "large").await?;
        let delivery = receive(&mut link).await?;
        link.accept(&delivery).await?;
        link.close().await?;
        let body = delivery.body().0.as_slice();
        self.saw("large", if body == large { json!(body.len()) } else { json!("not the same") });
        Ok(())
    }

    async fn drain(&mut self, session: &mut SessionHandle<()>) -> Result<(), Failure> {
        self.send(session, "drained", b"3").await?;
        let mut link = self.receiver(session, "drained").await?;
        link.set_credit(10).await?;
        link.drain().await?;
        let delivery = link.recv::<Data>().await?;
        link.accept(&delivery).await?;
        // This client shows no end of a drain. After it there is no credit: the next message is not sent.
        self.send(session, "drained", b"later").await?;
        let early = timeout(Duration::from_millis(300), link.recv::<Data>()).await.is_ok();
        self.saw("drained", json!([1, u32::from(early)]));
        let delivery = receive(&mut link).await?;
        link.accept(&delivery).await?;
        Ok(link.close().await?)
    }

    async fn detach(&mut self, session: &mut SessionHandle<()>) -> Result<(), Failure> {
        self.send(session, "detached", b"4").await?;
        let mut seen = Vec::new();
        for settles in [false, true] {
            let mut link = self.receiver(session, "detached").await?;
            let delivery = receive(&mut link).await?;
            seen.push(text(&delivery));
            if settles {
                link.accept(&delivery).await?;
            }
            link.close().await?;
        }
        self.saw("detached", json!(seen));
        Ok(())
    }

    async fn refusal(&mut self, connection: &mut ConnectionHandle<()>) -> Result<(), Failure> {
        let mut first = Session::begin(connection).await?;
        let mut second = Session::begin(connection).await?;
        let condition = |error: &fe2o3_amqp::types::definitions::Error| format!("{:?}", error.condition);
        let sender = match Sender::attach(&mut first, "refused 1", "missing").await {
            Err(SenderAttachError::RemoteClosedWithError(error)) => condition(&error),
            other => format!("{:?}", other.map(drop)),
        };
        let receiver = match Receiver::attach(&mut second, "refused 2", "missing").await {
            Err(ReceiverAttachError::RemoteClosedWithError(error)) => condition(&error),
            // This client reports that in place of the error if it reads the detach while it answers the attach.
            Err(ReceiverAttachError::IllegalState) => "NotFound".into(),
            other => format!("{:?}", other.map(drop)),
        };
        let named =
            |condition: String| if condition.contains("NotFound") { "amqp:not-found".to_owned() } else { condition };
        self.saw("refused", json!([named(sender), named(receiver)]));
        // A session in which this client was late with a detach ends with an error of its own.
        let _ = (first.end().await, second.end().await);
        Ok(())
    }
}

/// Trusts the certificate of the node alone.
fn trusting() -> Result<ClientConfig, Failure> {
    let digits = env::var("CERTIFICATE")?;
    let pairs = digits.as_bytes().chunks(2);
    let certificate: Vec<u8> =
        pairs.map(|pair| Ok(u8::from_str_radix(str::from_utf8(pair)?, 16)?)).collect::<Result<_, Failure>>()?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.into())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn receive(link: &mut Receiver) -> Result<Delivery<Data>, Failure> {
    link.set_credit(1).await?;
    Ok(link.recv().await?)
}

fn text(delivery: &Delivery<Data>) -> String {
    String::from_utf8_lossy(&delivery.body().0).into_owned()
}

fn count(delivery: &Delivery<Data>) -> u32 {
    delivery.message().header.as_ref().map_or(0, |header| header.delivery_count)
}

async fn run(node: &mut Node, port: &str, idle: &str) -> Result<(), Failure> {
    let plain = SaslProfile::Plain { username: "guest".into(), password: "guest".into() };
    let mut mechanisms = Vec::new();
    for (name, profile) in [("ANONYMOUS", SaslProfile::Anonymous), ("PLAIN", plain)] {
        node.connect(port, profile).await?.close().await?;
        mechanisms.push(name);
    }
    node.saw("mechanisms", json!(mechanisms));
    let mut connection = node.connect(port, SaslProfile::Anonymous).await?;
    let mut session = Session::begin(&mut connection).await?;
    step("settlement", node.settle_each_way(&mut session)).await?;
    step("large", node.exchange_large(&mut session)).await?;
    step("drain", node.drain(&mut session)).await?;
    step("detach", node.detach(&mut session)).await?;
    step("refusal", node.refusal(&mut connection)).await?;
    session.end().await?;
    connection.close().await?;
    let mut connection = node.connect(idle, SaslProfile::Anonymous).await?;
    let mut session = Session::begin(&mut connection).await?;
    sleep(IDLE).await;
    let sent = node.send(&mut session, "idle", b"5").await?;
    node.saw("idle", json!(sent));
    session.end().await?;
    Ok(connection.close().await?)
}

async fn step(name: &str, step: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    match timeout(LONG, step).await {
        Ok(outcome) => outcome.map_err(|error| format!("Error in {name}: {error}").into()),
        Err(_) => Err(format!("Error in {name}: no answer in time").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [port, idle, prefix, transport] = arguments.as_slice() else {
        return Err("foreign-fe2o3 PORT IDLE_PORT PREFIX TRANSPORT".into());
    };
    let mut node = Node { prefix: prefix.clone(), transport: transport.clone(), seen: Map::new(), links: 0 };
    timeout(LONG * 2, run(&mut node, port, idle)).await??;
    println!("{}", Json::Object(node.seen));
    Ok(())
}
