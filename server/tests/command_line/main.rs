//! The commands of the program `consign` on a store in a folder.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod bench;
mod dead_letters;
mod decode;
mod entities;
mod errors;
#[cfg(target_os = "linux")]
mod interrupts;
mod killed;
mod killed_server;
mod lines;
mod messages;
mod page;
mod served;
#[path = "../command_line_brokers/session.rs"]
mod session;
mod store;
#[allow(dead_code, reason = "the other program of tests uses more of it")]
mod support;
mod warnings;
