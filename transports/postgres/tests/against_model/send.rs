//! Messages are sent, scheduled and cancelled.

use std::time::Duration;

use consign::{
    Message,
    message::{PropertyValue, SequenceNumber},
    time::Timestamp,
    transport::{Batch, SendError, Sender},
};

use crate::{
    driver::{Driver, QUEUES},
    model::Content,
};

impl Driver {
    pub(crate) fn content(&mut self, at: usize) -> Content {
        self.next_body += 1;
        let mut content = Content { body: self.next_body.to_string(), ..Content::default() };
        if self.one_in(3) {
            content.id = Some(format!("own {}", self.next_body));
        }
        if self.rng.u32(0..20) < if QUEUES[at] == "talks" { 19 } else { 2 } {
            content.session = Some(format!("s{}", self.rng.u32(0..4)));
        }
        content.subject = self.one_in(4).then(|| "calm".into());
        if self.one_in(3) {
            content.application.insert("n".into(), PropertyValue::I64(self.rng.i64(0..10)));
        }
        content
    }

    async fn send_content(&mut self, change: impl FnOnce(&mut Self, &mut Content)) {
        let at = self.any_queue();
        let mut content = self.content(at);
        change(self, &mut content);
        let sent = self.postgres.sender(QUEUES[at]).await.unwrap().send(message(&content)).await;
        let expected = self.model.send(self.entities[at], vec![content], None);
        assert_eq!(sent.map_err(|error| error.kind()), expected.map(drop).map_err(|refused| refused.kind));
    }

    pub(crate) async fn send(&mut self) {
        self.send_content(|_, _| {}).await;
    }

    pub(crate) async fn send_with_ttl(&mut self) {
        self.send_content(|driver, content| content.ttl = Some(driver.rng.u64(1..40_000))).await;
    }

    pub(crate) async fn send_known_id(&mut self) {
        self.send_content(|driver, content| content.id = Some(format!("id {}", driver.rng.u32(0..8)))).await;
    }

    pub(crate) async fn send_scheduled(&mut self) {
        self.send_content(|driver, content| content.at = Some(driver.any_time())).await;
    }

    fn any_time(&mut self) -> i64 {
        self.model.utc + self.rng.i64(-1_000..30_000)
    }

    fn batch(&mut self, at: usize) -> Vec<Content> {
        let count = if self.one_in(8) { 40 } else { self.rng.usize(1..6) };
        let mut batch: Vec<_> = (0..count).map(|_| self.content(at)).collect();
        for content in &mut batch {
            if self.one_in(4) {
                content.id = Some(format!("id {}", self.rng.u32(0..8)));
            }
            if self.one_in(8) {
                content.ttl = Some(self.rng.u64(1..40_000));
            }
            if self.one_in(16) {
                content.at = Some(self.any_time());
            }
        }
        batch
    }

    pub(crate) async fn send_batch(&mut self) {
        let at = self.any_queue();
        let batch = self.batch(at);
        let messages = batch.iter().map(message).collect::<Batch>();
        let sent = self.postgres.sender(QUEUES[at]).await.unwrap().send_batch(messages).await;
        let expected = self.model.send(self.entities[at], batch, None);
        assert_eq!(sent.map_err(|error| error.kind()), expected.map(drop).map_err(|refused| refused.kind));
    }

    pub(crate) async fn schedule(&mut self) {
        let target = self.any_queue();
        let contents = self.batch(target);
        let at = self.any_time();
        let messages = contents.iter().map(message).collect();
        let sender = self.postgres.sender(QUEUES[target]).await.unwrap();
        let numbers = sender.schedule(messages, Timestamp::from_millis(at)).await;
        let numbers = numbers.map(|numbers| numbers.into_iter().map(SequenceNumber::get).collect::<Vec<_>>());
        let expected = self.model.send(self.entities[target], contents, Some(at));
        assert_eq!(numbers.as_ref().map_err(SendError::kind), expected.as_ref().map_err(|refused| refused.kind));
        self.scheduled.extend(numbers.into_iter().flatten().map(|number| (target, number)));
    }

    pub(crate) async fn cancel(&mut self) {
        if self.scheduled.is_empty() {
            return;
        }
        let first = self.scheduled.len().saturating_sub(6);
        let (target, number) = self.scheduled.swap_remove(self.rng.usize(first..self.scheduled.len()));
        let numbers = [number];
        let sender = self.postgres.sender(QUEUES[target]).await.unwrap();
        let cancelled = sender.cancel_scheduled(&numbers.map(SequenceNumber::new)).await;
        let expected = self.model.cancel(self.entities[target], &numbers);
        assert_eq!(cancelled.map_err(|error| error.kind()), expected);
    }
}

fn message(content: &Content) -> Message {
    let Content { body, id, session, subject, ttl, at, application, .. } = content.clone();
    let mut message = Message::new(body);
    let properties = message.properties_mut();
    if let Some(id) = id {
        properties.set_message_id(id).unwrap();
    }
    if let Some(session) = session {
        properties.set_session_id(session).unwrap();
    }
    if let Some(subject) = subject {
        properties.set_subject(subject);
    }
    if let Some(ttl) = ttl {
        properties.set_time_to_live(Duration::from_millis(ttl)).unwrap();
    }
    if let Some(at) = at {
        properties.set_scheduled_enqueue_time(Timestamp::from_millis(at));
    }
    *properties.application_properties_mut() = application.into_iter().collect();
    message
}
