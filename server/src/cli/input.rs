//! Input that is read on a thread of its own.
//!
//! A pipe may stay open without a byte: the command sends what it has, and can be interrupted, meanwhile.

use std::{
    fs::File,
    io::{self, BufRead, Read},
    path::{Path, PathBuf},
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

/// Runs what may block on a thread of its own: a command that is interrupted meanwhile does not wait for it.
pub(crate) async fn on_thread<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let mut done = read_ahead(|| std::iter::once_with(job))?;
    done.recv().await.unwrap_or_else(|| Err(io::Error::other("the thread of the command has ended").into()))
}

/// The standard input, or a file, to its end.
pub(crate) async fn whole(
    input: impl FnOnce() -> Result<Box<dyn Read>, Failure> + Send + 'static,
) -> Result<Vec<u8>, Failure> {
    on_thread(|| all(input()?)).await
}

/// A file to its end. It may be a pipe that no program has opened yet.
pub(crate) async fn whole_file(path: PathBuf) -> Result<Vec<u8>, Failure> {
    on_thread(move || {
        let mut bytes = Vec::new();
        open(&path)?.take(MAX_BODY + 1).read_to_end(&mut bytes).map_err(|error| Failure::file(&path, &error))?;
        check_length(bytes)
    })
    .await
}

pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::file(path, &error))
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
