//! The protocol of Service Bus, by our own AMQP client against a server in this process.

#![allow(clippy::unwrap_used)]

mod cbs;
mod connections;
mod cuts;
mod disconnect;
mod durable;
mod entities;
mod hostile;
mod idle;
mod management;
mod receive;
mod scheduled;
mod send;
mod sessions;
mod support;
mod topics;
mod transactions;
