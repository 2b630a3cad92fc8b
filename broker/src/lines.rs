use std::{
    error, fmt,
    io::{self, BufRead, Write},
};

use consign_core::{
    Message,
    message::SequenceNumber,
    transport::{ReceiveError, SendError, Sender},
};

use super::{
    Acknowledged, Queue, QueueSender,
    durable::{Line, LineError, MAX_LINE, read_messages, write_message},
};

/// How many messages are peeked, or sent, before a wait for the disk.
const TOGETHER: usize = 256;
/// And how many bytes of them. A disk that is not full has space for these.
const BYTES: usize = 4 << 20;

impl Queue {
    /// Writes every message that can be peeked as one line of JSON, and returns their number. A line has the
    /// properties, the body and the broker's state of the message. Locked, deferred and scheduled messages are
    /// included. Messages of sub-queues are not, as those are queues of their own. Messages that arrive or leave
    /// meanwhile may be included or not. Blocks this thread.
    ///
    /// Errors: those of `out`, and of a broker that is closed or whose disk fails; then messages are missing.
    pub fn export(&self, out: &mut impl Write) -> io::Result<u64> {
        let (mut from, mut count) = (SequenceNumber::new(0), 0);
        let entity = self.path().to_string();
        loop {
            let messages = self.peek_within(from, TOGETHER, BYTES);
            self.shared.check_open::<ReceiveError>().map_err(io::Error::other)?;
            for message in &messages {
                write_message(out, &Line { entity: Some(entity.clone()), message: message.clone() })?;
                count += 1;
            }
            match messages.last().and_then(Message::received) {
                Some(last) if last.sequence_number.get() < u64::MAX => from = last.sequence_number.next(),
                _ => return Ok(count),
            }
        }
    }
}

impl QueueSender {
    /// Sends the message of each line that [`Queue::export`] has written, or that has its format, in order. The
    /// broker's state of a message is not sent; its properties are. A scheduled message is scheduled again, and an
    /// expired message expires. Returns the number of messages when the last is acknowledged. Blocks this thread. A line
    /// has 256 MiB at most.
    ///
    /// The entity of a line is not read: all messages are sent to this queue. A file that [`Broker::salvage`](crate::Broker::salvage)
    /// has written has the messages of all entities. Divide it first, or use `consign import --from`: its dead letters would
    /// be live messages.
    ///
    /// Errors: a line that is not a message, or that is refused. The lines before it were sent, and none after it. If the disk fails,
    /// up to 255 lines after the first that is not stored may have been sent.
    pub fn import(&self, input: impl BufRead) -> Result<u64, ImportError> {
        let (mut count, mut bytes) = (0, 0_usize);
        let mut waiting: Vec<(u64, Acknowledged<(), SendError>)> = Vec::new();
        for line in read_messages(input, MAX_LINE) {
            let line = match line {
                Ok(line) => line,
                Err(error) => {
                    settle(&mut waiting)?;
                    return Err(ImportError(Cause::Line(error)));
                }
            };
            count += 1;
            // A larger message waits alone.
            let size = line.message.size();
            bytes = bytes.saturating_add(size);
            if bytes > BYTES {
                settle(&mut waiting)?;
                bytes = size;
            }
            let sent = self.send(line.message);
            let is_refused = sent.is_refused();
            waiting.push((count, sent));
            if is_refused || waiting.len() >= TOGETHER {
                settle(&mut waiting)?;
                bytes = 0;
            }
        }
        settle(&mut waiting)?;
        Ok(count)
    }
}

fn settle(waiting: &mut Vec<(u64, Acknowledged<(), SendError>)>) -> Result<(), ImportError> {
    let refused = |number| move |error| ImportError(Cause::Refused { number, error });
    waiting.drain(..).try_for_each(|(number, sent)| sent.wait().map_err(refused(number)))
}

/// The error of an import, which ended early.
#[derive(Debug)]
pub struct ImportError(Cause);

#[derive(Debug)]
enum Cause {
    Line(LineError),
    Refused { number: u64, error: SendError },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Line(error) => error.fmt(f),
            Cause::Refused { number, .. } => write!(f, "message {number} was refused"),
        }
    }
}

impl error::Error for ImportError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0 {
            Cause::Line(error) => error.source(),
            Cause::Refused { error, .. } => Some(error),
        }
    }
}
