//! What a server refuses without an answer, and what it does not have.

use std::{fs, time::Duration};

use consign::{
    Message,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease, ReceiverExt, Sender, Session},
};
use consign_conformance::log::Lines;
use consign_nats::{Nats, QueueSettings, TopicSettings, async_nats::jetstream};

use crate::{LONG, own::OwnServer, queue};

/// An account with users that lack one permission each, and one without JetStream.
const ACCOUNTS: &str = r#"accounts {
    A: { jetstream: enabled, users: [
        { user: all, password: all }
        { user: next, password: next, permissions: { publish: { deny: ["$JS.API.CONSUMER.MSG.NEXT.>"] } } }
        { user: send, password: send, permissions: { publish: { deny: ["consign.>"] } } }
        { user: settle, password: settle, permissions: { publish: { deny: ["$JS.ACK.>"] } } }
        { user: answer, password: answer, permissions: { subscribe: { deny: ["_INBOX.>"] } } }
        { user: listed, password: listed, permissions: {
            publish: { allow: ["$JS.API.INFO", "consign.>", "$JS.API.CONSUMER.>", "$JS.ACK.>", "$JS.API.DIRECT.GET.>", "$JS.API.STREAM.>"] }
            subscribe: { allow: ["_INBOX.>"] }
        } }
        { user: worker, password: worker, permissions: {
            publish: { allow: ["$JS.API.INFO", "$JS.API.STREAM.INFO.>", "consign.>", "$JS.API.CONSUMER.>", "$JS.API.STREAM.MSG.>", "$JS.API.DIRECT.GET.>", "$JS.ACK.>"] }
            subscribe: { allow: ["_INBOX.>"] }
        } }
    ] }
    B: { users: [{ user: without, password: without }] }
}"#;

async fn accounts() -> Option<OwnServer> {
    OwnServer::start_with(|folder| {
        let config = folder.join("accounts.conf");
        fs::write(&config, ACCOUNTS).expect("a file");
        vec!["--config".into(), config.display().to_string()]
    })
    .await
}

/// A connection of a user, whose name is also its password.
async fn of(server: &OwnServer, user: &str) -> Result<Nats, consign::transport::ManageError> {
    let url = format!("nats://{user}:{user}@{}", server.socket());
    Nats::options().server_syncs().timeout(Duration::from_secs(5)).connect(&url).await
}

#[tokio::test]
async fn a_receiver_whose_consumer_was_deleted_reports_it() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let context = jetstream::new(nats.client().clone());
    let stream = context.get_stream_no_info(format!("test_{path}")).await.unwrap();
    stream.delete_consumer("q").await.unwrap();
    let error = nats.receiver(&path).await.unwrap().receive_within(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound, "{error}");
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_may_not_request_messages_reports_it() {
    let Some(server) = accounts().await else { return };
    of(&server, "all").await.unwrap().create_queue("q", QueueSettings::default()).await.unwrap();
    let (lines, _guard) = Lines::capture();
    let nats = of(&server, "next").await.unwrap();
    let error = nats.receiver("q").await.unwrap().receive_within(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains("CONSUMER.MSG.NEXT.consign_q.q"), "{error}");
    let lines = lines.of("consign::nats");
    assert!(lines.iter().any(|line| line.contains("WARN") && line.contains("CONSUMER.MSG.NEXT")), "{lines:?}");
}

/// The options of a client that is wrapped are its owner's, so the violation is not known.
#[tokio::test]
async fn a_receiver_without_any_answer_reports_its_subject() {
    let Some(server) = accounts().await else { return };
    of(&server, "all").await.unwrap().create_queue("q", QueueSettings::default()).await.unwrap();
    let client = consign_nats::async_nats::ConnectOptions::new().user_and_password("next".into(), "next".into());
    let client = client.connect(server.url()).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client).await.unwrap();
    let error = nats.receiver("q").await.unwrap().receive_within(LONG + LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceBusy, "{error}");
    assert!(error.to_string().contains("CONSUMER.MSG.NEXT.consign_q.q"), "{error}");
}

#[tokio::test]
async fn a_missing_permission_is_the_cause_of_a_call_without_an_answer() {
    let Some(server) = accounts().await else { return };
    let all = of(&server, "all").await.unwrap();
    all.create_queue("q", QueueSettings::default()).await.unwrap();

    let (lines, _guard) = Lines::capture();
    let error = of(&server, "send").await.unwrap().sender("q").await.unwrap().send(Message::new("a")).await;
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unauthorized, false), "{error}");
    assert!(error.to_string().contains("consign.q.m"), "{error}");

    all.sender("q").await.unwrap().send(Message::new("b")).await.unwrap();
    let settling = of(&server, "settle").await.unwrap();
    let delivery = settling.receiver("q").await.unwrap().receive_within(LONG).await.unwrap();
    let error = delivery.complete().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains("$JS.ACK."), "{error}");

    let error = of(&server, "answer").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(error.to_string().contains("_INBOX."), "{error}");
    let lines = lines.of("consign::nats");
    let refused = |subject: &str| lines.iter().any(|line| line.contains("WARN") && line.contains(subject));
    assert!(refused("consign.q.m") && refused("$JS.ACK.") && refused("_INBOX."), "{lines:?}");
}

/// The table of the README: one user administers, and the other sends, receives and settles.
#[tokio::test]
async fn the_permissions_of_the_readme_suffice() {
    let Some(server) = accounts().await else { return };
    let (lines, _guard) = Lines::capture();
    let administrator = of(&server, "listed").await.unwrap();
    administrator.create_queue("q", QueueSettings::default()).await.unwrap();
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    administrator.create_queue("s", settings).await.unwrap();
    let nats = of(&server, "worker").await.unwrap();
    let sender = nats.sender("q").await.unwrap();
    for body in ["a", "b", "c"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    let mut receiver = nats.receiver("q").await.unwrap();
    receiver.receive_within(LONG).await.unwrap().complete().await.unwrap();
    let dead = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    receiver.receive_within(LONG).await.unwrap().dead_letter(dead).await.unwrap();
    receiver.receive_within(LONG).await.unwrap().lease.release().await.unwrap();
    receiver.receive_within(LONG).await.unwrap().complete().await.unwrap();
    nats.receiver("q/$deadletterqueue").await.unwrap().receive_within(LONG).await.unwrap().complete().await.unwrap();
    let message = Message::builder().session_id("one").build("d").unwrap();
    nats.sender("s").await.unwrap().send(message).await.unwrap();
    let mut session = nats.accept_session("s", "one").await.unwrap();
    session.set_state(Some("state".into())).await.unwrap();
    session.receive().await.unwrap().complete().await.unwrap();
    session.close().await.unwrap();
    administrator.delete("q").await.unwrap();
    let lines = lines.of("consign::nats");
    assert!(!lines.iter().any(|line| line.contains("WARN")), "{lines:?}");
}

#[tokio::test]
async fn an_account_without_jetstream_is_not_supported() {
    let Some(server) = accounts().await else { return };
    let error = of(&server, "without").await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::NotSupported, false), "{error}");
}

#[tokio::test]
async fn a_stream_of_another_program_with_the_subjects_is_not_the_queue() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let context = jetstream::new(nats.client().clone());
    let taken = format!("{path}-taken");
    let subjects = vec![format!("test.{taken}.>")];
    let name = format!("other-{taken}");
    let config = jetstream::stream::Config { name: name.clone(), subjects, ..Default::default() };
    context.create_stream(config).await.unwrap();
    let error = nats.create_queue(&taken, QueueSettings::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    let error = nats.create_topic(&taken, TopicSettings::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation, "{error}");
    context.delete_stream(name).await.unwrap();
    nats.delete(&path).await.unwrap();
}
