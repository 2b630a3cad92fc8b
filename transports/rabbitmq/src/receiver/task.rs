//! The task that owns a receiver's channel: it subscribes, expires locks, and does settlements of more than one step.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
};

use bytes::Bytes;
use consign_core::transport::{ErrorKind, SettleError};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    Consumer,
    message::Delivery,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use tokio::time::Instant;

use super::{
    delivered::{Origin, Ticket},
    job::Job,
    settle,
    settling::lost,
    state::{Shared, State, Subscription},
};
use crate::{alarm::Alarm, cancels::Turn, error::Failure, link::Leased, wire};

/// After how many timeouts without a message a receiver opens another channel.
const QUIET: u32 = 20;

/// The operation in progress on the channel. No other begins before it ends.
type Step = Pin<Box<dyn Future<Output = Stepped> + Send>>;

enum Stepped {
    /// No queue is being deleted, so the subscription may be cancelled.
    MayCancel(Turn),
    Subscribed(Box<Subscription>),
    /// A subscription ended, and these messages had arrived.
    Ended {
        origin: Arc<Origin>,
        deliveries: Vec<Delivery>,
    },
    Restored,
    /// The channel is closed. A receive waits.
    Closed,
    Failed(Failure),
}

pub(super) async fn run(shared: Arc<Shared>) {
    let _gone = Gone(Arc::clone(&shared));
    let deadline = shared.client.link.deadline();
    let mut jobs = FuturesUnordered::<Pin<Box<dyn Future<Output = ()> + Send>>>::new();
    let mut alarm = Alarm::new();
    let mut step: Option<Step> = None;
    let mut leased: Option<Leased> = None;
    let mut turn: Option<Turn> = None;
    let (linger, quiet) = (shared.client.link.options.linger, deadline * QUIET);
    loop {
        let now = Instant::now();
        let (completions, stopped) = {
            let mut state = shared.state();
            state.end_locks(now);
            for job in state.jobs.drain(..) {
                jobs.push(Box::pin(settle::run(job, Arc::clone(&shared))));
            }
            if step.is_none() {
                let may_close = jobs.is_empty() && leased.as_ref().is_some_and(Leased::is_owned);
                let is_quiet = state.is_quiet_for(quiet, now, may_close);
                step = next_step(&shared, &mut state, leased.as_ref(), turn.take(), (now, is_quiet));
            }
            state.is_stepping = step.is_some();
            if state.is_done() && jobs.is_empty() && step.is_none() {
                break;
            }
            state.wakes_at = alarm.set(state.wake_at(linger, quiet));
            (std::mem::take(&mut state.completions), state.take_stopped())
        };
        for gathered in completions {
            let mut writing = Box::pin(gathered.write(deadline));
            if writing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                jobs.push(writing);
            }
        }
        if let Some(stopped) = stopped {
            stopped.wake();
        }
        tokio::select! {
            () = shared.changed.notified() => {}
            Some(()) = jobs.next(), if !jobs.is_empty() => {}
            stepped = async { match &mut step { Some(step) => step.await, None => pending().await } } => {
                step = None;
                arrive(&shared, &mut leased, &mut turn, stepped);
            }
            () = poll_fn(|cx| alarm.poll(cx)) => {}
        }
    }
    if let Some(leased) = leased {
        leased.close(deadline).await;
    }
}

/// Fails what a task that is dropped has not done.
struct Gone(Arc<Shared>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.go();
    }
}

/// Returns the next operation on the channel, if there is one.
fn next_step(
    shared: &Arc<Shared>,
    state: &mut State,
    leased: Option<&Leased>,
    turn: Option<Turn>,
    (now, is_quiet): (Instant, bool),
) -> Option<Step> {
    if let Some(leased) = leased.filter(|_| !state.restores.is_empty()) {
        // Messages that arrive by a subscription meanwhile are not in order either.
        let subscription = match take_subscription(state, turn) {
            Ok(subscription) => subscription,
            Err(waiting) => return Some(waiting),
        };
        let (jobs, fetched) = state.take_restores();
        return Some(restore(Arc::clone(shared), leased.clone(), subscription, jobs, fetched));
    }
    // Their channel is lost.
    let (jobs, _) = state.take_restores();
    jobs.into_iter().filter_map(|job| job.done).for_each(|done| drop(done.send(Err(lost()))));
    let linger = shared.client.link.options.linger;
    let is_idle = state.is_ended || state.is_stopping || state.idle_since.is_some_and(|since| now >= since + linger);
    if is_idle && state.wanted == 0 {
        state.spare.drain(..).for_each(|(origin, delivery)| give_back(Ticket::new(origin, &delivery)));
        return match take_subscription(state, turn) {
            Err(waiting) => Some(waiting),
            Ok(subscription) => {
                state.idle_since = None;
                state.asked = None;
                subscription.map(|(subscription, turn)| end(shared, subscription, turn))
            }
        };
    }
    if is_quiet {
        return match take_subscription(state, turn) {
            Err(waiting) => Some(waiting),
            Ok(subscription) => subscription.map(|(subscription, turn)| renew(shared, subscription, turn)),
        };
    }
    let credit = state.asked?;
    match take_subscription(state, turn) {
        Ok(None) => {}
        Ok(Some((subscription, turn))) => return Some(end(shared, subscription, turn)),
        Err(waiting) => return Some(waiting),
    }
    if state.failure.is_some() {
        return None;
    }
    // Spare messages were requested too.
    let credit = credit.saturating_sub(state.spare.len());
    state.asked = None;
    if credit == 0 {
        state.wake();
        return None;
    }
    state.subscribing = Some(credit);
    let usable = leased.filter(|leased| leased.is_alive()).cloned();
    Some(subscribe(Arc::clone(shared), usable, credit))
}

/// Takes the subscription to end it, or returns the wait until it may be cancelled: messages arrive by it until then.
fn take_subscription(state: &mut State, turn: Option<Turn>) -> Result<Option<(Subscription, Turn)>, Step> {
    match (state.subscription.take(), turn) {
        (None, _) => Ok(None),
        (Some(subscription), Some(turn)) => Ok(Some((subscription, turn))),
        (Some(subscription), None) => {
            let turn = subscription.subscribed.turn();
            state.subscription = Some(subscription);
            Err(Box::pin(async { Stepped::MayCancel(turn.await) }))
        }
    }
}

fn subscribe(shared: Arc<Shared>, leased: Option<Leased>, credit: usize) -> Step {
    // No two receivers on one channel may have the same.
    let id = shared.client.numbers.next(shared.client.now());
    let subscribed = shared.client.cancels.subscribe(id, shared.source.path.as_str());
    Box::pin(async move {
        match try_subscribe(&shared, leased, credit, id).await {
            Ok((leased, consumer)) => {
                let origin = Arc::new(Origin { subscription: id, leased });
                Stepped::Subscribed(Box::new(Subscription {
                    origin,
                    consumer,
                    subscribed,
                    used: Instant::now(),
                    credit,
                    unsettled: 0,
                }))
            }
            Err(failure) => {
                let failure = failure.explained(shared.client.link.blocked());
                if failure.kind() == ErrorKind::EntityNotFound {
                    shared.client.entities.doubt(&shared.source.path.parent());
                }
                Stepped::Failed(failure)
            }
        }
    })
}

async fn try_subscribe(
    shared: &Shared,
    leased: Option<Leased>,
    credit: usize,
    id: u64,
) -> Result<(Leased, Consumer), Failure> {
    let link = &shared.client.link;
    shared.source.resolve(&shared.client).await?;
    shared.source.check()?;
    let leased = match leased {
        Some(leased) => leased,
        None => link.channel().await?,
    };
    let turn = leased.turn.lock().await;
    let channel = &leased.channel;
    let prefetch = u16::try_from(credit).unwrap_or(u16::MAX);
    let limiting = channel.basic_qos(prefetch, BasicQosOptions { global: false });
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(shared.source.path.as_str().into(), tag(id), options, FieldTable::default());
    // Both are sent before either is answered, in this order.
    let both = async { futures_util::future::try_join(limiting, consuming).await };
    let ((), consumer) = leased.within(link.deadline(), "basic.consume", both).await?;
    drop(turn);
    Ok((leased, consumer))
}

/// Returns a consumer tag. RabbitMQ requeues the messages of several consumers of a lost channel in the order of their tags.
fn tag(id: u64) -> ShortString {
    format!("consign-{id:016x}").into()
}

/// Ends a subscription, and takes the messages that the broker has sent until then.
fn end(shared: &Arc<Shared>, subscription: Subscription, turn: Turn) -> Step {
    let deadline = shared.client.link.deadline();
    let Subscription { origin, mut consumer, subscribed, .. } = subscription;
    Box::pin(async move {
        let mut deliveries = Vec::new();
        let ending = async {
            if !subscribed.is_deleted() {
                return origin.leased.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
            }
            while let Some(delivery) = consumer.next().await {
                deliveries.push(delivery?);
            }
            Ok(())
        };
        if let Err(failure) = origin.leased.within(deadline, "basic.cancel", ending).await {
            return Stepped::Failed(failure);
        }
        drop(turn);
        while let Some(Some(Ok(delivery))) = consumer.next().now_or_never() {
            deliveries.push(delivery);
        }
        Stepped::Ended { origin, deliveries }
    })
}

/// Ends a subscription without messages, and its channel. RabbitMQ may have assigned messages to the consumer that its channel
/// does not know, as after an election of the queue's leader. They return to the queue when the channel is closed, and not before.
fn renew(shared: &Arc<Shared>, subscription: Subscription, turn: Turn) -> Step {
    let deadline = shared.client.link.deadline();
    let leased = subscription.origin.leased.clone();
    let ending = end(shared, subscription, turn);
    Box::pin(async move {
        match ending.await {
            Stepped::Ended { deliveries, .. } if deliveries.is_empty() => {
                leased.close(deadline).await;
                Stepped::Closed
            }
            ended => ended,
        }
    })
}

/// Releases deliveries in the order of their numbers, with those that were released too early.
fn restore(
    shared: Arc<Shared>,
    leased: Leased,
    subscription: Option<(Subscription, Turn)>,
    jobs: Vec<Job>,
    fetched: usize,
) -> Step {
    Box::pin(async move {
        let fetched_from = Arc::new(Origin { subscription: 0, leased: leased.clone() });
        let mut all = Vec::new();
        let mut waiting = Vec::new();
        for Job { held, done, .. } in jobs {
            all.push((held.facts.number, held.ticket));
            waiting.extend(done);
        }
        let result = async {
            if let Some((subscription, turn)) = subscription {
                match end(&shared, subscription, turn).await {
                    Stepped::Ended { origin, deliveries } => {
                        all.extend(deliveries.iter().map(|delivery| numbered(&origin, delivery)));
                    }
                    _ => return Err(lost()),
                }
            }
            for _ in 0..fetched {
                let fetching = leased.channel.basic_get(shared.source.path.as_str().into(), BasicGetOptions::default());
                match leased.within(shared.client.link.deadline(), "basic.get", fetching).await? {
                    Some(message) => all.push(numbered(&fetched_from, &message.delivery)),
                    None => break,
                }
            }
            Ok(())
        };
        let result: Result<(), SettleError> = result.await;
        all.sort_by_key(|(number, _)| *number);
        for (_, ticket) in all {
            give_back(ticket);
        }
        for done in waiting {
            let _ = done.send(if result.is_ok() { Ok(()) } else { Err(lost()) });
        }
        Stepped::Restored
    })
}

fn numbered(origin: &Arc<Origin>, delivery: &Delivery) -> (u64, Ticket) {
    let (_, facts) = wire::read(&delivery.properties, Bytes::new(), drop);
    (facts.number, Ticket::new(Arc::clone(origin), delivery))
}

fn arrive(shared: &Arc<Shared>, leased: &mut Option<Leased>, turn: &mut Option<Turn>, stepped: Stepped) {
    let mut state = shared.state();
    state.subscribing = None;
    match stepped {
        Stepped::Subscribed(subscription) => {
            *leased = Some(subscription.origin.leased.clone());
            state.subscription = Some(*subscription);
            if state.wanted == 0 {
                // The caller has gone.
                state.idle_since.get_or_insert_with(Instant::now);
            }
        }
        Stepped::Ended { origin, deliveries } => {
            let from = || Arc::clone(&origin);
            if state.wanted == 0 {
                for delivery in &deliveries {
                    give_back(Ticket::new(from(), delivery));
                }
            } else {
                state.spare.extend(deliveries.into_iter().map(|delivery| (from(), delivery)));
            }
        }
        Stepped::MayCancel(taken) => *turn = Some(taken),
        Stepped::Restored => {}
        Stepped::Closed => *leased = None,
        Stepped::Failed(failure) => {
            *leased = leased.take().filter(Leased::is_alive);
            // Those of a channel that is closed return to the queue without it.
            state.spare.drain(..).for_each(|(origin, delivery)| give_back(Ticket::new(origin, &delivery)));
            state.asked = None;
            // The next receive gets the error, even if none waited.
            if !state.is_ended {
                state.failure = Some(failure);
            }
        }
    }
    state.wake();
}

/// Releases a message that was not dispatched. The frames are written in the order of the calls, because lapin writes at the
/// first poll. A task does what may be left then.
fn give_back(ticket: Ticket) {
    let mut nack = Box::pin(async move { drop(ticket.nack().await) });
    if nack.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(nack);
    }
}
