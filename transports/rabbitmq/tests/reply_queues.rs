//! Queues for replies whose requester is killed.

mod support;

use std::time::Duration;

use consign::{
    Message,
    message::EntityPath,
    transport::{ErrorKind, ReceiverExt, Sender as _},
};
use consign_conformance::killed::{self, Killed};
use consign_rabbitmq::RabbitMq;
use tokio::time::{sleep, timeout};

/// Longer than it takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// The requester that is killed. Its queue has the name that it prints into the file of its argument.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requester_that_is_killed() {
    let Some(file) = killed::argument() else { return };
    let rabbit: RabbitMq = support::options().connect(&support::address()).await.unwrap();
    let path = rabbit.create_reply_queue(Duration::from_millis(200)).await.unwrap();
    let mut replies = rabbit.receiver(&path).unwrap();
    rabbit.sender(&path).unwrap().send(Message::new("first")).await.unwrap();
    let delivery = replies.receive_within(LONG).await.unwrap();
    std::fs::write(file, &path).unwrap();
    let _receiving = tokio::spawn(async move { replies.receive_within(LONG * 10).await.map(drop) });
    killed::ready().await;
    drop(delivery);
}

/// Rules: K-204.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_queue_of_a_killed_requester_is_deleted() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path");
    let process = Killed::run("the_requester_that_is_killed", file.to_str().unwrap()).await.unwrap();
    let path = std::fs::read_to_string(file).unwrap();
    EntityPath::new(&path).unwrap();
    // While its requester lives, it stays for longer than its idle time.
    sleep(Duration::from_millis(600)).await;
    rabbit.sender(&path).unwrap().send(Message::new("late")).await.unwrap();
    process.kill().await.unwrap();
    let gone = async {
        loop {
            match rabbit.sender(&path).unwrap().send(Message::new("later")).await {
                Err(error) if error.kind() == ErrorKind::EntityNotFound => return,
                // The broker ends a connection that names a queue while it deletes it.
                Err(error) => assert!(error.is_retryable(), "{error}"),
                Ok(()) => {}
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, gone).await.expect("the queue is deleted");
}

#[tokio::test]
async fn an_idle_time_out_of_range_is_refused() {
    let Some(rabbit) = support::connect(support::options()).await else { return };
    for idle in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let error = rabbit.create_reply_queue(idle).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{idle:?}");
    }
}
