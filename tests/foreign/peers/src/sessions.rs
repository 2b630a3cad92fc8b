//! Sessions of a publisher that chooses the slots itself, and two consumers of this library.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use consign::{Disposition, Message, consumer::SessionConsumer};
use consign_rabbitmq::{QueueSettings, RabbitMq};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tower::{BoxError, service_fn};

use crate::{
    environment::{Environment, unique},
    suite::same,
};

const SESSIONS: [&str; 8] = ["customer-7", "one", "two", "ONE", "Müller & Söhne", "セッション", "🦀", ""];
const MESSAGES: usize = 20;
const SLOTS: u16 = 4;
/// Longer than it takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// What has come of each session, in order, and how many handlers of it ran at once.
#[derive(Default)]
struct Seen {
    bodies: Vec<String>,
    running: usize,
    most: usize,
}

type All = Arc<Mutex<HashMap<String, Seen>>>;

/// Every message comes once and in the order of its session, and no session has two holders.
pub(crate) async fn of_pika(env: &Environment) -> Result<(), BoxError> {
    let queue = unique();
    let mut settings = QueueSettings::default();
    (settings.requires_session, settings.session_slots) = (true, SLOTS);
    env.rabbit.create_queue(&queue, settings.clone()).await?;
    let other = RabbitMq::connect(&env.rabbit_url).await?;
    other.register_queue(&queue, settings)?;
    let all = All::default();
    let consumers = [consume(&env.rabbit, &queue, &all)?, consume(&other, &queue, &all)?];
    let arguments =
        json!({ "url": env.rabbit_url, "queue": queue, "slots": SLOTS, "sessions": SESSIONS, "messages": MESSAGES });
    let published = env.python("sessions.py", "pika", arguments).await;
    let come =
        || all.lock().unwrap_or_else(PoisonError::into_inner).values().map(|seen| seen.bodies.len()).sum::<usize>();
    let arrived = async {
        while come() < SESSIONS.len() * MESSAGES {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let arrived = timeout(LONG, arrived).await;
    consumers.iter().for_each(tokio::task::JoinHandle::abort);
    other.close().await?;
    env.rabbit.delete(&queue).await?;
    same("what was published", &published?, &json!({ "published": SESSIONS.len() * MESSAGES }))?;
    arrived.map_err(|_| format!("{} messages have come", come()))?;
    let expected: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    for session in SESSIONS {
        let seen = all.get(session).ok_or_else(|| format!("nothing of {session:?} has come"))?;
        same(&format!("the messages of {session:?}"), &seen.bodies, &expected)?;
        same(&format!("the handlers of {session:?} at once"), &seen.most, &1)?;
    }
    Ok(())
}

fn consume(rabbit: &RabbitMq, queue: &str, all: &All) -> Result<tokio::task::JoinHandle<()>, BoxError> {
    let all = Arc::clone(all);
    let handler = service_fn(move |message: Message| {
        let all = Arc::clone(&all);
        async move {
            let session = message.session_id().unwrap_or_default().to_owned();
            {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let seen = all.entry(session.clone()).or_default();
                seen.running += 1;
                seen.most = seen.most.max(seen.running);
            }
            sleep(Duration::from_millis(1)).await;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = all.entry(session).or_default();
            seen.running -= 1;
            seen.bodies.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(rabbit.session_acceptor(queue)?, handler);
    Ok(tokio::spawn(async move {
        if let Err(error) = consumer.run().await {
            eprintln!("a consumer of sessions: {error}");
        }
    }))
}
