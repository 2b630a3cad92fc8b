//! The task of a publisher: it opens the channel, publishes what the senders could not, and reports the confirms.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
};

use consign_core::transport::ErrorKind;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    Channel,
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
    reply::Newest,
    reply_to,
};

type Opening = Pin<Box<dyn Future<Output = Result<Leased, Failure>> + Send>>;

/// What the task knows of its messages.
struct Task {
    link: Arc<Link>,
    lane: Arc<Lane>,
    leased: Option<Leased>,
    /// The channel before, on which the broker has not confirmed in time, while others are in flight on it.
    left: Option<(u64, Leased)>,
    in_flight: FuturesUnordered<Published>,
    returns: Returns,
    /// The first of the commands that wait for the channel.
    waiting: Option<Command>,
    /// For the first deadline of those in flight and of the one that waits.
    alarm: Alarm,
}

pub(super) async fn run(
    link: Arc<Link>,
    mut commands: mpsc::Receiver<Command>,
    lane: Arc<Lane>,
    replies: Option<Arc<Newest>>,
) {
    let bound = link.options.sends_in_flight;
    let (in_flight, returns, alarm) = (FuturesUnordered::new(), Returns::default(), Alarm::new());
    let mut task = Task { link, lane, leased: None, left: None, in_flight, returns, waiting: None, alarm };
    let mut opening: Option<Opening> = None;
    loop {
        let has_room = task.waiting.is_none() && task.in_flight.len() < bound;
        tokio::select! {
            biased;
            Some(confirmed) = task.in_flight.next() => task.answer(confirmed),
            () = task.lane.published.notified() => task.take_published(),
            opened = async { match &mut opening { Some(opening) => opening.await, None => pending().await } } => {
                opening = None;
                task.opened(opened);
            }
            () = poll_fn(|cx| task.alarm.poll(cx)) => task.expire(),
            command = commands.recv(), if has_room => {
                let Some(command) = command else { break };
                if let Some(channel) = task.channel() {
                    task.publish(channel, command);
                } else {
                    task.wait(command);
                    // Another command may have begun it, and waits no longer.
                    opening.get_or_insert_with(|| Box::pin(open(Arc::clone(&task.link), replies.clone())));
                }
            }
        }
    }
    task.take_published();
    while !task.in_flight.is_empty() {
        tokio::select! {
            biased;
            Some(confirmed) = task.in_flight.next() => task.answer(confirmed),
            () = poll_fn(|cx| task.alarm.poll(cx)) => task.expire(),
        }
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
        self.close_left();
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

    /// Fails those that are late, and leaves a channel on which the broker does not confirm.
    fn expire(&mut self) {
        let now = Instant::now();
        if let Some(command) = self.waiting.take_if(|command| command.until <= now) {
            let failure = Failure::new(ErrorKind::CommunicationProblem, "no connection in time");
            self.refuse(command, failure);
        }
        if self.in_flight.iter().any(|published| published.until <= now) {
            self.fail_late(now);
        }
        let untils = self.in_flight.iter().map(|published| published.until);
        let next = untils.chain(self.waiting.as_ref().map(|command| command.until)).min();
        self.alarm.set(next);
        self.close_left();
    }

    fn fail_late(&mut self, now: Instant) {
        let (deadline, blocked) = (self.link.deadline(), self.link.blocked());
        let mut late = Vec::new();
        for published in std::mem::take(&mut self.in_flight) {
            if published.until > now {
                self.in_flight.push(published);
            } else {
                late.push(published);
            }
        }
        let mut way = self.lane.way.lock();
        way.in_flight -= late.len();
        let is_stuck = late.iter().any(|published| published.name.channel == way.number);
        drop(way);
        for done in late.into_iter().filter_map(|published| published.done) {
            let _ = done.send(Err(Failure::late("a confirm", deadline).because(blocked.clone())));
        }
        if is_stuck {
            self.leave();
        }
    }

    /// Has the next message open another channel. The present one is closed after its messages: it may be one queue that is
    /// stuck, and others confirm.
    fn leave(&mut self) {
        if self.link.is_wrapped() {
            return;
        }
        self.take_published();
        let mut way = self.lane.way.lock();
        way.channel = None;
        let number = way.number;
        drop(way);
        if let Some(leased) = self.leased.take()
            && let Some((_, before)) = self.left.replace((number, leased))
        {
            self.close(before);
        }
    }

    fn close_left(&mut self) {
        let in_flight = &self.in_flight;
        let is_over = |number: u64| in_flight.iter().all(|published| published.name.channel != number);
        if let Some((_, leased)) = self.left.take_if(|(number, _)| is_over(*number)) {
            self.close(leased);
        }
    }

    fn close(&self, leased: Leased) {
        let deadline = self.link.deadline();
        tokio::spawn(async move { leased.close(deadline).await });
    }

    /// Returns the channel and its number, if it works.
    fn channel(&self) -> Option<(u64, Arc<Channel>)> {
        let way = self.lane.way.lock();
        let channel = way.channel.clone().filter(|channel| channel.status().connected());
        channel.map(|channel| (way.number, channel))
    }

    fn wait(&mut self, command: Command) {
        self.lane.way.lock().channel = None;
        self.alarm.set(Some(command.until));
        self.waiting = Some(command);
    }

    fn opened(&mut self, opened: Result<Leased, Failure>) {
        match opened {
            Ok(leased) => {
                // Those that were published on the previous channel.
                self.take_published();
                let channel = Arc::new(leased.channel.clone());
                let mut way = self.lane.way.lock();
                way.channel = Some(Arc::clone(&channel));
                way.number += 1;
                let number = way.number;
                drop(way);
                let first = self.in_flight.iter().map(|published| published.name.channel).min();
                self.returns.forget_before(first.unwrap_or(number));
                self.leased = Some(leased);
                if let Some(command) = self.waiting.take() {
                    self.publish((number, channel), command);
                }
            }
            Err(failure) => {
                if let Some(command) = self.waiting.take() {
                    self.refuse(command, failure);
                }
            }
        }
    }

    fn publish(&mut self, channel: (u64, Arc<Channel>), command: Command) {
        if command.done.is_closed() || command.until <= Instant::now() {
            let late = Failure::late("a send", self.link.deadline()).because(self.link.blocked());
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

async fn open(link: Arc<Link>, replies: Option<Arc<Newest>>) -> Result<Leased, Failure> {
    let leased = link.channel().await?;
    let selecting = leased.channel.confirm_select(ConfirmSelectOptions::default());
    leased.within(link.deadline(), "confirm.select", selecting).await?;
    if let Some(replies) = replies {
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let none = FieldTable::default();
        let consuming = leased.channel.basic_consume(reply_to::QUEUE.into(), "".into(), options, none);
        let consumer = leased.within(link.deadline(), "basic.consume", consuming).await?;
        replies.put(consumer);
    }
    Ok(leased)
}
