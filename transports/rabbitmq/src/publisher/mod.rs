//! Publishing with confirms: one task owns a channel, and tracks each message.

mod returns;
mod task;

use std::{
    future::ready,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use consign_core::transport::ErrorKind;
use lapin::{BasicProperties, Channel, Confirmation, options::BasicPublishOptions, types::ShortString};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use self::returns::Confirmed;
use crate::{error::Failure, link::Link, reply::Newest};

/// Whether a message must find a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Mandatory,
    /// A topic without a subscription that takes the message is not a failure.
    Optional,
}

#[derive(Clone)]
pub(crate) struct Publication {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
    pub(crate) route: Route,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Bytes,
}

pub(crate) type Outcome = Result<(), Failure>;

/// A message that is published in its turn.
struct Command {
    publication: Box<Publication>,
    /// The end of the deadline.
    until: Instant,
    done: oneshot::Sender<Outcome>,
}

/// What identifies a returned message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Name {
    /// The number of its channel.
    channel: u64,
    /// The hash of the routing key and the id: several queues may get the same id.
    hash: u64,
}

impl Name {
    fn new(channel: u64, key: &ShortString, id: Option<&ShortString>) -> Self {
        let mut hasher = DefaultHasher::new();
        (key.as_str(), id.map(ShortString::as_str)).hash(&mut hasher);
        Self { channel, hash: hasher.finish() }
    }
}

type Confirming = Pin<Box<dyn Future<Output = lapin::Result<Confirmation>> + Send>>;

/// A message that is published, and not confirmed.
struct Published {
    name: Name,
    confirming: Confirming,
    until: Instant,
    done: Option<oneshot::Sender<Outcome>>,
}

impl Published {
    /// Queues the frames of a message, so that messages are sent in the order of these calls.
    fn new(
        (number, channel): (u64, Arc<Channel>),
        publication: Publication,
        until: Instant,
        done: oneshot::Sender<Outcome>,
    ) -> Self {
        let name = Name::new(number, &publication.key, publication.properties.message_id().as_ref());
        let mut confirming: Confirming = Box::pin(publish(channel, publication));
        if let Poll::Ready(result) = confirming.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            confirming = Box::pin(ready(result));
        }
        Self { name, confirming, until, done: Some(done) }
    }
}

impl Future for Published {
    type Output = Confirmed;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Confirmed> {
        let result = ready!(self.confirming.as_mut().poll(cx));
        Poll::Ready(Confirmed::new(self.name, self.done.take(), result))
    }
}

async fn publish(channel: Arc<Channel>, publication: Publication) -> lapin::Result<Confirmation> {
    let Publication { exchange, key, route, properties, payload } = publication;
    let options = BasicPublishOptions { mandatory: route == Route::Mandatory, immediate: false };
    channel.basic_publish(exchange, key, options, &payload, properties).await?.await
}

/// State that senders and the task share.
#[derive(Default)]
struct Lane {
    way: Mutex<Way>,
    /// Notifies the task of published messages.
    published: Notify,
}

#[derive(Default)]
struct Way {
    channel: Option<Arc<Channel>>,
    /// The number of the channel.
    number: u64,
    /// Messages that the task has not taken from the senders.
    published: Vec<Published>,
    /// Commands that the task has still to publish. No command overtakes them.
    queued: usize,
    /// Sends that were not answered.
    in_flight: usize,
}

/// The handle of a task that publishes. The task ends when all clones are dropped and everything is confirmed.
#[derive(Clone)]
pub(crate) struct Publisher {
    commands: mpsc::Sender<Command>,
    lane: Arc<Lane>,
    link: Arc<Link>,
    has_replies: bool,
}

/// The state of a publication. The answer comes no later than the deadline.
pub(crate) enum Publishing {
    /// It waits for its turn.
    Queued(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    Answer(oneshot::Receiver<Outcome>),
}

impl Publisher {
    pub(crate) fn spawn(link: Arc<Link>) -> Self {
        Self::spawn_with(link, None)
    }

    /// Starts the task, with a consumer of replies on each channel that it opens.
    pub(crate) fn spawn_with(link: Arc<Link>, replies: Option<Arc<Newest>>) -> Self {
        // Senders that wait for the bound have a place each, besides those that are within it.
        let (commands, received) = mpsc::channel(2 * link.options.sends_in_flight);
        let lane = Arc::new(Lane::default());
        let has_replies = replies.is_some();
        tokio::spawn(task::run(Arc::clone(&link), received, Arc::clone(&lane), replies));
        Self { commands, lane, link, has_replies }
    }

    /// Returns whether its channels consume direct replies.
    pub(crate) fn has_replies(&self) -> bool {
        self.has_replies
    }

    /// Publishes in the order of the calls, up to the bound.
    pub(crate) fn start(&self, publication: Publication) -> Publishing {
        let until = Instant::now() + self.link.deadline();
        let mut way = self.lane.way.lock();
        if way.in_flight >= self.link.options.sends_in_flight {
            drop(way);
            let this = self.clone();
            return Publishing::Queued(Box::pin(async move { this.wait(publication, until).await?.await }));
        }
        let (done, answer) = oneshot::channel();
        match way.channel.clone() {
            Some(channel) if way.queued == 0 && channel.status().connected() => {
                // Its frames are queued here, which saves a turn of the task.
                let published = Published::new((way.number, channel), publication, until, done);
                way.published.push(published);
                way.in_flight += 1;
                if way.published.len() == 1 {
                    drop(way);
                    self.lane.published.notify_one();
                }
            }
            _ => {
                // There is a place for it, unless the task has ended.
                let command = Command { publication: Box::new(publication), until, done };
                if self.commands.try_send(command).is_err() {
                    return Publishing::Queued(Box::pin(ready(Err(ended()))));
                }
                way.queued += 1;
                way.in_flight += 1;
            }
        }
        Publishing::Answer(answer)
    }

    /// Publishes as soon as the bound permits.
    pub(crate) async fn enqueue(&self, publication: Publication) -> Result<Publishing, Failure> {
        self.wait(publication, Instant::now() + self.link.deadline()).await
    }

    async fn wait(&self, publication: Publication, until: Instant) -> Result<Publishing, Failure> {
        let throttled = || Failure::new(ErrorKind::Throttled, "too many sends are in flight");
        let room = tokio::time::timeout_at(until, self.commands.reserve()).await.map_err(|_| throttled())?;
        let room = room.map_err(|_| ended())?;
        let (done, answer) = oneshot::channel();
        let mut way = self.lane.way.lock();
        let is_beyond = way.in_flight >= self.link.options.sends_in_flight;
        way.queued += 1;
        way.in_flight += 1;
        room.send(Command { publication: Box::new(publication), until, done });
        drop(way);
        if !is_beyond {
            return Ok(Publishing::Answer(answer));
        }
        // Those before it may have later deadlines.
        let link = Arc::clone(&self.link);
        Ok(Publishing::Queued(Box::pin(async move {
            match tokio::time::timeout_at(until, answer).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(ended())),
                Err(_) => Err(Failure::late("a send", link.deadline()).because(link.blocked())),
            }
        })))
    }

    pub(crate) async fn publish(&self, publication: Publication) -> Outcome {
        self.start(publication).await
    }
}

fn ended() -> Failure {
    Failure::gone("the runtime of the sender has ended")
}

impl Future for Publishing {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self {
            Self::Queued(queued) => queued.as_mut().poll(cx),
            Self::Answer(answer) => Poll::Ready(ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(ended()))),
        }
    }
}
