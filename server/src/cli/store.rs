//! `consign store`.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use consign::{
    broker::{Broker, Salvage as Salvaged},
    transport::Escaped,
};
use serde_json::json;

use super::{
    failure::{Exit, Failure},
    input::on_thread,
    new_file::NewFile,
    output::Output,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read the whole store and report damage; nothing is written
    Check(Check),
    /// Return the space of removed messages to the disk
    Compact(Check),
    /// Write a consistent copy to a new folder
    Backup(Backup),
    /// Write the messages of a damaged store as JSON Lines
    Salvage(Salvage),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The folder of the store, or its URL `file:PATH`; no process may have it open
    store: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: Check,
    /// The folder of the copy, which does not exist, outside of the folder of the store
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Salvage {
    #[command(flatten)]
    store: Check,
    /// The new file; `consign import --from` reads the messages of one entity from it
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Check {
    /// The folder, which exists: opening a store would create it.
    fn folder(&self) -> Result<&Path, Failure> {
        let path = match self.store.strip_prefix("file:") {
            Some(path) => path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path),
            None => &self.store,
        };
        if path.contains("://")
            || path.len() < self.store.len() && (path.starts_with("//") || path.contains(['?', '#']))
        {
            return Err(Failure::usage("a store is a folder, or file:PATH, without a host, a query and a fragment"));
        }
        let path = Path::new(path);
        let is_store = std::fs::read_dir(path).map_err(|error| Failure::file(path, &error))?.next().is_some();
        if is_store { Ok(path) } else { Err(Failure::new(Exit::NotFound, "NotAStore", "the folder is empty")) }
    }
}

impl Store {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Check(check) | Self::Compact(check) => check.json,
            Self::Backup(Backup { store, .. }) | Self::Salvage(Salvage { store, .. }) => store.json,
        }
    }

    /// Runs the command. An interrupt ends it at once, and names what is left of it.
    pub(crate) async fn run(&self, out: &mut Output, interrupt: impl Future<Output = Failure>) -> Result<(), Failure> {
        // What exists before is not of this command, which refuses it.
        let written = self.written().filter(|path| !path.exists());
        tokio::select! {
            biased;
            failure = interrupt => Err(match written.filter(|path| path.exists()) {
                Some(left) => failure.with(&format!("{} may be incomplete", left.display())),
                None => failure,
            }),
            done = self.run_on(out) => done,
        }
    }

    /// The file or folder that the command writes.
    fn written(&self) -> Option<&Path> {
        match self {
            Self::Backup(options) => Some(&options.to),
            Self::Salvage(options) => Some(&options.output),
            Self::Check(_) | Self::Compact(_) => None,
        }
    }

    async fn run_on(&self, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::Check(options) => {
                let folder = options.folder()?.to_owned();
                let salvaged =
                    on_thread(move || Broker::salvage(folder, &mut io::sink()).map_err(Failure::open)).await?;
                report("read", &salvaged, out)
            }
            Self::Compact(options) => compact(options.folder()?, out).await,
            Self::Backup(options) => backup(options.store.folder()?, &options.to, out).await,
            Self::Salvage(options) => {
                let folder = options.store.folder()?.to_owned();
                let mut file = NewFile::create(&options.output)?;
                let salvaged = on_thread(move || {
                    let salvaged = Broker::salvage(folder, &mut file)
                        .map_err(|error| NewFile::failure_in(&error).unwrap_or_else(|| Failure::open(error)))?;
                    file.keep()?;
                    Ok(salvaged)
                })
                .await?;
                report("written", &salvaged, out)
            }
        }
    }
}

fn report(what: &'static str, salvaged: &Salvaged, out: &mut Output) -> Result<(), Failure> {
    let Salvaged { messages, records, expected, damages, .. } = salvaged;
    let of = expected.map(|expected| format!(" of {expected}")).unwrap_or_default();
    out.line(format_args!("{messages} messages {what}, {records}{of} records are good, {} errors", damages.len()))?;
    for damage in damages {
        out.line(format_args!("  {}", Escaped(damage)))?;
    }
    out.object(&json!({ "messages": messages, "records": records, "expected_records": expected, "damages": damages }))?;
    if damages.is_empty() && expected.is_none_or(|expected| expected == *records) {
        return Ok(());
    }
    Err(Failure::new(Exit::Invalid, "Corrupted", "the store is damaged"))
}

/// Opens a store whose process may hold locks: they stay.
async fn open(folder: &Path) -> Result<Broker, Failure> {
    let folder = folder.to_owned();
    on_thread(move || Broker::options().hold_locks(true).open(folder).map_err(Failure::open)).await
}

async fn compact(folder: &Path, out: &mut Output) -> Result<(), Failure> {
    let before = size(folder)?;
    let broker = open(folder).await?;
    let compacted = broker.compact().await;
    let closed = broker.close().await;
    compacted?;
    closed?;
    let after = size(folder)?;
    out.either(format_args!("{before} B before, {after} B after"), &json!({ "before": before, "after": after }))
}

async fn backup(folder: &Path, to: &Path, out: &mut Output) -> Result<(), Failure> {
    let broker = open(folder).await?;
    let copied = {
        let (broker, to) = (broker.clone(), to.to_owned());
        on_thread(move || Ok(broker.backup(to)?)).await
    };
    let closed = broker.close().await;
    copied?;
    closed?;
    let bytes = size(to)?;
    let object = json!({ "backup": to.to_string_lossy(), "size": bytes });
    out.either(format_args!("{bytes} B written to {}", to.display()), &object)
}

/// The bytes of the files of a store.
fn size(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}
