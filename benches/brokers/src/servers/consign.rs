use std::time::Duration;

use bytes::Bytes;
use consign::{
    Message,
    transport::{Receiver, ReceiverExt, Sender},
};
use consign_nats::Nats;
use consign_postgres::Postgres;
use consign_rabbitmq::RabbitMq;
use futures_util::future::try_join_all;

use super::{nats, variable};
use crate::{
    contestant::{Contestant, Entered, Error, Place, Step, body, body_of},
    exchange::{Left, exchange},
    processes::port_of,
};

/// A transport of this library. Each message is sent and completed by itself.
struct Consign<S, R> {
    sender: S,
    receiver: R,
    /// Creates further receivers.
    another: Box<dyn Fn() -> Step<'static, R>>,
    port: Option<u16>,
    body: Bytes,
    end: Box<dyn FnOnce() -> Step<'static>>,
}

/// A receiver that waits for longer has lost a message.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) fn enter_rabbitmq(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let address = variable("CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f");
        let broker = RabbitMq::connect(&address).await?;
        broker.create_queue(place.name, consign_rabbitmq::QueueSettings::default()).await?;
        let (sender, receiver, name) =
            (broker.sender(place.name)?, broker.receiver(place.name)?, place.name.to_owned());
        let (more, queue) = (broker.clone(), place.name.to_owned());
        let another = Box::new(move || -> Step<'static, _> {
            let receiver = more.receiver(&queue);
            Box::pin(async move { Ok(receiver?) })
        });
        let end = Box::new(move || -> Step<'static> {
            Box::pin(async move {
                broker.delete(&name).await?;
                broker.close().await?;
                Ok(())
            })
        });
        Ok(entered(sender, receiver, another, &address, "consign-rabbitmq, default options".into(), end))
    })
}

pub(crate) fn enter_nats(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let (server, address, settings) = nats::start(place, false).await?;
        let broker = Nats::connect(&address).await?;
        broker.create_queue(place.name, consign_nats::QueueSettings::default()).await?;
        let (sender, receiver) = (broker.sender(place.name).await?, broker.receiver(place.name).await?);
        let (more, queue) = (broker.clone(), place.name.to_owned());
        let another = Box::new(move || -> Step<'static, _> {
            let (more, queue) = (more.clone(), queue.clone());
            Box::pin(async move { Ok(more.receiver(&queue).await?) })
        });
        let end = Box::new(move || -> Step<'static> {
            Box::pin(async move {
                broker.close().await?;
                drop(server);
                Ok(())
            })
        });
        Ok(entered(sender, receiver, another, &address, format!("consign-nats, default options; {settings}"), end))
    })
}

pub(crate) fn enter_postgres(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let address = variable("CONSIGN_POSTGRES", super::postgres::ADDRESS);
        let broker = Postgres::options().schema(place.name).connect(&address).await?;
        broker.migrate().await?;
        broker.create_queue("bench", consign::administration::QueueSettings::default()).await?;
        let (sender, receiver) = (broker.sender("bench").await?, broker.receiver("bench").await?);
        let more = broker.clone();
        let another = Box::new(move || -> Step<'static, _> {
            let more = more.clone();
            Box::pin(async move { Ok(more.receiver("bench").await?) })
        });
        let drop_schema = format!("DROP SCHEMA {} CASCADE", place.name);
        let end = Box::new(move || -> Step<'static> {
            Box::pin(async move { Ok(broker.pool().get().await?.batch_execute(&drop_schema).await?) })
        });
        Ok(entered(sender, receiver, another, &address, "consign-postgres, default options".into(), end))
    })
}

fn entered<S, R>(
    sender: S,
    receiver: R,
    another: Box<dyn Fn() -> Step<'static, R>>,
    address: &str,
    settings: String,
    end: Box<dyn FnOnce() -> Step<'static>>,
) -> Entered
where
    S: Sender,
    R: Receiver + 'static,
{
    let (port, body) = (port_of(address), body().into());
    Entered { contestant: Box::new(Consign { sender, receiver, another, port, body, end }), settings }
}

impl<S: Sender, R: Receiver + 'static> Contestant for Consign<S, R> {
    fn resize(&mut self, size: usize) {
        self.body = body_of(size).into();
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    fn exchange(&mut self, tasks: usize, messages: usize) -> Step<'_> {
        Box::pin(async move {
            let mut receivers = Vec::with_capacity(tasks);
            for _ in 0..tasks {
                receivers.push((self.another)().await?);
            }
            let left = Left::new(messages);
            let this = &*self;
            let sending = (0..tasks).map(|nth| async move {
                for _ in (nth..messages).step_by(tasks) {
                    this.sender.send(Message::new(this.body.clone())).await?;
                }
                Ok::<_, Error>(())
            });
            let receiving = receivers.iter_mut().map(|receiver| async {
                loop {
                    receiver.receive().await?.complete().await?;
                    left.take();
                }
            });
            exchange(sending, receiving, &left).await?;
            for receiver in &mut receivers {
                std::future::poll_fn(|cx| receiver.poll_stopped(cx)).await;
            }
            Ok(())
        })
    }

    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            try_join_all((0..window).map(|_| self.sender.send(Message::new(self.body.clone())))).await?;
            Ok(())
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let mut left = window;
            let mut completions = Vec::with_capacity(window);
            while left > 0 {
                let received = tokio::time::timeout(LONGEST, self.receiver.receive_batch(left));
                let deliveries = received.await.map_err(Error::from)??;
                left -= deliveries.len();
                completions.extend(deliveries.into_iter().map(|delivery| delivery.complete()));
            }
            try_join_all(completions).await?;
            Ok(())
        })
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move {
            let Self { sender, receiver, end, .. } = *self;
            drop((sender, receiver));
            end().await
        })
    }
}
