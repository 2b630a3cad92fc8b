//! Publishing with confirms: one task owns a channel, and tracks each message.

mod returns;

use std::{
    future::ready,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use consign_core::transport::ErrorKind;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation, Consumer,
    options::{BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions},
    types::{FieldTable, ShortString},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use self::returns::{Confirmed, Returns};
use crate::{
    error::{Failure, within},
    link::{Leased, Link},
    reply_to,
};

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

impl Publication {
    fn name(&self) -> Name {
        (self.key.clone(), self.properties.message_id().clone())
    }
}

pub(crate) type Outcome = Result<(), Failure>;

enum Command {
    /// To be published in its turn.
    Publish {
        publication: Box<Publication>,
        /// The end of the deadline.
        until: Instant,
        done: oneshot::Sender<Outcome>,
    },
    /// Published, and not confirmed yet.
    Published { name: Name, publishing: Confirming, done: oneshot::Sender<Outcome> },
}

/// The routing key and the id of a message, which identify a returned one: several queues may get the same id.
type Name = (ShortString, Option<ShortString>);

type Confirming = Pin<Box<dyn Future<Output = lapin::Result<Confirmation>> + Send>>;

/// State that senders and the task share.
#[derive(Default)]
struct Way {
    channel: Option<Channel>,
    /// Commands that the task has still to publish. No command overtakes them.
    queued: usize,
    /// Sends that were not answered.
    in_flight: usize,
}

/// The handle of a task that publishes. The task ends when all clones are dropped and everything is confirmed.
#[derive(Clone)]
pub(crate) struct Publisher {
    commands: mpsc::Sender<Command>,
    way: Arc<Mutex<Way>>,
    link: Arc<Link>,
}

/// The state of a publication. The answer is awaited no longer than the deadline.
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
    pub(crate) fn spawn_with(link: Arc<Link>, replies: Option<mpsc::Sender<Consumer>>) -> Self {
        let bound = link.options.sends_in_flight;
        // Published messages have a place each, besides those that are not published yet.
        let (commands, received) = mpsc::channel(2 * bound);
        let way = Arc::new(Mutex::new(Way::default()));
        tokio::spawn(run(Arc::clone(&link), received, Arc::clone(&way), replies));
        Self { commands, way, link }
    }

    /// Publishes in the order of the calls, up to the bound.
    pub(crate) fn start(&self, publication: Publication) -> Publishing {
        let until = Instant::now() + self.link.deadline();
        let (done, answer) = oneshot::channel();
        let mut way = self.way.lock();
        if way.in_flight < self.link.options.sends_in_flight {
            let command = match way.channel.clone() {
                Some(channel) if way.queued == 0 && channel.status().connected() => {
                    // Its frames are queued here, which saves a turn of the task.
                    let name = publication.name();
                    let mut publishing: Confirming = Box::pin(publish(channel, publication));
                    match publishing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(result) => {
                            let publishing = Box::pin(ready(result));
                            Command::Published { name, publishing, done }
                        }
                        Poll::Pending => Command::Published { name, publishing, done },
                    }
                }
                _ => {
                    way.queued += 1;
                    Command::Publish { publication: Box::new(publication), until, done }
                }
            };
            way.in_flight += 1;
            // The channel has capacity for as many, unless the task has ended.
            return match self.commands.try_send(command) {
                Ok(()) => Publishing::Answer(answer),
                Err(_) => Publishing::Queued(Box::pin(async { Err(ended()) })),
            };
        }
        drop(way);
        let this = self.clone();
        Publishing::Queued(Box::pin(async move { answered(this.wait(publication).await?).await }))
    }

    /// Publishes as soon as the bound permits.
    pub(crate) async fn enqueue(&self, publication: Publication) -> Result<Publishing, Failure> {
        Ok(Publishing::Answer(self.wait(publication).await?))
    }

    async fn wait(&self, publication: Publication) -> Result<oneshot::Receiver<Outcome>, Failure> {
        let until = Instant::now() + self.link.deadline();
        let throttled = || Failure::new(ErrorKind::Throttled, "too many sends are in flight");
        let room = tokio::time::timeout_at(until, self.commands.reserve()).await.map_err(|_| throttled())?;
        let room = room.map_err(|_| ended())?;
        let (done, answer) = oneshot::channel();
        let mut way = self.way.lock();
        way.queued += 1;
        way.in_flight += 1;
        room.send(Command::Publish { publication: Box::new(publication), until, done });
        Ok(answer)
    }

    pub(crate) async fn publish(&self, publication: Publication) -> Outcome {
        self.start(publication).finish(&self.link).await
    }
}

fn ended() -> Failure {
    Failure::gone("the runtime of the sender has ended")
}

async fn answered(answer: oneshot::Receiver<Outcome>) -> Outcome {
    answer.await.unwrap_or_else(|_| Err(ended()))
}

impl Publishing {
    pub(crate) async fn finish(self, link: &Link) -> Outcome {
        let deadline = link.deadline();
        let finish = async {
            match self {
                Self::Queued(queued) => queued.await,
                Self::Answer(answer) => answered(answer).await,
            }
        };
        tokio::time::timeout(deadline, finish).await.unwrap_or_else(|_| Err(Failure::late("a confirm", deadline)))
    }
}

async fn run(
    link: Arc<Link>,
    mut commands: mpsc::Receiver<Command>,
    way: Arc<Mutex<Way>>,
    replies: Option<mpsc::Sender<Consumer>>,
) {
    let bound = link.options.sends_in_flight;
    let mut in_flight = FuturesUnordered::new();
    let mut leased: Option<Leased> = None;
    let mut returns = Returns::default();
    let mut settled: Vec<Confirmed> = Vec::new();
    loop {
        tokio::select! {
            biased;
            Some(confirmed) = in_flight.next() => {
                settled.push(confirmed);
                // lapin gives a returned message to whichever confirm of one acknowledgement it resolves first. So all arrived
                // results are collected before any is answered.
                // Published messages are never beyond the bound.
                while in_flight.len() < bound && let Ok(command) = commands.try_recv() {
                    take(command, &link, &way, &mut leased, replies.as_ref(), &mut in_flight, &mut returns).await;
                }
                while let Some(Some(confirmed)) = in_flight.next().now_or_never() {
                    settled.push(confirmed);
                }
                way.lock().in_flight -= settled.len();
                returns.answer(&mut settled);
            }
            command = commands.recv(), if in_flight.len() < bound => {
                let Some(command) = command else { break };
                take(command, &link, &way, &mut leased, replies.as_ref(), &mut in_flight, &mut returns).await;
            }
        }
    }
    while let Some(confirmed) = in_flight.next().await {
        settled.push(confirmed);
    }
    returns.answer(&mut settled);
    if let Some(leased) = leased {
        leased.close(link.deadline()).await;
    }
}

/// Publishes a message that is not published yet.
async fn take(
    command: Command,
    link: &Link,
    way: &Mutex<Way>,
    leased: &mut Option<Leased>,
    replies: Option<&mpsc::Sender<Consumer>>,
    in_flight: &mut FuturesUnordered<Pin<Box<dyn Future<Output = Confirmed> + Send>>>,
    returns: &mut Returns,
) {
    let (name, publishing, done) = match command {
        Command::Published { name, publishing, done } => (name, publishing, done),
        Command::Publish { publication, until, done } => {
            let channel = match channel(link, way, leased, replies, until, returns).await {
                Ok(channel) if !done.is_closed() && until > Instant::now() => channel,
                outcome => {
                    let mut way = way.lock();
                    way.queued -= 1;
                    way.in_flight -= 1;
                    let late = || Failure::late("a send", link.deadline());
                    let _ = done.send(Err(outcome.err().unwrap_or_else(late)));
                    return;
                }
            };
            let name = publication.name();
            let mut publishing: Confirming = Box::pin(publish(channel, *publication));
            let mut way = way.lock();
            // Its frames are queued here, so that messages go out in the order in which they came.
            match publishing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => publishing = Box::pin(ready(result)),
                Poll::Pending => {}
            }
            way.queued -= 1;
            (name, publishing, done)
        }
    };
    in_flight.push(Box::pin(async move { Confirmed { name, done, result: publishing.await } }));
}

/// Returns a working channel.
async fn channel(
    link: &Link,
    way: &Mutex<Way>,
    leased: &mut Option<Leased>,
    replies: Option<&mpsc::Sender<Consumer>>,
    until: Instant,
    returns: &mut Returns,
) -> Result<Channel, Failure> {
    if let Some(leased) = leased.as_ref().filter(|leased| leased.channel.status().connected()) {
        return Ok(leased.channel.clone());
    }
    *returns = Returns::default();
    way.lock().channel = None;
    let opened = open(link, until, replies).await?;
    let channel = opened.channel.clone();
    way.lock().channel = Some(channel.clone());
    *leased = Some(opened);
    Ok(channel)
}

async fn open(link: &Link, until: Instant, replies: Option<&mpsc::Sender<Consumer>>) -> Result<Leased, Failure> {
    let opening = async {
        let leased = link.channel().await?;
        let selecting = leased.channel.confirm_select(ConfirmSelectOptions::default());
        within(link.deadline(), "confirm.select", selecting).await?;
        if let Some(replies) = replies {
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let none = FieldTable::default();
            let consuming = leased.channel.basic_consume(reply_to::QUEUE.into(), "".into(), options, none);
            let consumer = within(link.deadline(), "basic.consume", consuming).await?;
            // There may be no receiver of replies any more.
            let _ = replies.try_send(consumer);
        }
        Ok(leased)
    };
    match tokio::time::timeout_at(until, pin!(opening)).await {
        Ok(opened) => opened,
        Err(_) => Err(Failure::new(ErrorKind::CommunicationProblem, "no connection in time")),
    }
}

async fn publish(channel: Channel, publication: Publication) -> lapin::Result<Confirmation> {
    let Publication { exchange, key, route, properties, payload } = publication;
    let options = BasicPublishOptions { mandatory: route == Route::Mandatory, immediate: false };
    channel.basic_publish(exchange, key, options, &payload, properties).await?.await
}
