//! The job of the example `multi_format`, on the broker of a URL, with the same table:
//! `cargo run --release --package consign-by-url --bin multi_format -- amqp://127.0.0.1 --messages 90000`.

#![expect(unreachable_pub, reason = "a program is not reached from outside")]

#[path = "../../../multi_format/events.rs"]
mod events;
#[path = "../../../multi_format/failure.rs"]
mod failure;
#[path = "../../../multi_format/format.rs"]
mod format;
#[path = "../../../multi_format/handlers.rs"]
mod handlers;
#[path = "../../../multi_format/ledger.rs"]
mod ledger;
#[path = "../../../multi_format/options.rs"]
mod options;
#[path = "../../../multi_format/payloads.rs"]
mod payloads;
#[path = "../../../multi_format/place.rs"]
mod place;
#[path = "../../../multi_format/plan.rs"]
mod plan;
#[path = "../../../multi_format/report.rs"]
mod report;
#[path = "../../../multi_format/run.rs"]
mod run;
#[path = "../../../multi_format/store.rs"]
#[allow(dead_code, reason = "the store on a disk is that of the other program")]
mod store;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc};

use consign_by_url::{Place, Visitor};
use tower::BoxError;

use crate::{failure::Failure, ledger::Ledger, options::Options, plan::Plan, report::Report};

/// A queue of the run.
struct At<P>(P);

impl<P: Place> place::Place for At<P> {
    type Sender = P::Sender;
    type Receiver = P::Receiver;

    async fn sender(&self) -> Result<P::Sender, Failure> {
        Ok(self.0.sender().await?)
    }

    async fn receiver(&self) -> Result<P::Receiver, Failure> {
        Ok(self.0.receiver().await?)
    }

    async fn dead_letters(&self) -> Result<P::Receiver, Failure> {
        Ok(self.0.dead_letters().await?)
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.0.delete().await?)
    }
}

struct Job(Options);

impl Visitor for Job {
    type Output = Report;

    async fn visit<P: Place>(self, place: P) -> Result<Report, BoxError> {
        let Self(options) = self;
        let job = async {
            let codecs = handlers::codecs()?;
            let events = events::load(options.input.as_deref(), &codecs)?;
            let ledger = Arc::new(Ledger::new(Plan::new(events, options.messages, options.seed), false));
            let interrupt = async {
                if tokio::signal::ctrl_c().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            run::run(At(place), BTreeMap::new(), ledger, codecs, 2, interrupt).await
        };
        job.await.map_err(|failure: Failure| failure.to_string().into())
    }
}

const HELP: &str = "\
usage: multi_format URL [OPTIONS]

  URL   memory:, amqp://..., nats://..., or postgres://...

The options are those of the example multi_format, without --store:
";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().filter(|url| url.contains(':'));
    let (url, options) = match (url, Options::parse(arguments)) {
        (Some(url), Ok(Some(options))) if options.store.is_none() => (url, options),
        (_, Ok(_)) => {
            println!("{HELP}\n{}", options::HELP);
            return ExitCode::from(2);
        }
        (_, Err(failure)) => {
            eprintln!("multi_format: {failure}");
            return ExitCode::from(2);
        }
    };
    let is_json = options.json;
    let queue = format!("webhooks-{:08x}", fastrand::u32(..));
    match consign_by_url::visit(&url, &queue, Job(options)).await {
        Ok(report) => {
            match serde_json::to_string(&report) {
                Ok(object) if is_json => println!("{object}"),
                _ => println!("{report}"),
            }
            if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("multi_format: {error}");
            ExitCode::FAILURE
        }
    }
}
