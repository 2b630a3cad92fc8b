//! The task of a fan-out. The server lets one request wait at the consumer. So of several tasks one gets the messages, in their
//! order, and the others get a turn when it ends.

use std::{sync::Arc, time::Duration};

use async_nats::{Request, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout};

use super::{AT_ONCE, Running, copying::Hand};
use crate::{error::Fault, log, read, request_times::EXPIRES};

/// How often a task checks that it has users and a connection, and repeats its request if another task had its turn.
const TICK: Duration = Duration::from_millis(250);
/// How long a task waits after an error.
const PAUSE: Duration = Duration::from_millis(100);
/// After this many errors the pause grows no more.
const MOST_FAILURES: u32 = 5;

struct Pull {
    running: Arc<Running>,
    inbox: String,
    subscriber: Subscriber,
    /// When the request that waits at the server was made.
    asked: Option<Instant>,
    /// How many messages of it have not arrived. It ends with the last one.
    outstanding: usize,
    /// The earliest time of the next request.
    ask_at: Instant,
    connects: u64,
    hand: Hand,
}

pub(super) async fn run(running: Arc<Running>) {
    let mut pull = loop {
        let inner = &running.inner;
        let inbox = inner.client.new_inbox();
        if inner.is_closed() {
            running.ends(true);
            return;
        }
        match inner.client.subscribe(inbox.clone()).await {
            Ok(subscriber) => {
                let (connects, hand) = (inner.connects(), Hand::new(Arc::clone(&running)));
                let ask_at = Instant::now();
                let running = Arc::clone(&running);
                break Pull { running, inbox, subscriber, asked: None, outstanding: 0, ask_at, connects, hand };
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    let mut failures = 0;
    while !running.inner.is_closed() && !running.users.is_over() {
        match pull.turn().await {
            Ok(true) => failures = 0,
            Ok(false) => {
                if running.ends(false) {
                    return;
                }
            }
            Err(fault) => {
                let is_gone = fault.is_gone();
                if is_gone {
                    running.look_for_subscription().await;
                    if running.users.is_over() {
                        break;
                    }
                }
                // The consumer is the first to go when the subscription is deleted.
                if !is_gone || failures > 0 {
                    let what = "the copies of a subscription wait in their topic: it is tried again";
                    log::failed(&running.target.settings.path, what, &fault);
                }
                // Messages that are here are redelivered to the next task when their time is over.
                if running.ends(false) {
                    return;
                }
                if is_gone {
                    failures = MOST_FAILURES;
                }
                tokio::time::sleep(PAUSE * 2_u32.pow(failures)).await;
                if is_gone {
                    // There may be another one of its name by now.
                    running.look_for_subscription().await;
                }
                failures = (failures + 1).min(MOST_FAILURES);
            }
        }
    }
    running.ends(true);
}

impl Pull {
    /// Takes available messages, and copies them. `false` if there is none, and no request at the server.
    async fn turn(&mut self) -> Result<bool, Fault> {
        let now = Instant::now();
        let inner = Arc::clone(&self.running.inner);
        let connects = inner.connects();
        if connects != self.connects || self.asked.is_some_and(|asked| now - asked > EXPIRES * 2) {
            // The server may have lost the request.
            (self.connects, self.asked) = (connects, None);
        }
        if self.asked.is_none() && now >= self.ask_at && self.is_wanted() {
            self.ask().await?;
        }
        if self.hand.is_empty() {
            if let Ok(next) = timeout(TICK, self.subscriber.next()).await {
                let Some(message) = next else { return Err(Fault::closed()) };
                self.take(message).await?;
            } else if self.asked.is_none() && !self.is_wanted() {
                return Ok(false);
            }
        }
        while self.hand.len() < AT_ONCE
            && let Some(Some(message)) = self.subscriber.next().now_or_never()
        {
            self.take(message).await?;
        }
        if self.hand.is_empty() || !self.hand.is_in_order().await? {
            return Ok(true);
        }
        self.hand.copy().await?;
        Ok(true)
    }

    fn is_wanted(&self) -> bool {
        self.running.users.is_any()
    }

    async fn ask(&mut self) -> Result<(), Fault> {
        let expires = u64::try_from(EXPIRES.as_nanos()).unwrap_or(u64::MAX);
        let payload = Bytes::from(format!(r#"{{"batch":{AT_ONCE},"expires":{expires}}}"#));
        let request = Request::new().payload(payload).inbox(self.inbox.clone());
        let next = format!("CONSUMER.MSG.NEXT.{}.{}", self.running.topic, self.running.consumer);
        self.ask_at = Instant::now() + TICK;
        let sent = self.running.inner.context.send_request(next, request).await;
        sent.map_err(|error| Fault::broken(&error))?;
        (self.asked, self.outstanding) = (Some(Instant::now()), AT_ONCE);
        Ok(())
    }

    async fn take(&mut self, message: async_nats::Message) -> Result<(), Fault> {
        let Some(status) = message.status else {
            let (facts, reply) = read::facts(&message)?;
            self.hand.take(message, facts, reply);
            self.outstanding = self.outstanding.saturating_sub(1);
            if self.outstanding == 0 {
                (self.asked, self.ask_at) = (None, Instant::now());
            }
            return Ok(());
        };
        if status == StatusCode::IDLE_HEARTBEAT {
            return Ok(());
        }
        self.asked = None;
        if status == StatusCode::NOT_FOUND || status == StatusCode::TIMEOUT {
            self.ask_at = Instant::now();
            return Ok(());
        }
        // Another task has the turn, no server leads the consumer, or it is deleted.
        self.ask_at = Instant::now() + TICK;
        let description = message.description.as_deref().unwrap_or_default();
        if status == StatusCode::NO_RESPONDERS || description.eq_ignore_ascii_case("Consumer Deleted") {
            self.running.look_for_subscription().await;
            self.running.progress().await?;
        }
        Ok(())
    }
}
