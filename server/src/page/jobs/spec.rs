//! What a job does, as it is kept in the file of jobs.

use consign_core::{
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// What is done with each dead letter, or with the messages of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Action {
    /// A copy of each dead letter is sent, and the dead letter is removed.
    Resubmit,
    /// Dead letters are removed.
    Remove,
    /// The messages of an entity are removed.
    Purge,
}

/// A job. With it alone the job can be begun again: what was done is no longer in the queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in super::super) struct Spec {
    pub(in super::super) id: String,
    pub(in super::super) action: Action,
    /// The entity, not its sub-queue.
    pub(in super::super) entity: EntityPathText,
    /// Dead letters of this group alone.
    pub(in super::super) group: Option<String>,
    /// This dead letter alone.
    pub(in super::super) number: Option<u64>,
    /// Where copies are sent.
    pub(in super::super) target: EntityPathText,
    /// The ContentType that copies are written in.
    pub(in super::super) content_type: Option<String>,
    /// Most messages in a second.
    pub(in super::super) per_second: Option<u32>,
    /// The last dead letter that matched when the job was created. Copies that are dead-lettered again are behind it.
    pub(in super::super) last: u64,
    /// So many matched.
    pub(in super::super) matching: u64,
    /// They are the first ones: there are more than were looked at.
    #[serde(default)]
    pub(in super::super) is_cut: bool,
    /// When it begins, in milliseconds since 1970: the end of the window in which it can be undone.
    pub(in super::super) begins_at: i64,
    pub(in super::super) created_at: i64,
}

/// A path that was checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(in super::super) struct EntityPathText(pub(in super::super) EntityPath);

impl TryFrom<String> for EntityPathText {
    type Error = consign_core::message::InvalidArgument;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        EntityPath::new(&path).map(Self)
    }
}

impl From<EntityPathText> for String {
    fn from(path: EntityPathText) -> Self {
        path.0.to_string()
    }
}

impl Spec {
    pub(super) fn begins_at(&self) -> Timestamp {
        Timestamp::from_millis(self.begins_at)
    }

    pub(super) fn created_at(&self) -> Timestamp {
        Timestamp::from_millis(self.created_at)
    }

    pub(super) fn last(&self) -> SequenceNumber {
        SequenceNumber::new(self.last)
    }

    /// What it does, for people.
    pub(super) fn title(&self) -> String {
        let entity = &self.entity.0;
        let matching = self.matching;
        let what = match (&self.group, self.number) {
            (_, Some(number)) => format!("dead letter {number} of {entity}"),
            (Some(_), None) if self.is_cut => format!("the first {matching} of a group of dead letters of {entity}"),
            (Some(_), None) => format!("a group of dead letters of {entity}"),
            (None, None) if self.is_cut => format!("the first {matching} dead letters of {entity}"),
            (None, None) => format!("all dead letters of {entity}"),
        };
        match self.action {
            Action::Resubmit => format!("Resubmit {what} to {}", self.target.0),
            Action::Remove => format!("Remove {what}"),
            Action::Purge => format!("Remove the messages of {entity}"),
        }
    }
}
