//! The protocol of Service Bus, by our own AMQP client against a server in this process.

#![allow(clippy::unwrap_used)]

mod attach;
mod cbs;
mod connections;
mod credit;
mod cross_entity;
mod cuts;
mod disconnect;
mod durable;
mod entities;
mod hostile;
mod idle;
mod log;
mod management;
mod raw;
mod receive;
mod receive_and_delete;
mod requests;
mod scheduled;
mod send;
mod sessions;
mod shutdown;
mod support;
mod topics;
mod transactions;
mod unreadable;
