//! The task of a publisher: it opens the channel, publishes what the senders could not, and reports the confirms.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
};

use consign_core::transport::ErrorKind;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    Channel, Consumer,
    options::{BasicConsumeOptions, ConfirmSelectOptions},
    types::FieldTable,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Command, Lane, Published,
    returns::{Confirmed, Returns},
};
use crate::{
    alarm::Alarm,
    error::Failure,
    link::{Leased, Link},
    reply_to,
};

type Opening = Pin<Box<dyn Future<Output = Result<Leased, Failure>> + Send>>;

/// What the task knows of its messages.
struct Task {
    link: Arc<Link>,
    lane: Arc<Lane>,
    leased: Option<Leased>,
    in_flight: FuturesUnordered<Published>,
    returns: Returns,
    /// For the first deadline of those in flight.
    alarm: Alarm,
}

pub(super) async fn run(
    link: Arc<Link>,
    mut commands: mpsc::Receiver<Command>,
    lane: Arc<Lane>,
    replies: Option<mpsc::Sender<Consumer>>,
) {
    let bound = link.options.sends_in_flight;
    let (leased, in_flight, returns) = (None, FuturesUnordered::new(), Returns::default());
    let mut task = Task { link, lane, leased, in_flight, returns, alarm: Alarm::new() };
    // The channel that the first of the commands waits for.
    let mut opening: Option<(Opening, Command)> = None;
    loop {
        let has_room = opening.is_none() && task.in_flight.len() < bound;
        tokio::select! {
            biased;
            Some(confirmed) = task.in_flight.next() => task.answer(confirmed),
            () = task.lane.published.notified() => task.take_published(),
            opened = async { match &mut opening { Some((opening, _)) => opening.await, None => pending().await } } => {
                let Some((_, command)) = opening.take() else { continue };
                task.opened(opened, command);
            }
            () = poll_fn(|cx| task.alarm.poll(cx)) => task.expire(),
            command = commands.recv(), if has_room => {
                let Some(command) = command else { break };
                match task.channel() {
                    Some(channel) => task.publish(channel, command),
                    None => opening = Some((task.open(&command, replies.clone()), command)),
                }
            }
        }
    }
    task.take_published();
    while let Some(confirmed) = task.in_flight.next().await {
        task.answer(confirmed);
    }
    if let Some(leased) = task.leased {
        leased.close(task.link.deadline()).await;
    }
}

impl Task {
    /// Answers a message and all whose result is there too. lapin gives a returned message to whichever confirm of one
    /// acknowledgement it resolves first. So all arrived results are collected before any is answered.
    fn answer(&mut self, first: Confirmed) {
        let mut confirmed = vec![first];
        // What was published before they arrived may be among them.
        self.take_published();
        while let Some(Some(next)) = self.in_flight.next().now_or_never() {
            confirmed.push(next);
        }
        self.lane.way.lock().in_flight -= confirmed.len();
        self.returns.answer(confirmed);
    }

    /// Takes the messages that senders have published.
    fn take_published(&mut self) {
        let published = std::mem::take(&mut self.lane.way.lock().published);
        for one in published {
            self.track(one);
        }
    }

    fn track(&mut self, published: Published) {
        self.alarm.set(Some(published.until));
        self.in_flight.push(published);
    }

    /// Fails those whose confirm is late. They are in flight until it arrives.
    fn expire(&mut self) {
        let now = Instant::now();
        let deadline = self.link.deadline();
        let mut next: Option<Instant> = None;
        for published in self.in_flight.iter_mut().filter(|published| published.done.is_some()) {
            if published.until > now {
                next = Some(next.map_or(published.until, |next| next.min(published.until)));
            } else if let Some(done) = published.done.take() {
                let _ = done.send(Err(Failure::late("a confirm", deadline)));
            }
        }
        self.alarm.set(next);
    }

    /// Returns the channel, if it works.
    fn channel(&self) -> Option<Arc<Channel>> {
        let channel = self.lane.way.lock().channel.clone();
        channel.filter(|channel| channel.status().connected())
    }

    fn open(&self, command: &Command, replies: Option<mpsc::Sender<Consumer>>) -> Opening {
        self.lane.way.lock().channel = None;
        Box::pin(open(Arc::clone(&self.link), command.until, replies))
    }

    fn opened(&mut self, opened: Result<Leased, Failure>, command: Command) {
        match opened {
            Ok(leased) => {
                // Those that were published on the previous channel.
                self.take_published();
                self.returns = Returns::default();
                let channel = Arc::new(leased.channel.clone());
                self.lane.way.lock().channel = Some(Arc::clone(&channel));
                self.leased = Some(leased);
                self.publish(channel, command);
            }
            Err(failure) => self.refuse(command, failure),
        }
    }

    fn publish(&mut self, channel: Arc<Channel>, command: Command) {
        if command.done.is_closed() || command.until <= Instant::now() {
            let late = Failure::late("a send", self.link.deadline());
            return self.refuse(command, late);
        }
        let Command { publication, until, done } = command;
        let lane = Arc::clone(&self.lane);
        let mut way = lane.way.lock();
        let published = Published::new(channel, *publication, until, done);
        way.queued -= 1;
        drop(way);
        self.track(published);
    }

    /// Fails a message that is not published.
    fn refuse(&self, command: Command, failure: Failure) {
        let mut way = self.lane.way.lock();
        way.queued -= 1;
        way.in_flight -= 1;
        drop(way);
        let _ = command.done.send(Err(failure));
    }
}

async fn open(link: Arc<Link>, until: Instant, replies: Option<mpsc::Sender<Consumer>>) -> Result<Leased, Failure> {
    let opening = async {
        let leased = link.channel().await?;
        let selecting = leased.channel.confirm_select(ConfirmSelectOptions::default());
        leased.within(link.deadline(), "confirm.select", selecting).await?;
        if let Some(replies) = replies {
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let none = FieldTable::default();
            let consuming = leased.channel.basic_consume(reply_to::QUEUE.into(), "".into(), options, none);
            let consumer = leased.within(link.deadline(), "basic.consume", consuming).await?;
            // There may be no receiver of replies any more.
            let _ = replies.try_send(consumer);
        }
        Ok(leased)
    };
    match tokio::time::timeout_at(until, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(Failure::new(ErrorKind::CommunicationProblem, "no connection in time")),
    }
}
