//! `consign send`.

use std::{io, path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::Args;
use consign::{
    Message,
    message::EntityPath,
    time::Timestamp,
    transport::{DynTransport, ScheduleMessages, Transport},
};
use serde_json::json;

use super::{Outbox, build::PropertyOptions};
use crate::cli::{
    failure::Failure,
    input,
    output::Output,
    progress::Progress,
    target::{Target, close, entity, now},
    values::{duration, instant},
};

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The path of the queue or the topic
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// A body; several are several messages. Without a body and a file, each line of the standard input is a message
    #[arg(long, short, value_name = "TEXT")]
    body: Vec<String>,
    /// A file whose contents are a body; several are several messages
    #[arg(long, short, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The standard input is one body, not lines
    #[arg(long, conflicts_with_all = ["body", "file"])]
    whole: bool,
    /// Schedule the messages for this time
    #[arg(long, value_name = "TIMESTAMP", value_parser = instant, conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// Schedule the messages after a time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Duration>,
    #[command(flatten)]
    properties: PropertyOptions,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Send {
    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let transport = self.target.connect().await?;
        let done = self.run_on(&transport, out).await;
        close(&transport, done).await
    }

    pub(crate) async fn run_on(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let at = self.at.or_else(|| self.delay.map(|delay| now().saturating_add(delay)));
        let mut sink = Sink { at, outbox: Outbox::new(transport.sender(&self.entity).await?), numbers: Vec::new() };
        let mut progress = Progress::new("sending", None, self.target.json);
        let sent = self.send_all(transport, &mut sink, &mut progress).await;
        let finished = sink.outbox.finish().await;
        drop(progress);
        let count = if at.is_some() { sink.numbers.len() as u64 } else { sink.outbox.accepted };
        match at {
            Some(_) => {
                let numbers: Vec<_> = sink.numbers.iter().map(u64::to_string).collect();
                let text = format!("scheduled {count} for {}: {}", self.entity, numbers.join(" "));
                out.either(text, &json!({ "scheduled": count, "sequence_numbers": sink.numbers }))?;
            }
            None => out.either(format_args!("sent {count} to {}", self.entity), &json!({ "sent": count }))?,
        }
        sent.and(finished.map_err(Failure::from)).map_err(|failure| failure.after(count))
    }

    async fn send_all(
        &self,
        transport: &DynTransport,
        sink: &mut Sink,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let several = self.body.len() + self.file.len() > 1;
        let mut count = 0_u64;
        let mut next = |bytes: Bytes, several: bool| {
            count += 1;
            self.properties.build(bytes, several.then_some(count))
        };
        for text in &self.body {
            sink.put(transport, &self.entity, next(text.clone().into(), several)?).await?;
        }
        for file in &self.file {
            let bytes = input::whole_file(file.clone()).await?;
            sink.put(transport, &self.entity, next(bytes.into(), several)?).await?;
        }
        if !self.body.is_empty() || !self.file.is_empty() {
            return Ok(());
        }
        if self.whole {
            let bytes = input::whole(|| Ok(Box::new(io::stdin()))).await?;
            return sink.put(transport, &self.entity, next(bytes.into(), false)?).await;
        }
        let mut lines = input::lines()?;
        while let Some(line) = sink.outbox.meanwhile(lines.recv()).await? {
            sink.put(transport, &self.entity, next(line?.into(), true)?).await?;
            progress.set(sink.outbox.accepted);
        }
        Ok(())
    }
}

/// Sends messages, or schedules them.
struct Sink {
    at: Option<Timestamp>,
    outbox: Outbox,
    /// Of the scheduled messages.
    numbers: Vec<u64>,
}

impl Sink {
    async fn put(&mut self, transport: &DynTransport, to: &EntityPath, message: Message) -> Result<(), Failure> {
        match self.at {
            Some(at) => {
                let numbers = transport.schedule(to, vec![message], at).await?;
                self.numbers.extend(numbers.iter().map(|number| number.get()));
                Ok(())
            }
            None => Ok(self.outbox.send(message).await?),
        }
    }
}
