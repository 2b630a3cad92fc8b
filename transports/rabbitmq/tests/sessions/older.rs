//! An accept takes the oldest session, although its slot is opened later than that of another.

use std::{future::poll_fn, time::Duration};

use consign::transport::Session;
use consign_rabbitmq::{
    RabbitMq, RabbitMqSession,
    lapin::{Channel, Connection, ConnectionProperties, options::QueueDeclareOptions, types::FieldTable},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Bench, SOON, by_session, expect,
    foreign::bucket,
    locks::{ends_within, proxy},
    next, support,
};

/// Two slots of one queue: a client has opened that of "a" and "c", and none that of "b". "b" has the older message.
struct Older {
    held: RabbitMqSession,
    connection: Connection,
    channel: Channel,
    slot_of_b: String,
}

impl Older {
    async fn new(bench: &Bench, client: &RabbitMq) -> Self {
        let slot = |id| bucket(id) % 2;
        assert!(slot("a") == slot("c") && slot("b") != slot("c"));
        let connection = Connection::connect(&support::address(), ConnectionProperties::default())
            .await
            .expect("a broker that answers");
        let channel = connection.create_channel().await.expect("a broker that answers");
        let held = client.accept_session(&bench.queue, "a").await.expect("a broker that answers");
        bench.send("b", "1").await;
        bench.send("c", "2").await;
        // The message of "c" has arrived when it is received, whatever the broker counts.
        let mut c = client.accept_session(&bench.queue, "c").await.expect("a broker that answers");
        std::mem::forget(next(&mut c).await);
        c.close().await.expect("a broker that answers");
        let older = Self { held, connection, channel, slot_of_b: format!("{}/$slot-{:02}-02", bench.queue, slot("b")) };
        older.b_is_free().await;
        older
    }

    /// Waits until the broker counts so many messages and readers in the slot of "b". A quorum queue may count late.
    async fn b_has(&self, messages: u32, readers: u32) -> bool {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let counting = async {
            loop {
                let name = self.slot_of_b.as_str().into();
                let slot = self.channel.queue_declare(name, options, FieldTable::default()).await;
                let slot = slot.expect("a broker that answers");
                if (slot.message_count(), slot.consumer_count()) == (messages, readers) {
                    return;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), counting).await.is_ok()
    }

    /// An accept opens a slot that has messages and no reader.
    async fn b_is_free(&self) {
        assert!(self.b_has(1, 0).await, "the slot is not given up");
    }

    async fn end(self) {
        self.held.close().await.expect("a broker that answers");
        self.connection.close(200, "".into()).await.expect("a broker that answers");
    }
}

/// Runs an experiment until the broker and the machine were fast enough for it, which it returns. It needs what holds for 1 s, and
/// counts that the broker answers as 0 when it is busy.
async fn experiment(run: impl AsyncFn(&Bench) -> bool) {
    for _ in 0..5 {
        let Some(bench) = Bench::new(by_session(2)).await else { return };
        let was_possible = run(&bench).await;
        bench.end().await;
        if was_possible {
            return;
        }
    }
    panic!("it never came to the experiment");
}

/// Rules: K-221.
#[tokio::test]
async fn a_session_that_an_old_accept_found_is_not_taken_before_an_older_one() {
    experiment(async |bench| {
        let older = Older::new(bench, &bench.rabbit).await;
        let mut acceptor = bench.rabbit.session_acceptor(&bench.queue).unwrap();
        // The first poll asks for counts. The second one has them: it opens the slot of "b", and finds "c" meanwhile.
        let is_opening = !ends_within(2, acceptor.accept_next()).await && older.b_has(0, 1).await;
        if is_opening {
            // After 3 s an accept would not wait for that slot. The broker has the real clock.
            sleep(Duration::from_millis(3_500)).await;
            older.b_is_free().await;
            let next = timeout(SOON, acceptor.accept_next()).await.expect("a session").unwrap();
            assert_eq!(next.session_id(), "b");
            next.close().await.unwrap();
        }
        older.end().await;
        is_opening
    })
    .await;
}

/// Rules: K-221.
/// Another client may not give up a slot so soon. Here the server does not answer.
#[tokio::test]
async fn an_accept_waits_for_the_slot_of_an_older_session_for_three_seconds() {
    experiment(async |bench| {
        let (proxy, address) = proxy().await;
        let client = bench.other(support::options(), &address).await;
        let older = Older::new(bench, &client).await;
        let mut acceptor = client.session_acceptor(&bench.queue).unwrap();
        let mut accepting = Box::pin(acceptor.accept_next());
        let (mut polls, mut began) = (0, Instant::now());
        // The first poll asks for counts. The second one has them, begins to open the slot of "b", and finds "c".
        let accepted = poll_fn(|cx| {
            polls += 1;
            if polls == 2 {
                proxy.freeze(true);
                began = Instant::now();
            }
            accepting.as_mut().poll(cx)
        });
        let mut next_session = timeout(SOON, accepted).await.expect("the slot is left out").unwrap();
        let has_waited = began.elapsed() >= Duration::from_secs(3);
        assert_eq!(next_session.session_id(), "c");
        drop(accepting);
        proxy.freeze(false);
        if has_waited {
            expect(&mut next_session, &[("2", 1)]).await;
            // The slot of "b" opens later, and is not left out then.
            let session = timeout(SOON, acceptor.accept_next()).await.expect("a session").unwrap();
            assert_eq!(session.session_id(), "b");
            session.close().await.unwrap();
        }
        next_session.close().await.unwrap();
        older.end().await;
        client.close().await.unwrap();
        has_waited
    })
    .await;
}
