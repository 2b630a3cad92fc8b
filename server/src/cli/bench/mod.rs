//! `consign bench`.

mod empty;
mod measure;
mod plot;
mod times;

use std::{path::PathBuf, pin::pin, sync::Arc};

use clap::Args;
use consign::{
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::DynTransport,
};
use serde_json::json;

use self::measure::{Measured, Passed, SENT, measure};
use super::{
    failure::{Exit, Failure},
    output::Output,
    target::{Target, close, entity},
};

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// An empty queue that exists; without it, a queue is created and deleted
    #[arg(value_parser = entity)]
    entity: Option<EntityPath>,
    /// The number of messages
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    messages: u32,
    /// The size of a body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    size: u32,
    /// How many sends are in flight, and how many messages are received at once
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    concurrency: u16,
    /// Draw the latencies into a new SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Bench {
    /// Measures until it is interrupted. A queue of its own is deleted then too.
    pub(crate) async fn run(
        &self,
        out: &mut Output,
        interrupted: impl Future<Output = Failure>,
    ) -> Result<(), Failure> {
        let mut interrupted = pin!(interrupted);
        let transport = tokio::select! {
            biased;
            failure = &mut interrupted => return Err(failure),
            transport = self.target.connect_any() => transport?,
        };
        let done = self.bench(&transport, out, interrupted).await;
        close(&transport, done).await
    }

    async fn bench(
        &self,
        transport: &DynTransport,
        out: &mut Output,
        interrupted: impl Future<Output = Failure>,
    ) -> Result<(), Failure> {
        let mut interrupted = pin!(interrupted);
        let path = if let Some(path) = &self.entity {
            tokio::select! {
                biased;
                failure = &mut interrupted => return Err(failure),
                empty = empty::check(transport, path) => empty?,
            }
            path.clone()
        } else {
            let path = EntityPath::new(&format!("consign-bench-{}", uuid::Uuid::new_v4().simple()))?;
            transport.create(&path, &QueueSettings::default().into()).await?;
            path
        };
        let passed = Arc::new(Passed::default());
        let measured = tokio::select! {
            biased;
            failure = &mut interrupted => Err(failure),
            measured = measure(transport, &path, self, &passed) => measured,
        };
        if self.entity.is_none() {
            // The messages of a run that failed go with it.
            let deleted = tokio::select! {
                biased;
                () = again() => return Err(Failure::new(Exit::Interrupted, "Interrupted", "interrupted")),
                deleted = transport.delete(&path) => deleted,
            };
            let measured = measured?;
            deleted?;
            return self.report(&measured, out);
        }
        let measured = measured.map_err(|failure| match passed.left() {
            0 => failure,
            left => failure
                .with(&format!("up to {left} messages of this measurement, with the property `{SENT}`, are in {path}")),
        });
        self.report(&measured?, out)
    }

    fn report(&self, measured: &Measured, out: &mut Output) -> Result<(), Failure> {
        let Measured { sent, received, sending, delivery, send_rate, receive_rate } = measured;
        out.line(format_args!("{sent} messages of {} B sent, {send_rate:.0} a second", self.size))?;
        out.line(format_args!("{received} received and completed, {receive_rate:.0} a second"))?;
        for (name, times) in [("accepted after", sending), ("delivered after", delivery)] {
            out.line(format_args!("{name}: {times}"))?;
            out.line(times.histogram())?;
        }
        out.object(&json!({
            "sent": sent,
            "received": received,
            "size": self.size,
            "send_rate": send_rate,
            "receive_rate": receive_rate,
            "accepted_us": sending.percentiles(),
            "delivered_us": delivery.percentiles(),
        }))?;
        match &self.plot {
            Some(file) => plot::plot(file, &[("accepted", sending), ("delivered", delivery)]),
            None => Ok(()),
        }
    }
}

/// Waits for one more Ctrl-C.
async fn again() {
    // Without the signal the command goes on to its end.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
