//! Questions to the queues that hold settings.

use std::time::Duration;

use consign_core::{message::EntityPath, transport::ErrorKind};
use futures_util::StreamExt;
use lapin::{
    BasicProperties, Consumer,
    message::Delivery,
    options::{
        BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, QueueBindOptions, QueueDeclareOptions,
        QueuePurgeOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Known, answers, queue, subscriptions, text};
use crate::{
    client::Shared,
    error::{Failure, within},
    link::Leased,
};

/// The header with the id of a question. An answer has it too.
const QUESTION: &str = "sb-question";

/// A question that is not answered by then is asked again: RabbitMQ may lose an expired message when it elects a leader.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the first answer of several may take, and the next one.
const SILENCE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(100));

/// A queue for the answers to one question.
struct Question {
    leased: Leased,
    consumer: Consumer,
    properties: BasicProperties,
    deadline: Duration,
}

impl Question {
    async fn open(shared: &Shared, path: &EntityPath, answers: &str) -> Result<Self, Failure> {
        let deadline = shared.link.deadline();
        let leased = shared.link.channel().await?;
        let id = format!("{:016x}", fastrand::u64(..));
        let mut headers = FieldTable::default();
        headers.insert(QUESTION.into(), AMQPValue::LongString(id.as_str().into()));
        // No longer than the name of the dead-letter queue.
        let name = ShortString::from(format!("{path}/$ask-{}", &id[..10]));
        let opening = async {
            let channel = &leased.channel;
            let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(name.clone(), options, FieldTable::default()).await?;
            let mut binding = headers.clone();
            binding.insert("x-match".into(), AMQPValue::LongString("all".into()));
            let none = ShortString::default();
            channel.queue_bind(name.clone(), answers.into(), none, QueueBindOptions::default(), binding).await?;
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            channel.basic_consume(name, "".into(), options, FieldTable::default()).await
        };
        match within(deadline, "the settings of an entity", opening).await {
            Ok(consumer) => {
                let properties = BasicProperties::default().with_headers(headers);
                Ok(Self { leased, consumer, properties, deadline })
            }
            Err(failure) => {
                leased.close(deadline).await;
                Err(failure)
            }
        }
    }

    async fn ask(&self, exchange: &str, key: &str) -> Result<(), Failure> {
        let (options, properties) = (BasicPublishOptions::default(), self.properties.clone());
        let asking = async {
            self.leased.channel.basic_publish(exchange.into(), key.into(), options, &[], properties).await.map(drop)
        };
        within(self.deadline, "basic.publish", asking).await
    }

    /// Removes the questions that a queue of settings has. RabbitMQ 3.10 stores one without its time to live if the queue elects its
    /// first leader meanwhile, and none behind it expires either. Other processes ask again too.
    async fn purge(&self, path: &EntityPath) -> Result<(), Failure> {
        let purging = self.leased.channel.queue_purge(queue(path).into(), QueuePurgeOptions::default());
        within(self.deadline, "queue.purge", purging).await.map(drop)
    }

    async fn next(&mut self) -> Result<Delivery, Failure> {
        match self.consumer.next().await {
            Some(answer) => Ok(answer?),
            None => Err(Failure::new(ErrorKind::CommunicationProblem, "the channel has closed")),
        }
    }

    /// Ends the subscription, and with it the queue.
    async fn close(self) {
        let tag = self.consumer.tag();
        let cancelling = self.leased.channel.basic_cancel(tag, BasicCancelOptions::default());
        let _ = within(self.deadline, "basic.cancel", cancelling).await;
        self.leased.close(self.deadline).await;
    }
}

/// Reads the settings of an entity whose queue of settings exists; `None` if it is deleted meanwhile.
pub(super) async fn one(shared: &Shared, path: &EntityPath) -> Result<Option<Known>, Failure> {
    let mut question = match Question::open(shared, path, &answers(path)).await {
        Ok(question) => question,
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let until = Instant::now() + shared.link.deadline();
    let answer = loop {
        if let Err(failure) = question.ask("", &queue(path)).await {
            break Err(failure);
        }
        let wait = until.min(Instant::now() + AGAIN);
        match timeout_at(wait, question.next()).await {
            Ok(answer) => break answer,
            Err(_) if wait < until => {
                if let Err(failure) = question.purge(path).await {
                    break Err(failure);
                }
            }
            Err(_) => break Err(Failure::late("the settings of an entity", shared.link.deadline())),
        }
    };
    question.close().await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    text::read(answer.routing_key.as_str()).map(Some).ok_or_else(unreadable)
}

fn unreadable() -> Failure {
    Failure::new(ErrorKind::NotSupported, "the settings of the entity were stored by a later version")
}

/// Returns subscriptions of a topic. One that was created a moment ago may not be among them.
pub(super) async fn several(shared: &Shared, topic: &EntityPath) -> Result<Vec<(EntityPath, Known)>, Failure> {
    let mut question = match Question::open(shared, topic, &answers(topic)).await {
        Ok(question) => question,
        Err(failure) if failure.kind() == ErrorKind::EntityNotFound => return Ok(Vec::new()),
        Err(failure) => return Err(failure),
    };
    let mut all = Vec::new();
    let collecting = async {
        question.ask(&subscriptions(topic), "").await?;
        let mut silence = SILENCE.0;
        while let Ok(answer) = timeout(silence, question.next()).await {
            let answer = answer?;
            let known = text::read(answer.routing_key.as_str()).ok_or_else(unreadable)?;
            all.extend(asked(&answer.properties).map(|path| (path, known)));
            silence = SILENCE.1;
        }
        Ok(())
    };
    let collected = collecting.await;
    question.close().await;
    collected.map(|()| all)
}

/// The entity whose queue of settings has answered: RabbitMQ writes the queue into `x-first-death-queue`.
fn asked(answer: &BasicProperties) -> Option<EntityPath> {
    let AMQPValue::LongString(name) = answer.headers().as_ref()?.inner().get("x-first-death-queue")? else {
        return None;
    };
    let name = str::from_utf8(name.as_bytes()).ok()?;
    EntityPath::new(name.strip_suffix(super::SUFFIX)?).ok()
}
