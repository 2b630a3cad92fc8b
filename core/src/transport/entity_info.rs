/// The entity that a receiver receives from: its name for log lines, and how often it delivers a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityInfo {
    /// The path of the queue or subscription. `None` if the receiver does not have it.
    pub name: Option<Box<str>>,
    /// After how many failed deliveries a message is dead-lettered. `None` if the receiver does not have it, or if its
    /// transport cannot dead-letter with a description.
    pub max_delivery_count: Option<u32>,
}

impl EntityInfo {
    /// The entity with this path.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self { name: Some(name.into()), max_delivery_count: None }
    }

    /// Adds after how many failed deliveries a message is dead-lettered.
    #[must_use]
    pub fn max_delivery_count(mut self, deliveries: u32) -> Self {
        self.max_delivery_count = Some(deliveries);
        self
    }
}
