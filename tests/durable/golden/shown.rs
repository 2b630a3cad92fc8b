//! All that the public API shows of a broker, as lines.

use std::fmt::Write;

use consign::{
    Message,
    administration::{Counts, EntityKind, QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue, Subscription, Topic},
    message::SequenceNumber,
    rules::{CorrelationFilter, Filter},
};

const FIRST: SequenceNumber = SequenceNumber::new(0);

pub(super) fn shown(broker: &Broker) -> String {
    let mut out = String::new();
    for entity in broker.entities() {
        let path = entity.path.as_str();
        writeln!(out, "\n{:?} {path}", entity.kind).unwrap();
        match entity.kind {
            EntityKind::Topic => topic(&mut out, &broker.topic(path).unwrap()),
            EntityKind::Subscription => {
                let (of, name) = entity.path.subscription().unwrap();
                subscription(&mut out, &broker.topic(of).unwrap().subscription(name).unwrap());
            }
            EntityKind::Queue => {
                let of = broker.queue(path).unwrap();
                queue_settings(&mut out, &of.settings().unwrap());
                queue(&mut out, &of);
            }
        }
    }
    out
}

fn queue_settings(out: &mut String, it: &QueueSettings) {
    let (lock, count, ttl, dead) =
        (it.lock_duration, it.max_delivery_count, it.default_time_to_live, it.dead_letter_on_expiration);
    writeln!(out, "  lock {lock:?}, {count} deliveries, lives {ttl:?}, expires to dead letters {dead}").unwrap();
    let (size, message, sessions) = (it.max_size, it.max_message_size, it.requires_session);
    writeln!(out, "  {size} bytes, {message} each, sessions {sessions}, partitioned {}", it.partitioned).unwrap();
    let (window, ids) = (it.duplicate_detection, it.max_duplicate_ids);
    writeln!(out, "  ids {window:?}, {ids} of them").unwrap();
    rest(out, it.forward_to.as_deref(), it.forward_dead_letters_to.as_deref());
    writeln!(out, "  {:?}, idle {:?}", it.status, it.auto_delete_on_idle).unwrap();
}

fn rest(out: &mut String, to: Option<&str>, dead: Option<&str>) {
    writeln!(out, "  forwards to {to:?}, dead letters to {dead:?}").unwrap();
}

fn topic_settings(out: &mut String, it: &TopicSettings) {
    let (ttl, size, message) = (it.default_time_to_live, it.max_size, it.max_message_size);
    writeln!(out, "  lives {ttl:?}, {size} bytes, {message} each, partitioned {}", it.partitioned).unwrap();
    let (window, ids) = (it.duplicate_detection, it.max_duplicate_ids);
    writeln!(out, "  ids {window:?}, {ids} of them, {:?}, idle {:?}", it.status, it.auto_delete_on_idle).unwrap();
}

fn subscription_settings(out: &mut String, it: &SubscriptionSettings) {
    let (lock, count, ttl, dead) =
        (it.lock_duration, it.max_delivery_count, it.default_time_to_live, it.dead_letter_on_expiration);
    writeln!(out, "  lock {lock:?}, {count} deliveries, lives {ttl:?}, expires to dead letters {dead}").unwrap();
    writeln!(out, "  fails to dead letters {}, sessions {}", it.dead_letter_on_filter_error, it.requires_session)
        .unwrap();
    rest(out, it.forward_to.as_deref(), it.forward_dead_letters_to.as_deref());
    writeln!(out, "  {:?}, idle {:?}", it.status, it.auto_delete_on_idle).unwrap();
}

fn counts(out: &mut String, it: Counts) {
    let Counts { active, locked, deferred, scheduled, dead_lettered, transfer_dead_lettered, size, .. } = it;
    write!(out, "  {active} active, {locked} locked, {deferred} deferred, {scheduled} scheduled, ").unwrap();
    writeln!(out, "{dead_lettered} dead, {transfer_dead_lettered} not transferred, {size} bytes").unwrap();
}

fn topic(out: &mut String, topic: &Topic) {
    topic_settings(out, &topic.settings().unwrap());
    writeln!(out, "  subscriptions {:?}", topic.subscriptions()).unwrap();
    counts(out, topic.counts());
    for message in topic.peek(FIRST, 1_000) {
        scheduled(out, &message);
    }
    messages(out, &topic.transfer_dead_letter());
}

/// What waits at a topic is not exported.
fn scheduled(out: &mut String, message: &Message) {
    let received = message.received().unwrap();
    let (number, state, at) = (received.sequence_number, received.state, message.scheduled_enqueue_time());
    let text = message.payload().map(String::from_utf8_lossy);
    writeln!(out, "  {number:?} {state:?} {at:?} session {:?}: {text:?}", message.session_id()).unwrap();
}

fn subscription(out: &mut String, subscription: &Subscription) {
    subscription_settings(out, &subscription.subscription_settings().unwrap());
    for rule in subscription.rules() {
        write!(out, "  rule {}: ", rule.name()).unwrap();
        match rule.filter() {
            Filter::Correlation(filter) => correlation(out, filter),
            Filter::Sql(filter) => writeln!(out, "{filter}").unwrap(),
            other => writeln!(out, "{other:?}").unwrap(),
        }
        if let Some(action) = rule.action() {
            writeln!(out, "    then {action}").unwrap();
        }
    }
    queue(out, subscription.queue());
}

fn correlation(out: &mut String, it: &CorrelationFilter) {
    let of_message = [it.content_type(), it.correlation_id(), it.message_id(), it.subject(), it.reply_to(), it.to()];
    write!(out, "{of_message:?}, sessions {:?}", [it.session_id(), it.reply_to_session_id()]).unwrap();
    for (key, value) in it.properties().iter() {
        write!(out, ", {key} {value:?} {:?}", value.as_str()).unwrap();
    }
    writeln!(out).unwrap();
}

fn queue(out: &mut String, queue: &Queue) {
    counts(out, queue.counts());
    let ages = queue.ages();
    let (active, deferred, dead) = (ages.active, ages.deferred, ages.dead_lettered);
    writeln!(out, "  since {active:?}, deferred {deferred:?}, dead {dead:?}, next {:?}", ages.next_scheduled).unwrap();
    for id in queue.sessions() {
        writeln!(out, "  session {id:?}").unwrap();
    }
    for part in [queue.clone(), queue.dead_letter(), queue.transfer_dead_letter()] {
        messages(out, &part);
    }
}

/// One line of JSON each, with everything that a message has.
fn messages(out: &mut String, queue: &Queue) {
    let mut lines = Vec::new();
    queue.export(&mut lines).unwrap();
    out.push_str(std::str::from_utf8(&lines).unwrap());
}
