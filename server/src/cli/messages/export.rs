//! `consign export`.

use std::path::PathBuf;

use clap::Args;
use consign::{
    broker::json_lines::{Line, write_message},
    message::{EntityPath, SequenceNumber},
    transport::DynTransport,
};
use serde_json::json;

use super::browse::{Range, browse};
use crate::cli::{
    failure::Failure,
    interrupt::Interrupt,
    new_file::NewFile,
    output::Output,
    progress::Progress,
    target::{Target, close, entity},
};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The path of the queue, the subscription or the dead-letter queue
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// Export its dead letters
    #[arg(long)]
    dead_letters: bool,
    /// The new file; without it, the standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Allow listing where it counts as a failed delivery: on a transport that cannot peek, nor release without counting
    #[arg(long)]
    consume: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Export {
    pub(crate) async fn run(&self, out: &mut Output, interrupt: Interrupt) -> Result<(), Failure> {
        let transport = interrupt.ends(self.target.connect()).await?;
        let done = self.run_on(&transport, out, &interrupt).await;
        close(&transport, done).await
    }

    pub(crate) async fn run_on(
        &self,
        transport: &DynTransport,
        out: &mut Output,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let path = if self.dead_letters { self.entity.dead_letter() } else { self.entity.clone() };
        let mut lines = Lines::open(self.output.as_ref())?;
        let mut progress = Progress::new("exporting", None, self.target.json);
        let range = Range {
            path: &path,
            from: SequenceNumber::new(0),
            max: None,
            consume: self.consume,
            json: self.target.json,
        };
        let mut count = 0;
        let listed = browse(transport, &range, interrupt, &mut |message| {
            count += 1;
            progress.set(count);
            lines.write(&Line { entity: Some(path.to_string()), message }, out)
        })
        .await
        .map_err(|failure| failure.after(count))?;
        lines.finish(count, out)?;
        listed.check()
    }
}

/// Lines in a new file, or on the standard output.
pub(crate) struct Lines(Option<NewFile>);

impl Lines {
    pub(crate) fn open(file: Option<&PathBuf>) -> Result<Self, Failure> {
        file.map(|path| NewFile::create(path)).transpose().map(Self)
    }

    pub(crate) fn write(&mut self, line: &Line, out: &mut Output) -> Result<(), Failure> {
        match &mut self.0 {
            Some(file) => write_message(file, line)?,
            None => write_message(&mut out.writer(), line)?,
        }
        Ok(())
    }

    /// Writes the file to the disk, and reports the number of messages.
    pub(crate) fn finish(self, count: u64, out: &mut Output) -> Result<(), Failure> {
        let Some(file) = self.0 else { return Ok(()) };
        file.keep()?;
        out.either(format_args!("exported {count}"), &json!({ "exported": count }))
    }
}
