//! Input that is read on a thread of its own.
//!
//! A pipe may stay open without a byte: the command sends what it has, and can be interrupted, meanwhile.

use std::{
    io::{self, BufRead, Read},
    thread,
};

use tokio::sync::mpsc::{Receiver, channel};

use super::failure::Failure;

/// The longest body that is read, in bytes: that of the largest message.
const MAX_BODY: u64 = 100 << 20;
/// How many values are read ahead.
const AHEAD: usize = 1;

/// Reads the values of an iterator ahead. The thread ends with the iterator, or at the next value after the receiver was dropped.
pub(crate) fn read_ahead<I>(values: impl FnOnce() -> I + Send + 'static) -> Result<Receiver<I::Item>, Failure>
where
    I: Iterator<Item: Send + 'static>,
{
    let (sender, receiver) = channel(AHEAD);
    let read = move || {
        for value in values() {
            if sender.blocking_send(value).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("input".into()).spawn(read)?;
    Ok(receiver)
}

/// The lines of the standard input, without their ends.
pub(crate) fn lines() -> Result<Receiver<Result<Vec<u8>, Failure>>, Failure> {
    read_ahead(|| std::iter::from_fn(|| line(&mut io::stdin().lock()).transpose()))
}

/// The standard input, or a file, to its end.
pub(crate) async fn whole(
    input: impl FnOnce() -> Result<Box<dyn Read>, Failure> + Send + 'static,
) -> Result<Vec<u8>, Failure> {
    let mut bodies = read_ahead(|| std::iter::once_with(|| all(input()?)))?;
    bodies.recv().await.unwrap_or_else(|| Err(io::Error::other("the thread that reads has ended").into()))
}

fn all(input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    input.take(MAX_BODY + 1).read_to_end(&mut bytes)?;
    check_length(bytes)
}

fn line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    input.take(MAX_BODY + 2).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let end = line.strip_suffix(b"\n").map_or(line.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
    line.truncate(end);
    check_length(line).map(Some)
}

fn check_length(body: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if body.len() as u64 <= MAX_BODY { Ok(body) } else { Err(Failure::usage("a body is longer than 100 MiB")) }
}
