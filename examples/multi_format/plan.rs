//! Which message is which: everything about a message follows from its number, its event and the seed.

use bytes::Bytes;
use consign::{
    Message,
    codecs::{CodecSet, Codecs},
};

use crate::{events::Event, failure::Failure, format::Format};

#[derive(Debug)]
pub struct Plan {
    events: Vec<Event>,
    messages: usize,
    seed: u64,
    /// Each format with the events that it carries. They take turns.
    turns: Vec<(Format, Vec<usize>)>,
}

impl Plan {
    pub fn new(events: Vec<Event>, messages: usize, seed: u64) -> Self {
        let carried = |format: Format| {
            let events = events.iter().enumerate().filter(|(_, event)| format.carries(event)).map(|(at, _)| at);
            (format, events.collect::<Vec<_>>())
        };
        let turns = Format::ALL.into_iter().map(carried).filter(|(_, events)| !events.is_empty()).collect();
        Self { events, messages, seed, turns }
    }

    pub fn events(&self) -> usize {
        self.events.len()
    }

    pub fn messages(&self) -> usize {
        self.messages
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn formats(&self) -> impl Iterator<Item = Format> {
        self.turns.iter().map(|(format, _)| *format)
    }

    /// The numbers of the messages that this format's producer sends.
    pub fn numbers(&self, format: Format) -> impl Iterator<Item = usize> + Send + use<> {
        let start = self.turns.iter().position(|(turn, _)| *turn == format).unwrap_or(self.messages);
        (start..self.messages).step_by(self.turns.len())
    }

    /// The number of a message, if it is one of this plan's.
    pub fn number(&self, message: &Message) -> Option<usize> {
        message.message_id()?.parse().ok().filter(|number| *number < self.messages)
    }

    pub fn format(&self, number: usize) -> Format {
        self.turns[number % self.turns.len()].0
    }

    pub fn event(&self, number: usize) -> &Event {
        let (_, carried) = &self.turns[number % self.turns.len()];
        &self.events[carried[number / self.turns.len() % carried.len()]]
    }

    /// The ContentType and the body of a message.
    pub fn body<C: CodecSet>(
        &self,
        number: usize,
        codecs: &Codecs<C>,
    ) -> Result<(Option<&'static str>, Bytes), Failure> {
        let mut noise =
            fastrand::Rng::with_seed(self.seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        self.format(number).write(self.event(number), &mut noise, codecs)
    }

    pub fn message<C: CodecSet>(&self, number: usize, codecs: &Codecs<C>) -> Result<Message, Failure> {
        let event = self.event(number);
        let (content_type, body) = self.body(number, codecs)?;
        let mut message = Message::builder().message_id(number.to_string()).subject(event.name.clone());
        if let Some(action) = &event.action {
            message = message.property("action", action.clone().into_owned());
        }
        if let Some(content_type) = content_type {
            message = message.content_type(content_type);
        }
        Ok(message.build(body)?)
    }
}
