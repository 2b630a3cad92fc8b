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

use std::{collections::BTreeMap, fmt::Display, process::ExitCode, sync::Arc};

use consign::{
    administration::{Administration, QueueSettings},
    message::EntityPath,
    transport::{DynReceiver, DynSender, DynTransport, ReceiveMode, Transport},
};

use crate::{failure::Failure, ledger::Ledger, options::Options, plan::Plan, report::Report};

/// A queue of the run.
struct Queue {
    transport: DynTransport,
    path: EntityPath,
}

impl place::Place for Queue {
    type Sender = DynSender;
    type Receiver = DynReceiver;

    async fn sender(&self) -> Result<DynSender, Failure> {
        Ok(self.transport.sender(&self.path).await?)
    }

    async fn receiver(&self) -> Result<DynReceiver, Failure> {
        Ok(self.transport.receiver(&self.path, ReceiveMode::PeekLock).await?)
    }

    async fn dead_letters(&self) -> Result<DynReceiver, Failure> {
        Ok(self.transport.receiver(&self.path.dead_letter(), ReceiveMode::PeekLock).await?)
    }

    async fn close(self) -> Result<(), Failure> {
        self.transport.delete(&self.path).await?;
        Ok(self.transport.close().await?)
    }
}

async fn job(url: &str, options: Options) -> Result<Report, Failure> {
    // What cannot be read fails before a queue is there.
    let codecs = handlers::codecs()?;
    let events = events::load(options.input.as_deref(), &codecs)?;
    let ledger = Arc::new(Ledger::new(Plan::new(events, options.messages, options.seed), false));
    let transport = consign_by_url::transports().connect(url).await?;
    let path = EntityPath::new(&format!("webhooks-{:08x}", fastrand::u32(..)))?;
    transport.declare(&path, &QueueSettings::default().into()).await?;
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let queue = Queue { transport: transport.clone(), path: path.clone() };
    let report = run::run(queue, BTreeMap::new(), ledger, codecs, 2, interrupt).await;
    if report.is_err()
        && let Err(error) = transport.delete(&path).await
    {
        eprintln!("multi_format: the queue {path} is left on the broker: {error}");
    }
    report
}

const HELP: &str = "\
usage: multi_format URL [OPTIONS]

  URL   memory:, file:PATH, amqp://..., nats://..., or postgres://...

The options are those of the example multi_format, without --store:
";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let url = arguments.next_if(|url| url.contains(':'));
    let wrong = |text: &dyn Display| {
        eprintln!("multi_format: {text}");
        ExitCode::from(2)
    };
    let (url, options) = match (url, Options::parse(arguments)) {
        (_, Ok(None)) => {
            println!("{HELP}\n{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        (_, Err(failure)) => return wrong(&failure),
        (None, Ok(_)) => return wrong(&"a URL is expected first; --help lists them"),
        (_, Ok(Some(options))) if options.store.is_some() => return wrong(&"`--store`: use the URL file:PATH instead"),
        (Some(url), Ok(Some(options))) => (url, options),
    };
    let is_json = options.json;
    match job(&url, options).await {
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
