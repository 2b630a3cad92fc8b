//! The future of a send is not awaited.
//!
//! Await the future. The note names what may be lost.

#![deny(unused_must_use)]

use consign::{
    Message,
    broker::QueueSender,
    transport::{SendExt, SendService, Sender},
};

fn fire_and_forget(sender: &QueueSender, stack: &mut SendService<QueueSender>) {
    sender.send(Message::new("body"));
    SendExt::send(stack, Message::new("body"));
}

fn main() {}
