//! `consign peek`.

use clap::Args;
use consign::{
    message::{EntityPath, SequenceNumber},
    transport::DynTransport,
};

use super::{
    browse::{Range, browse},
    show::{self, BodyOptions},
};
use crate::cli::{
    failure::Failure,
    interrupt::Interrupt,
    output::Output,
    target::{Target, close, entity},
};

#[derive(Debug, Args)]
pub(crate) struct Peek {
    /// The path of the queue, the subscription or the dead-letter queue
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// Look at its dead letters
    #[arg(long)]
    dead_letters: bool,
    /// The sequence number of the first message
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// The most messages
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    max: usize,
    /// Allow listing where it counts as a failed delivery: on a transport that cannot peek, nor release without counting
    #[arg(long)]
    consume: bool,
    #[command(flatten)]
    body: BodyOptions,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Peek {
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
        let range = Range {
            path: &path,
            from: SequenceNumber::new(self.from),
            max: Some(self.max),
            consume: self.consume,
            json: self.target.json,
        };
        let mut count = 0;
        let listed = browse(transport, &range, interrupt, &mut |message| {
            show::print(out, &path, &message, &self.body)?;
            count += 1;
            Ok(())
        })
        .await;
        listed.map_err(|failure| failure.after(count))?.check()
    }
}
