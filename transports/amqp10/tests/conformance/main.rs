//! The suite of all transports on two brokers.

#[path = "../support/mod.rs"]
mod support;

use consign::transport::Capability;
use consign_conformance::{Suite, table};

use crate::support::{backend::Broker, managed::Queues, proton::Proton, rabbitmq::RabbitMq};

/// What waits in real time does so beside the others.
const AT_ONCE: usize = 40;
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");

/// What neither broker can show to be unsupported.
macro_rules! not_tested {
    ($($own:expr,)*) => {
        &[
            (Capability::SettleElsewhere, "no call for it"),
            (Capability::DeadLetterOnExpiration, "no message expires"),
            (Capability::SessionState, "no queue has sessions"),
            (Capability::NextSession, "no queue has sessions"),
            (Capability::CorrelationFilters, "there are no topics"),
            (Capability::SqlRules, "there are no topics"),
            $($own,)*
        ]
    };
}

async fn run<Q: Queues>(broker: Broker<Q>) {
    let part = std::env::var("CASE");
    let suite = part.as_ref().map_or_else(|_| Suite::new(), |part| Suite::new().named(part));
    let report = suite.at_once(AT_ONCE).run(&broker).await;
    broker.close().await;
    println!("{report}");
    if part.is_ok() {
        assert!(report.is_passed(), "{report}");
        return;
    }
    table::keep(&report, TABLE).expect("the column is up to date");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_up_to_date() {
    let Some(proton) = Proton::start().await else { return };
    let not_tested = not_tested![
        (Capability::EnqueuedTime, "the time is the sender's: on one machine it is that of the broker"),
        (Capability::AbandonInPlace, "the broker of the tests keeps places, and AMQP 1.0 does not require it"),
        (Capability::ReleaseOnDisconnect, "the broker of the tests does not count, and AMQP 1.0 does not require it"),
    ];
    run(Broker::connect("amqp10", proton.url(), proton.queues(), not_tested).await).await;
}

/// The option declares that the broker supports it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_schedules_messages_delays_retries() {
    let Some(proton) = Proton::start().await else { return };
    let url = format!("{}?scheduling=true", proton.url());
    let broker = Broker::connect("amqp10", url, proton.queues(), not_tested![]).await;
    for capability in [Capability::Scheduling, Capability::DelayedRetry] {
        let report = Suite::new().only(capability).at_once(AT_ONCE).run(&broker).await;
        println!("{report}");
        assert!(report.is_passed(), "{report}");
    }
    broker.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_up_to_date_on_rabbitmq() {
    let Some(rabbitmq) = RabbitMq::find().await else { return };
    let queues = rabbitmq.queues().await;
    let not_tested =
        not_tested![(Capability::EnqueuedTime, "the time is the sender's: on one machine it is that of the broker"),];
    run(Broker::connect("amqp10-rabbitmq", rabbitmq.url(), queues, not_tested).await).await;
}
