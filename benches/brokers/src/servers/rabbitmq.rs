use futures_util::{StreamExt, future::try_join_all};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
        ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};

use super::variable;
use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, Unexpected, body, body_of},
    exchange::{Left, exchange},
    processes::port_of,
};

/// A quorum queue of RabbitMQ by lapin: persistent messages, each with a confirm. Completions of a window are one `ack`
/// for all of them, which RabbitMQ does not answer.
struct RabbitMq {
    connection: Connection,
    sends: Channel,
    receives: Channel,
    consumer: Option<Consumer>,
    queue: String,
    port: Option<u16>,
    body: Vec<u8>,
}

const PERSISTENT: u8 = 2;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let address = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
        let connection = Connection::connect(&address, ConnectionProperties::default()).await?;
        let (sends, receives) = (connection.create_channel().await?, connection.create_channel().await?);
        sends.confirm_select(ConfirmSelectOptions::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        sends.queue_declare(place.name.into(), options, arguments).await?;
        let settings = "quorum queue of one member, persistent, confirms, one ack for a window".into();
        let queue = place.name.to_owned();
        let port = port_of(&address);
        let contestant = RabbitMq { connection, sends, receives, consumer: None, queue, port, body: body() };
        Ok(Entered { contestant: Box::new(contestant), settings })
    })
}

impl RabbitMq {
    async fn send_one(&self) -> Result<(), Error> {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let publish = self.sends.basic_publish("".into(), self.queue.as_str().into(), options, &self.body, properties);
        match publish.await?.await? {
            Confirmation::Ack(None) => Ok(()),
            _ => Err(Unexpected("a message was not confirmed").into()),
        }
    }
}

impl Contestant for RabbitMq {
    fn resize(&mut self, size: usize) {
        self.body = body_of(size);
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    /// Each receiver has a channel, on which one message is unsettled.
    fn exchange(&mut self, tasks: usize, messages: usize) -> Step<'_> {
        Box::pin(async move {
            if let Some(consumer) = self.consumer.take() {
                self.receives.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            }
            let mut receivers = Vec::with_capacity(tasks);
            for _ in 0..tasks {
                let channel = self.connection.create_channel().await?;
                channel.basic_qos(1, BasicQosOptions::default()).await?;
                let options = BasicConsumeOptions::default();
                let consumer =
                    channel.basic_consume(self.queue.as_str().into(), "".into(), options, FieldTable::default());
                receivers.push((consumer.await?, channel));
            }
            let left = Left::new(messages);
            let this = &*self;
            let sending = (0..tasks).map(|nth| async move {
                for _ in (nth..messages).step_by(tasks) {
                    this.send_one().await?;
                }
                Ok::<_, Error>(())
            });
            let receiving = receivers.iter_mut().map(|(consumer, _)| async {
                loop {
                    let delivery = consumer.next().await.ok_or(Unexpected("the consumer has ended"))??;
                    delivery.ack(BasicAckOptions::default()).await?;
                    left.take();
                }
            });
            exchange(sending, receiving, &left).await?;
            for (consumer, channel) in receivers {
                drop(consumer);
                channel.close(200, "".into()).await?;
            }
            Ok(())
        })
    }

    fn prepare(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            if let Some(consumer) = self.consumer.take() {
                self.receives.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            }
            self.receives.basic_qos(u16::try_from(window)?, BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            let consumer =
                self.receives.basic_consume(self.queue.as_str().into(), "".into(), options, FieldTable::default());
            self.consumer = Some(consumer.await?);
            Ok(())
        })
    }

    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            try_join_all((0..window).map(|_| self.send_one())).await?;
            Ok(())
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let consumer = self.consumer.as_mut().ok_or(Unexpected("there is no consumer"))?;
            let mut last = None;
            for _ in 0..window {
                last = Some(consumer.next().await.ok_or(Unexpected("the consumer has ended"))??);
            }
            if let Some(last) = last {
                last.ack(BasicAckOptions { multiple: true }).await?;
            }
            Ok(())
        })
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move {
            self.sends.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default()).await?;
            Ok(self.connection.close(200, "".into()).await?)
        })
    }
}
