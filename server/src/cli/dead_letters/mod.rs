//! `consign dead-letters`.

mod change;
mod filter;
mod list;
mod run;
mod run_options;

use clap::{Args, Subcommand};
use consign::{
    dead_letters::{DeadLetters as Handle, EntityDeadLetters},
    message::EntityPath,
    transport::DynTransport,
};

use self::{
    change::{Edit, Transcode},
    filter::FilterOptions,
    list::{Export, Group, List, Show},
    run_options::{Limits, RunOptions},
};
use super::{
    failure::Failure,
    output::Output,
    target::{Target, close, entity},
};

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    /// List dead letters with their reasons and failed attempts
    List(List),
    /// Count dead letters by reason and first error
    Group(Group),
    /// Show a dead letter with its properties, attempts and body
    Show(Show),
    /// Send dead letters again, and remove them
    Resubmit(Resubmit),
    /// Change dead letters, send them again, and remove them
    Edit(Edit),
    /// Convert the bodies of dead letters to another format, send them again, and remove them
    Transcode(Transcode),
    /// Write dead letters as JSON Lines, and keep them
    Export(Export),
    /// Remove dead letters
    Purge(Purge),
}

/// The entity whose dead letters a command works on.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The path of the queue or the subscription
    #[arg(value_parser = entity)]
    entity: EntityPath,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Resubmit {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    run: RunOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    run: Limits,
}

impl DeadLetters {
    fn source(&self) -> &Source {
        match self {
            Self::List(List { source, .. })
            | Self::Group(Group { source, .. })
            | Self::Resubmit(Resubmit { source, .. })
            | Self::Edit(Edit { source, .. })
            | Self::Transcode(Transcode { source, .. })
            | Self::Export(Export { source, .. })
            | Self::Show(Show { source, .. })
            | Self::Purge(Purge { source, .. }) => source,
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.source().target
    }

    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let transport = self.target().connect().await?;
        let done = self.run_on(&transport, out).await;
        close(&transport, done).await
    }

    pub(crate) async fn run_on(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::List(options) => options.run(transport, out).await,
            Self::Group(options) => options.run(transport, out).await,
            Self::Show(options) => options.run(transport, out).await,
            Self::Export(options) => options.run(transport, out).await,
            Self::Resubmit(options) => {
                run::resubmit(transport, &options.source, &options.run, &change::Changes::default(), out).await
            }
            Self::Edit(options) => {
                run::resubmit(transport, &options.source, &options.run, &options.changes().await?, out).await
            }
            Self::Transcode(options) => {
                run::resubmit(transport, &options.source, &options.run, &options.changes()?, out).await
            }
            Self::Purge(options) => run::purge(transport, &options.source, &options.run, out).await,
        }
    }
}

impl Source {
    fn dead_letters(&self, transport: &DynTransport) -> Handle<EntityDeadLetters> {
        Handle::of(transport.clone(), &self.entity)
    }

    /// The dead-letter sub-queue.
    fn path(&self) -> EntityPath {
        if self.entity.is_sub_queue() { self.entity.clone() } else { self.entity.dead_letter() }
    }
}
