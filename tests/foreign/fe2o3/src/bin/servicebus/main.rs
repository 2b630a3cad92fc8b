//! `servicebus`: scenarios of the client of fe2o3-amqp beside `consign serve`, without an SDK of Azure Service Bus. Each is on
//! queues of its own.
//!
//! `servicebus entities` prints the queues of all scenarios, in the format of the configuration of Microsoft's emulator.
//! `servicebus SETTINGS.json [NAME...]` runs the scenarios and prints a line for each: `pass NAME` or `FAIL NAME: reason`.
#![forbid(unsafe_code)]

mod client;
mod links;
mod requests;

use std::{env, fs, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::{Client, Failure, Server};

/// Longer than the scenario that waits the longest.
const LIMIT: Duration = Duration::from_secs(30);

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        async fn run(name: &str, server: &Server, client: &mut Client) -> Result<(), Failure> {
            match name {
                $(stringify!($name) => $module::$name(server, client).await,)*
                _ => Err("there is no such scenario".into()),
            }
        }
    };
}

scenarios! {
    links::complete,
    links::a_batch,
    links::release,
    links::modify,
    links::dead_letter,
    links::receive_and_delete,
    links::a_large_message,
    links::named_session,
    links::next_session,
    links::a_session_is_locked,
    links::wrong_key,
    links::listen_only,
    links::unknown_entity,
    requests::peek,
    requests::schedule_and_cancel,
    requests::renew_lock,
    requests::defer,
    requests::settle_by_token,
    requests::session_state_and_lock,
}

/// The queue of a scenario.
fn queue(name: &str) -> String {
    format!("fe2o3-{name}")
}

fn configuration() -> Value {
    let queues = NAMES.iter().map(|name| {
        let properties = json!({ "RequiresSession": name.contains("session"), "LockDuration": "PT30S" });
        json!({ "Name": queue(name), "Properties": properties })
    });
    let queues: Vec<Value> = queues.collect();
    json!({ "UserConfig": { "Namespaces": [{ "Name": "sbemulatorns", "Queues": queues, "Topics": [] }] } })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let settings = arguments.next().ok_or("the file of settings is missing")?;
    if settings == "entities" {
        println!("{}", configuration());
        return Ok(());
    }
    let server = Server::new(serde_json::from_slice(&fs::read(settings)?)?);
    let chosen: Vec<String> = arguments.collect();
    let (mut count, mut failed) = (0, 0);
    for name in NAMES.iter().filter(|name| chosen.is_empty() || chosen.iter().any(|chosen| chosen == *name)) {
        let scenario = async {
            let mut client = server.connect("connection", &queue(name)).await?;
            run(name, &server, &mut client).await?;
            client.close().await
        };
        count += 1;
        match timeout(LIMIT, scenario).await.unwrap_or_else(|_| Err("it did not end".into())) {
            Ok(()) => println!("pass {name}"),
            Err(error) => {
                failed += 1;
                println!("FAIL {name}: {error}");
            }
        }
    }
    println!("{count} scenario(s), {failed} failed");
    Ok(())
}
