//! `consign import`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
};

use clap::Args;
use consign::{
    broker::json_lines::{MAX_LINE, read_messages},
    message::EntityPath,
    transport::{DynTransport, Transport},
};
use serde_json::json;

use super::Outbox;
use crate::cli::{
    failure::{Exit, Failure},
    input::read_ahead,
    output::Output,
    progress::Progress,
    target::{Target, close, entity},
};

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The path of the queue or the topic
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// A file that `consign export` has written; without it, the standard input
    file: Option<PathBuf>,
    /// Skip messages at the beginning: those that an earlier import has sent
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip: usize,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Import {
    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let transport = self.target.connect().await?;
        let done = self.import(&transport, out).await;
        close(&transport, done).await
    }

    async fn import(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let input: Box<dyn BufRead + Send> = match &self.file {
            Some(path) => Box::new(BufReader::new(File::open(path).map_err(|error| Failure::file(path, &error))?)),
            None => Box::new(BufReader::new(io::stdin())),
        };
        let mut outbox = Outbox::new(transport.sender(&self.entity).await?);
        let mut progress = Progress::new("importing", None, self.target.json);
        let sent = self.send(input, &mut outbox, &mut progress).await;
        let finished = outbox.finish().await.map_err(Failure::from);
        drop(progress);
        let count = outbox.accepted;
        out.either(format_args!("imported {count} into {}", self.entity), &json!({ "imported": count }))?;
        sent.and(finished).map_err(|failure| failure.after(count))
    }

    async fn send(
        &self,
        input: Box<dyn BufRead + Send>,
        outbox: &mut Outbox,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let skip = self.skip;
        let mut lines = read_ahead(move || read_messages(input, MAX_LINE).skip(skip))?;
        while let Some(line) = outbox.meanwhile(lines.recv()).await? {
            let line = line.map_err(|error| Failure::new(Exit::Invalid, "Line", error.to_string()))?;
            outbox.send(line.message.without_received()).await?;
            progress.set(outbox.accepted);
        }
        Ok(())
    }
}
