//! How many messages and readers the slots of an entity have: the question to the broker outlives the accept that asked.

use std::{sync::Arc, time::Duration};

use consign_core::transport::ErrorKind;
use futures_util::future::join_all;
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::{task::JoinSet, time::Instant};

use super::layout;
use crate::{
    client::Shared,
    error::{Failure, within},
    link::Leased,
    receiver::Source,
};

/// For how long an answer counts that arrived while there was no accept. An older one does not show the oldest message.
const VALID: Duration = Duration::from_secs(1);

/// The counts of one slot.
pub(super) struct Count {
    messages: u32,
    pub(super) readers: u32,
}

impl Count {
    /// Returns whether the slot has messages and no reader.
    pub(super) fn is_free(&self) -> bool {
        self.messages > 0 && self.readers == 0
    }
}

/// The channel that an answer came on, and the counts of all slots.
type Answer = (Leased, Vec<Count>);

/// Asks for counts, one question at a time: an accept that ends early leaves its question to the next one.
#[derive(Default)]
pub(super) struct Counts {
    /// At most one. It is aborted when this is dropped.
    asking: JoinSet<(Instant, Result<Answer, Failure>)>,
    /// That of the last answer.
    channel: Option<Leased>,
}

impl Counts {
    pub(super) async fn ask(&mut self, client: &Arc<Shared>, source: &Source) -> Result<Answer, Failure> {
        loop {
            if self.asking.is_empty() {
                let (client, source, channel) = (Arc::clone(client), source.clone(), self.channel.take());
                self.asking.spawn(async move {
                    let answer = ask(client, source, channel).await;
                    (Instant::now(), answer)
                });
            }
            let Some(answered) = self.asking.join_next().await else { continue };
            let aborted = |_| Failure::new(ErrorKind::CommunicationProblem, "the request for counts was aborted");
            let (at, answer) = answered.map_err(aborted)?;
            self.channel = answer.as_ref().ok().map(|(channel, _)| channel.clone());
            if at.elapsed() < VALID {
                return answer;
            }
        }
    }
}

async fn ask(client: Arc<Shared>, source: Source, channel: Option<Leased>) -> Result<Answer, Failure> {
    let channel = match channel.filter(|leased| leased.channel.status().connected()) {
        Some(channel) => channel,
        None => client.link.channel().await?,
    };
    let slots = source.settings.session_slots;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    let declaring = join_all((0..slots).map(|slot| {
        let queue = layout::queue(&source.path, slot, slots);
        channel.channel.queue_declare(queue.into(), options, FieldTable::default())
    }));
    // An error closes the channel, and those behind it may fail sooner with that.
    let in_order = async { declaring.await.into_iter().collect::<Result<Vec<_>, _>>() };
    let declared = within(client.link.deadline(), "queue.declare", in_order).await?;
    let count = |queue: &lapin::Queue| Count { messages: queue.message_count(), readers: queue.consumer_count() };
    let counts = declared.iter().map(count).collect();
    Ok((channel, counts))
}
