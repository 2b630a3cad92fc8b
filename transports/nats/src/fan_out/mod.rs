//! The fan-out of a subscription: a task in a receiving process that copies the messages of the topic.
//!
//! A message is stored once, in the stream of its topic, which keeps it until each subscription's consumer there has
//! acknowledged it. The task pulls from that consumer, evaluates the rules, and stores the copies in the subscription's own
//! stream. It acknowledges when the server has confirmed them. A task that dies in between leaves the message unacknowledged,
//! and the next task makes the same copies with the same ids.

mod copying;
mod pull;

use std::{sync::Arc, time::Duration};

use consign_core::{message::EntityPath, transport::ErrorKind};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{beside::Beside, connection::Inner, copies::Target, error::Fault, fan_outs::Users, settings::Stored, wire};

/// How long a message may be in transit from its topic before another task gets it.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(5);
/// How many messages are in transit at once.
pub(crate) const AT_ONCE: usize = 128;
/// How long an operation waits until earlier messages have their copies: by then another task has the messages of a dead one.
const CATCH_UP: Duration = Duration::from_secs(8);

/// What a task and its users share.
pub(crate) struct Running {
    inner: Arc<Inner>,
    topic: String,
    consumer: String,
    target: Target,
    users: Arc<Users>,
}

/// A share in a running fan-out. A fan-out without shares ends with its request.
pub(crate) struct FanOut(Arc<Running>);

/// Returns the consumer of a subscription at its topic.
pub(crate) fn consumer(subscription: &str) -> String {
    wire::token(&subscription.to_lowercase())
}

#[derive(Deserialize)]
pub(super) struct Progress {
    num_pending: u64,
    num_ack_pending: u64,
    ack_floor: Floor,
}

#[derive(Deserialize)]
struct Floor {
    stream_seq: u64,
}

impl FanOut {
    /// Returns the fan-out of a subscription, which starts with its first user.
    pub(crate) fn of(inner: &Arc<Inner>, path: &EntityPath, settings: &Stored) -> Result<Self, Fault> {
        let path = path.parent();
        let Some((topic, name)) = path.subscription() else {
            return Err(Fault::new(ErrorKind::InvalidArgument, "the path is not that of a subscription"));
        };
        let (topic, _) = inner.name(topic)?;
        let (stream, root) = inner.name(path.as_str())?;
        let (users, is_first) = inner.fan_outs.join(&stream, &settings.id);
        let target = Target {
            beside: Beside::new(&stream, &root),
            root,
            stream,
            settings: settings.clone(),
            max_payload: inner.client.max_payload(),
        };
        let running = Arc::new(Running { inner: Arc::clone(inner), topic, consumer: consumer(name), target, users });
        if is_first {
            tokio::spawn(pull::run(Arc::clone(&running)));
        }
        Ok(Self(running))
    }

    /// Checks whether the subscription exists, as far as the fan-out has found out.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.0.users.is_over() {
            return Err(Fault::new(ErrorKind::EntityNotFound, "the subscription was deleted"));
        }
        Ok(())
    }

    /// Waits until earlier messages have their copies, at most until the loss of a task is detected.
    pub(crate) async fn catch_up(&self) -> Result<(), Fault> {
        #[derive(Deserialize)]
        struct Info {
            state: State,
        }
        #[derive(Deserialize)]
        struct State {
            last_seq: u64,
        }
        let Running { inner, topic, .. } = &*self.0;
        let info = inner.request::<Info>(&format!("STREAM.INFO.{topic}"), &json!({})).await;
        let last = match info {
            Ok(info) => info.state.last_seq,
            // Without its topic no message arrives any more.
            Err(fault) if fault.is_gone() => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let (since, mut pause) = (Instant::now(), Duration::from_millis(2));
        while since.elapsed() < CATCH_UP {
            let progress = match self.0.progress().await {
                Err(fault) if fault.is_gone() => return Ok(()),
                progress => progress?,
            };
            if progress.num_pending + progress.num_ack_pending == 0 || progress.ack_floor.stream_seq >= last {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Clone for FanOut {
    fn clone(&self) -> Self {
        self.0.users.add();
        Self(Arc::clone(&self.0))
    }
}

impl Drop for FanOut {
    fn drop(&mut self) {
        self.0.users.remove();
    }
}

impl Running {
    pub(super) async fn progress(&self) -> Result<Progress, Fault> {
        self.inner.request(&format!("CONSUMER.INFO.{}.{}", self.topic, self.consumer), &json!({})).await
    }

    /// Ends the fan-out if the subscription is deleted, and lets its receivers fail. In a cluster, a server may answer that its
    /// consumer is missing while that is there.
    async fn look_for_subscription(&self) {
        let Target { stream, settings, .. } = &self.target;
        let Ok(path) = EntityPath::new(&settings.path) else { return };
        let is_over = match self.inner.entity(&path).await {
            Ok(entity) => entity.settings.id != settings.id,
            Err(fault) => fault.kind == ErrorKind::EntityNotFound,
        };
        if is_over {
            tracing::debug!(subscription = stream, "the subscription gets no more copies");
            self.users.end();
            self.inner.changes.send_modify(|_| {});
        }
    }

    /// Ends the fan-out, unless it has users. A new user starts another one.
    fn ends(&self, is_forced: bool) -> bool {
        self.inner.fan_outs.end(&self.target.stream, &self.users, is_forced)
    }
}
