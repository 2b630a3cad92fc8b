use std::time::Duration;

use consign::{
    Message,
    broker::QueueSender,
    message::{PropertyValue, SequenceNumber},
    time::Timestamp,
    transport::{Batch, ErrorKind, PresettledSender, SendError, Sender},
};

use super::{
    Driver,
    world::{Kind, Real},
};
use crate::model::Content;

impl Driver {
    /// One of the entities that are sent to.
    pub(super) fn any_target(&mut self) -> Option<usize> {
        self.any_handle(|handle| handle.kind != Kind::Subscription)
    }

    pub(super) fn any_handle(&mut self, wanted: impl Fn(&super::Handle) -> bool) -> Option<usize> {
        let wanted: Vec<usize> = (0..self.handles.len()).filter(|&at| wanted(&self.handles[at])).collect();
        self.rng.choice(wanted)
    }

    pub(super) fn sender(&self, at: usize) -> QueueSender {
        match &self.handles[at].real {
            Real::Queue(queue) => queue.sender().unwrap(),
            Real::Topic(topic) => topic.sender(),
            Real::Subscription(_) => panic!("nothing is sent to a subscription"),
        }
    }

    /// A message as its target likes it, mostly.
    pub(super) fn content(&mut self, at: usize) -> Content {
        self.next_body += 1;
        let mut content = Content { body: self.next_body.to_string(), ..Content::default() };
        if self.world.ids || self.one_in(3) {
            content.id = Some(format!("own {}", self.next_body));
        }
        let id = self.handles[at].entity;
        let wants_session = self.handles[at].kind == Kind::Topic
            || self.model.entities.get(&id).is_some_and(|entity| entity.settings.sessions);
        if self.rng.u32(0..20) < if wants_session { 18 } else { 2 } {
            content.session = Some(format!("s{}", self.rng.u32(0..4)));
            content.key = content.session.clone().filter(|_| self.one_in(4));
        } else if self.one_in(4) {
            content.key = Some(format!("k{}", self.rng.u32(0..4)));
        }
        content.subject = self.one_in(4).then(|| if self.rng.bool() { "urgent".into() } else { "calm".into() });
        if self.one_in(3) {
            content.application.insert("colour".into(), if self.rng.bool() { "red".into() } else { "blue".into() });
        }
        if self.one_in(3) {
            content.application.insert("n".into(), PropertyValue::I64(self.rng.i64(0..10)));
        }
        if self.one_in(6) {
            content.application.insert("d".into(), PropertyValue::I64(self.rng.i64(0..10)));
        }
        content
    }

    fn send_content(&mut self, change: impl FnOnce(&mut Self, &mut Content)) {
        let Some(at) = self.any_target() else { return };
        let mut content = self.content(at);
        change(self, &mut content);
        let sent = self.sender(at).send(message(&content)).wait().map_err(|error| error.kind());
        let expected = self.model.send(self.handles[at].entity, vec![content], None);
        assert_eq!(sent, expected.map(drop).map_err(|refused| refused.kind));
    }

    pub(super) fn send(&mut self) {
        self.send_content(|_, _| {});
    }

    pub(super) fn send_with_ttl(&mut self) {
        self.send_content(|driver, content| content.ttl = Some(driver.rng.u64(1..40_000)));
    }

    pub(super) fn send_known_id(&mut self) {
        self.send_content(|driver, content| content.id = Some(format!("id {}", driver.rng.u32(0..8))));
    }

    pub(super) fn send_scheduled(&mut self) {
        self.send_content(|driver, content| content.at = Some(driver.any_time()));
    }

    pub(super) fn send_large(&mut self) {
        self.send_content(|driver, content| content.body = "x".repeat(driver.rng.usize(0..2_500)));
    }

    /// Mostly a while from now; sometimes a time that has passed.
    pub(super) fn any_time(&mut self) -> i64 {
        self.model.utc + self.rng.i64(-1_000..30_000)
    }

    pub(super) fn batch(&mut self, at: usize) -> Vec<Content> {
        let (count, key) = (self.rng.usize(0..5), self.one_in(2).then(|| format!("s{}", self.rng.u32(0..4))));
        let mut batch: Vec<_> = (0..count).map(|_| self.content(at)).collect();
        for content in &mut batch {
            if self.one_in(4) {
                content.id = Some(format!("id {}", self.rng.u32(0..8)));
            }
            // Most of them for one partition.
            if self.rng.u32(0..10) > 0 {
                (content.session, content.key) = (key.clone(), None);
            }
        }
        batch
    }

    pub(super) fn send_batch(&mut self) {
        let Some(at) = self.any_target() else { return };
        let batch = self.batch(at);
        let messages = batch.iter().map(message).collect::<Batch>();
        let sent = self.sender(at).send_batch(messages).wait().map_err(|error| error.kind());
        let expected = self.model.send(self.handles[at].entity, batch, None);
        assert_eq!(sent, expected.map(drop).map_err(|refused| refused.kind));
    }

    pub(super) fn send_presettled(&mut self) {
        let Some(at) = self.any_target() else { return };
        let content = self.content(at);
        let () = self.sender(at).send_presettled(message(&content)).into_inner();
        let _ = self.model.send(self.handles[at].entity, vec![content], None);
    }

    pub(super) fn send_to_sub_queue(&mut self) {
        let Some(at) = self.any_handle(|handle| handle.kind != Kind::Topic) else { return };
        let queue = self.handles[at].queue().unwrap();
        for sub_queue in [queue.dead_letter(), queue.transfer_dead_letter()] {
            assert_eq!(sub_queue.sender().unwrap_err().kind(), ErrorKind::InvalidOperation);
        }
    }

    pub(super) fn schedule(&mut self) {
        let Some(target) = self.any_target() else { return };
        let contents = vec![self.content(target)];
        self.schedule_all(target, contents);
    }

    pub(super) fn schedule_many(&mut self) {
        let Some(target) = self.any_target() else { return };
        let contents = self.batch(target);
        self.schedule_all(target, contents);
    }

    fn schedule_all(&mut self, target: usize, contents: Vec<Content>) {
        let at = self.any_time();
        let messages = contents.iter().map(message).collect();
        let numbers = self.sender(target).schedule(messages, timestamp(at)).wait();
        let numbers = numbers.map(|numbers| numbers.into_iter().map(SequenceNumber::get).collect::<Vec<_>>());
        let expected = self.model.send(self.handles[target].entity, contents, Some(at));
        assert_eq!(numbers.as_ref().map_err(SendError::kind), expected.as_ref().map_err(|refused| refused.kind));
        self.scheduled.extend(numbers.into_iter().flatten().map(|number| (target, number)));
    }

    pub(super) fn cancel(&mut self) {
        if self.scheduled.is_empty() {
            return;
        }
        // The last are the most likely to be still scheduled.
        let first = self.scheduled.len().saturating_sub(6);
        let (target, number) = self.scheduled.swap_remove(self.rng.usize(first..self.scheduled.len()));
        let mut numbers = vec![number];
        let more = self.scheduled.iter().rposition(|&(of, _)| of == target).filter(|_| self.one_in(3));
        numbers.extend(more.map(|at| self.scheduled.swap_remove(at).1));
        self.cancel_all(target, &numbers);
    }

    pub(super) fn cancel_unknown(&mut self) {
        let Some(target) = self.any_target() else { return };
        let mut numbers = vec![self.rng.u64(0..self.next_body + 2)];
        let own = self.scheduled.iter().rev().find(|&&(of, _)| of == target);
        numbers.extend(own.map(|&(_, number)| number));
        self.cancel_all(target, &numbers);
    }

    fn cancel_all(&mut self, target: usize, numbers: &[u64]) {
        let asked: Vec<_> = numbers.iter().copied().map(SequenceNumber::new).collect();
        let cancelled = self.sender(target).cancel_scheduled(&asked).wait().map_err(|error| error.kind());
        assert_eq!(cancelled, self.model.cancel(self.handles[target].entity, numbers), "{numbers:?}");
    }
}

pub(super) fn message(content: &Content) -> Message {
    let Content { body, id, session, key, via_key, subject, ttl, at, application } = content.clone();
    let mut message = Message::new(body);
    let properties = message.properties_mut();
    if let Some(id) = id {
        properties.set_message_id(id).unwrap();
    }
    if let Some(session) = session {
        properties.set_session_id(session).unwrap();
    }
    if let Some(key) = key {
        properties.set_partition_key(key).unwrap();
    }
    if let Some(key) = via_key {
        properties.set_transaction_partition_key(key).unwrap();
    }
    if let Some(subject) = subject {
        properties.set_subject(subject);
    }
    if let Some(ttl) = ttl {
        properties.set_time_to_live(Duration::from_millis(ttl)).unwrap();
    }
    if let Some(at) = at {
        properties.set_scheduled_enqueue_time(timestamp(at));
    }
    *properties.application_properties_mut() = application.into_iter().collect();
    message
}

pub(super) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}
