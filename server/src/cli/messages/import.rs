//! `consign import`.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    iter::once,
    path::PathBuf,
};

use clap::Args;
use consign::{
    broker::json_lines::{Line, LineError, MAX_LINE, read_messages},
    message::EntityPath,
    transport::{DynTransport, Escaped, Transport},
};
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use super::{Outbox, originals::Originals};
use crate::cli::{
    failure::{Exit, Failure},
    input::{on_thread, open, read_ahead},
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
    /// Take only the lines with this entity, from a file with several, such as that of `consign store salvage`
    #[arg(long, value_name = "PATH", value_parser = entity)]
    from: Option<EntityPath>,
    /// Skip messages at the beginning: those that an earlier import has sent
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip: usize,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Import {
    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        self.check_file().await?;
        let transport = self.target.connect().await?;
        let done = self.import(&transport, out).await;
        close(&transport, done).await
    }

    /// Refuses a file with several entities before anything is sent. What is not a file can be opened and read only once.
    async fn check_file(&self) -> Result<(), Failure> {
        let Some(path) = self.file.clone() else { return Ok(()) };
        let is_file = fs::metadata(&path).map_err(|error| Failure::file(&path, &error))?.is_file();
        if !is_file || self.from.is_some() {
            return Ok(());
        }
        on_thread(move || {
            let mut entities = Entities::default();
            // The import reports a line that is not a message, after those before it.
            read_messages(BufReader::new(open(&path)?), MAX_LINE).flatten().try_for_each(|line| entities.check(&line))
        })
        .await
    }

    async fn import(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        let mut outbox = Outbox::new(transport.sender(&self.entity).await?);
        let mut progress = Progress::new("importing", None, self.target.json);
        let mut originals = Originals::default();
        let sent = self.send(&mut outbox, &mut originals, &mut progress).await;
        let finished = outbox.finish().await.map_err(Failure::from);
        drop(progress);
        let count = outbox.accepted;
        out.line(format_args!("imported {count} into {}", self.entity))?;
        originals.report(out)?;
        out.object(
            &json!({ "imported": count, "dead_letters": originals.kept, "reasons_dropped": originals.dropped }),
        )?;
        sent.and(finished).map_err(|failure| failure.after(count))
    }

    async fn send(
        &self,
        outbox: &mut Outbox,
        originals: &mut Originals,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut entities = Entities::default();
        let mut lines = self.lines()?;
        while let Some(line) = outbox.meanwhile(lines.recv()).await? {
            let line = line?;
            if self.from.is_none() {
                entities.check(&line)?;
            }
            outbox.send(originals.keep(line.message.without_received())).await?;
            progress.set(outbox.accepted);
        }
        Ok(())
    }

    /// The lines that are wanted. The file is opened on their thread, because a pipe waits for its writer.
    fn lines(&self) -> Result<Receiver<Result<Line, Failure>>, Failure> {
        let (file, skip, from) = (self.file.clone(), self.skip, self.from.clone());
        let is_wanted = move |line: &Result<Line, LineError>| match (&from, line) {
            (Some(from), Ok(line)) => path(line).is_some_and(|path| path == *from),
            _ => true,
        };
        read_ahead(move || -> Box<dyn Iterator<Item = Result<Line, Failure>>> {
            let input: Box<dyn BufRead> = match file.as_deref().map(open) {
                Some(Ok(file)) => Box::new(BufReader::new(file)),
                Some(Err(failure)) => return Box::new(once(Err(failure))),
                None => Box::new(BufReader::new(io::stdin())),
            };
            let lines = read_messages(input, MAX_LINE).filter(is_wanted).skip(skip);
            Box::new(lines.map(|line| line.map_err(|error| Failure::new(Exit::Invalid, "Line", error.to_string()))))
        })
    }
}

/// The entity of the lines, which is one.
#[derive(Default)]
struct Entities {
    first: Option<String>,
}

impl Entities {
    fn check(&mut self, line: &Line) -> Result<(), Failure> {
        let Some(entity) = &line.entity else { return Ok(()) };
        let first = self.first.get_or_insert_with(|| entity.clone());
        if first.eq_ignore_ascii_case(entity) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the messages are of several entities, such as {} and {}: choose one by --from",
            Escaped(first),
            Escaped(entity)
        )))
    }
}

/// The entity of a line, if it is a path.
fn path(line: &Line) -> Option<EntityPath> {
    line.entity.as_ref().and_then(|entity| EntityPath::new(entity).ok())
}
