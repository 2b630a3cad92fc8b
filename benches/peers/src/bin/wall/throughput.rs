//! How many messages in a second go from a producer to a handler, both in one runtime.

use std::{fmt, ops::Range, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

use crate::{
    arrivals::{self, Order},
    peer::{Peer, Sender},
};

/// Messages in flight where a scenario does not say otherwise. When so many are, the producer sleeps until half of them are
/// handled.
pub const IN_FLIGHT: usize = 256;

#[derive(Clone, Copy, PartialEq)]
pub enum Threads {
    /// Producer and consumer are tasks of one thread.
    One,
    /// They are tasks of a runtime with two workers.
    Two,
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::Two => "two",
        })
    }
}

impl Threads {
    fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::One => Builder::new_current_thread(),
            Self::Two => Builder::new_multi_thread(),
        };
        builder.worker_threads(2).enable_all().build().expect("a runtime")
    }
}

/// What is sent again and again.
pub enum Content {
    /// A body of so many bytes, which each send copies.
    Body(usize),
    /// A value, which each send encodes.
    Value,
}

/// What a producer has of it.
enum Template {
    Body(Vec<u8>),
    Value(Order),
}

impl Content {
    fn template(&self) -> Template {
        match *self {
            Self::Body(size) => Template::Body(arrivals::body(size)),
            Self::Value => Template::Value(Order::whole()),
        }
    }
}

/// How a run is made.
pub struct Load {
    pub threads: Threads,
    pub content: Content,
    /// Most messages that are sent and not handled.
    pub in_flight: usize,
    pub messages: usize,
}

/// Messages in a second, after a tenth of them for warming up.
pub fn messages_per_second(peer: &impl Peer, load: &Load) -> u64 {
    arrivals::reset(false);
    let &Load { threads, ref content, in_flight, messages } = load;
    let runtime = threads.runtime();
    let template = content.template();
    runtime.block_on(async {
        let (mut sender, running) = peer.start(in_flight).await;
        let producer = tokio::spawn(async move {
            let warm = messages / 10;
            send(&mut sender, &template, in_flight, 0..warm).await;
            let begun = Instant::now();
            send(&mut sender, &template, in_flight, warm..warm + messages).await;
            // A consumer ends when its last sender does; that is no part of this.
            (begun.elapsed(), sender)
        });
        let (took, sender) = producer.await.expect("a producer that ends");
        drop((sender, running));
        rate(messages, took)
    })
}

/// Sends the messages of these numbers, and waits until they are handled.
async fn send(sender: &mut impl Sender, template: &Template, in_flight: usize, numbers: Range<usize>) {
    let mut handled = numbers.start;
    for sent in numbers.clone() {
        if sent - handled == in_flight {
            handled = arrivals::handled();
            if sent - handled == in_flight {
                handled = arrivals::reached(sent - in_flight / 2).await;
            }
        }
        match template {
            Template::Body(body) => sender.send(body).await,
            Template::Value(order) => sender.send_value(order).await,
        }
    }
    arrivals::reached(numbers.end).await;
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a rate")]
pub fn rate(messages: usize, took: Duration) -> u64 {
    (messages as f64 / took.as_secs_f64()) as u64
}
