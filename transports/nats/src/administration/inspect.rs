//! Reading which entities exist, and how many messages they have.

use std::{collections::HashMap, sync::Arc};

use consign_core::{
    administration::{Counts, Entity, EntityKind},
    message::EntityPath,
    transport::{ErrorKind, ManageError, ReceiveError},
};
use serde::Deserialize;
use serde_json::json;

use crate::{connection::Inner, copies, entities::StreamConfig, error::Fault, settings::Kind};

impl From<Kind> for EntityKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Queue => Self::Queue,
            Kind::Topic => Self::Topic,
            Kind::Subscription => Self::Subscription,
        }
    }
}

/// What a list shows of a record, also of one that a later version has written.
#[derive(Deserialize)]
struct Listed {
    kind: Kind,
    path: String,
}

#[derive(Deserialize)]
struct Page {
    total: usize,
    #[serde(default)]
    streams: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    config: StreamConfig,
}

/// The number of messages in a stream.
#[derive(Deserialize)]
struct Contents {
    state: State,
    /// The number of subjects that match the filter.
    #[serde(default)]
    total: usize,
}

#[derive(Deserialize)]
struct State {
    messages: usize,
    bytes: u64,
    #[serde(default)]
    subjects: Option<HashMap<String, usize>>,
}

impl Inner {
    pub(super) async fn list(&self) -> Result<Vec<Entity>, Fault> {
        let (mut offset, mut entities) = (0, Vec::new());
        loop {
            let filter = json!({ "offset": offset, "subject": format!("{}.>", self.namespace) });
            let page = self.request::<Page>("STREAM.LIST", &filter).await?;
            let read = page.streams.len();
            offset += read;
            entities.extend(page.streams.into_iter().filter_map(|stream| self.listed(&stream.config)));
            if read == 0 || offset >= page.total {
                break;
            }
        }
        entities.sort_by_cached_key(|entity| entity.path.key());
        // A stream that is deleted between two pages moves the others.
        entities.dedup_by(|one, other| one.path == other.path);
        Ok(entities)
    }

    /// Returns the entity of a stream. `None` for a stream beside one, and for one of another program.
    fn listed(&self, config: &StreamConfig) -> Option<Entity> {
        let listed: Listed = serde_json::from_str(&config.description).ok()?;
        let (stream, _) = self.name(&listed.path).ok()?;
        let path = EntityPath::new(&listed.path).ok()?;
        (stream == config.name).then(|| Entity::new(path, listed.kind.into()))
    }

    pub(super) async fn counts(self: &Arc<Self>, path: &EntityPath) -> Result<Counts, ManageError> {
        let entity = self.entity(path).await?;
        let mut counts = Counts::default();
        if entity.settings.kind == Kind::Topic && !path.is_sub_queue() {
            counts.size = self.contents(&entity.stream, ">").await?.state.bytes;
            return Ok(counts);
        }
        let managed = |error: ReceiveError| ManageError::new(error.kind()).with_source(error);
        let source = self.source(path).await.map_err(managed)?;
        source.catch_up().await?;
        let beside = &source.beside;
        let dead = self.contents(&beside.stream, &beside.any_dead()).await?;
        if source.is_dead_letter() {
            counts.active = dead.total;
            return Ok(counts);
        }
        // A dead letter that was never received has its number from this stream, and is in it for that time.
        let main = self.contents(&source.stream, &copies::numbered(&entity.root)).await?.state;
        let numbered: usize = main.subjects.iter().flat_map(HashMap::values).sum();
        counts.active = main.messages.saturating_sub(numbered);
        counts.deferred = self.contents(&beside.stream, &beside.deferred('*')).await?.total;
        counts.dead_lettered = dead.total;
        counts.size = main.bytes + dead.state.bytes;
        Ok(counts)
    }

    async fn contents(&self, stream: &str, filter: &str) -> Result<Contents, Fault> {
        let contents = self.request(&format!("STREAM.INFO.{stream}"), &json!({ "subjects_filter": filter })).await;
        contents.map_err(|fault: Fault| match fault.kind {
            ErrorKind::EntityNotFound => Fault::new(ErrorKind::EntityNotFound, "the entity was deleted meanwhile"),
            _ => fault,
        })
    }
}
