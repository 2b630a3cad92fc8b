//! `foreign-azservicebus`: scenarios of the client azservicebus, each on entities of its own.
//!
//! `foreign-azservicebus entities` prints the entities of all scenarios, in the format of the configuration of Microsoft's emulator.
//! `foreign-azservicebus SETTINGS.json [NAME...]` runs the scenarios and prints a line for each: `pass NAME`, `FAIL NAME: reason`, or
//! `skip NAME: reason` if the client cannot do it.
#![forbid(unsafe_code)]

mod access;
mod receiving;
mod rules;
mod sending;
mod sessions;
mod settling;
mod support;

use std::{env, fs, pin::Pin, time::Duration};

use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use crate::support::{Context, Failure};

type Run = fn(Context) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

#[derive(Clone, Copy)]
enum Entity {
    Queue,
    Sessions,
    Topic,
}

struct Scenario {
    name: &'static str,
    entity: Entity,
    run: Run,
}

macro_rules! scenarios {
    ($($module:ident::$name:ident $entity:ident),* $(,)?) => {
        [$(Scenario {
            name: stringify!($name),
            entity: Entity::$entity,
            run: |context| Box::pin($module::$name(context)),
        }),*]
    };
}

/// What the client cannot do, and why.
const SKIPPED: [(&str, &str); 7] = [
    (
        "a_receive_after_an_empty_one",
        "the client sends credit before the answer to its drain, with a delivery count that is out of date",
    ),
    ("a_link_without_dispose", "the client's session fails on the answer to the detach of a dropped link"),
    ("no_rules", "the client fails on the status 204 of a subscription without rules"),
    ("no_session_state", "the client fails on the null of a session without a state"),
    ("receive_and_delete", "the client fails on a delivery without a lock token"),
    ("over_tls", "the client trusts the certificate authorities of webpki-roots alone"),
    ("over_web_socket", "the client connects to the port 80 or 443 alone"),
];

/// Longer than the scenario that waits the longest.
const LIMIT: Duration = Duration::from_secs(45);

fn scenarios() -> impl Iterator<Item = Scenario> {
    scenarios![
        sending::properties Queue,
        sending::several_at_once Queue,
        sending::a_batch_is_limited Queue,
        sending::schedule Queue,
        sending::schedule_and_cancel Queue,
        sending::time_to_live_expires Queue,
        sending::to_a_topic Topic,
        receiving::nothing_within_the_wait Queue,
        receiving::prefetch Queue,
        receiving::peek Queue,
        receiving::peek_from_a_sequence_number Queue,
        receiving::waits_for_a_message Queue,
        settling::complete Queue,
        settling::abandon Queue,
        settling::abandon_modifies_properties Queue,
        settling::delivery_count_is_exceeded Queue,
        settling::dead_letter Queue,
        settling::defer Queue,
        settling::deferred_is_dead_lettered Queue,
        settling::renew_lock Queue,
        settling::a_lost_lock_is_refused Queue,
        sessions::named_session Sessions,
        sessions::next_session Sessions,
        sessions::session_state Sessions,
        sessions::renew_session_lock Sessions,
        sessions::other_receivers_are_refused Sessions,
        sessions::peek_and_defer Sessions,
        sessions::dead_letter_of_a_session Sessions,
        rules::sql_with_action Topic,
        rules::correlation Topic,
        rules::true_and_false Topic,
        access::wrong_key Queue,
        access::listen_only Queue,
        access::send_only Queue,
        access::unknown_entity Queue,
    ]
    .into_iter()
}

fn entity_name(scenario: &Scenario) -> String {
    format!("azservicebus-{}", scenario.name)
}

/// All entities. Locks are short for the scenarios that lose one.
fn configuration() -> Value {
    let (mut queues, mut topics) = (Vec::new(), Vec::new());
    for scenario in scenarios() {
        let name = entity_name(&scenario);
        let lock = if scenario.name == "a_lost_lock_is_refused" { "PT5S" } else { "PT30S" };
        match scenario.entity {
            Entity::Topic => topics.push(json!({ "Name": name, "Subscriptions": [{ "Name": support::SUBSCRIPTION }] })),
            entity => {
                let properties = json!({
                    "RequiresSession": matches!(entity, Entity::Sessions),
                    "LockDuration": lock,
                    "MaxDeliveryCount": 3,
                });
                queues.push(json!({ "Name": name, "Properties": properties }));
            }
        }
    }
    json!({ "UserConfig": { "Namespaces": [{ "Name": "sbemulatorns", "Queues": queues, "Topics": topics }] } })
}

// On more threads the client misses an outcome that arrives before it has stored the delivery.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let settings = arguments.next().ok_or("the file of settings is missing")?;
    if settings == "entities" {
        println!("{}", configuration());
        return Ok(());
    }
    let settings: Value = serde_json::from_slice(&fs::read(settings)?)?;
    let names: Vec<String> = arguments.collect();
    let mut running = JoinSet::new();
    for scenario in scenarios().filter(|scenario| names.is_empty() || names.iter().any(|name| name == scenario.name)) {
        let context = Context::new(settings.clone(), entity_name(&scenario));
        running.spawn(async move {
            let result = timeout(LIMIT, (scenario.run)(context)).await;
            (scenario.name, result.unwrap_or_else(|_| Err("it did not end".into())))
        });
    }
    let (mut count, mut failed) = (0, 0);
    // A scenario that panics ends the program, which is a failure of the run.
    while let Some(ended) = running.join_next().await {
        count += 1;
        match ended? {
            (name, Ok(())) => println!("pass {name}"),
            (name, Err(error)) => {
                failed += 1;
                println!("FAIL {name}: {error}");
            }
        }
    }
    for (name, reason) in SKIPPED {
        println!("skip {name}: {reason}");
    }
    println!("{count} scenario(s), {failed} failed");
    Ok(())
}
