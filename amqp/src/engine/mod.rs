//! Connections, sessions and links of AMQP 1.0, as a client or a server, without I/O, a task or a clock.
//!
//! Bytes and the time go in, events and bytes come out; the front page has an example. A driver repeats:
//!
//! 1. Read from the socket into a buffer, unless [`Connection::receive`] returned [`Received::Blocked`].
//! 2. Call [`Connection::receive`] with the buffer and the time, and handle every event of [`Connection::poll_event`].
//! 3. Write what [`Connection::output`] has, until [`Connection::has_output`] is false.
//! 4. Call [`Connection::handle_deadline`] at [`Connection::deadline`].
//!
//! It ends when [`Connection::is_closed`] and the output is written. If the socket is closed, it calls
//! [`Connection::disconnected`].
//!
//! # Commands
//!
//! A command appends a frame to the output, or returns a [`CommandError`] and has changed nothing, unless its documentation says
//! otherwise. A link, a session or a connection
//! may end before its last event is polled. Commands for it return an error from then on.
//!
//! # Flow control
//!
//! The engine opens the incoming window of a session; the application sets the [credit](Connection::credit) of each receiving link. It
//! may send [`Connection::sendable`] deliveries on a sending link. Each delivery is numbered in its session and direction, and is
//! tracked until either end settles it.

mod chunks;
mod connection;
mod delivery;
mod disposition;
mod error;
mod event;
mod ids;
mod input;
mod link;
mod options;
mod output;
mod phase;
mod sasl;
mod session;
mod time;
mod tracker;
mod window;
mod writer;

pub use self::{
    connection::Connection,
    delivery::{Delivery, OutboundDelivery, Payload},
    error::{CommandError, Violation},
    event::{DeliveryList, Event, Reason},
    ids::{DeliveryId, LinkId, SessionId},
    input::Received,
    options::{Options, SaslCredentials},
    output::Output,
};
