use super::journal::{Batch, Table, key};
use crate::{
    engine::record::{
        BrokerRecord, CounterRecord, EntityRecord, IdRecord, MessageRecord, MessageView, RecordSink, SessionRecord,
    },
    panics,
};

/// Changes that were taken where the engine is locked, to be encoded where it is not.
///
/// Of a message only a handle is taken, so that the lock is held for as long as there are messages, and not for as long
/// as they are. What else changes is encoded at once: a handle to it would be a copy.
#[derive(Default)]
pub(crate) struct Taken {
    /// Everything but messages.
    rest: Batch,
    messages: Vec<(u64, u64, MessageRecord)>,
}

impl Taken {
    /// How many messages its memory is kept for.
    const KEPT: usize = 4_096;

    /// Moves everything to an empty batch. Messages that have left the broker meanwhile are dropped here.
    pub(crate) fn encode(&mut self, batch: &mut Batch) {
        std::mem::swap(batch, &mut self.rest);
        for (serial, order, MessageRecord { state, message }) in &self.messages {
            let record = MessageView { state: *state, message };
            batch.put(Table::Messages, &key(*serial, *order), |out| record.encode(out));
        }
        panics::release(&mut self.messages);
        self.messages.shrink_to(Self::KEPT);
    }
}

impl RecordSink for Taken {
    fn put_broker(&mut self, record: &BrokerRecord) {
        self.rest.put(Table::Broker, &[], |out| record.encode(out));
    }

    fn put_entity(&mut self, serial: u64, record: &EntityRecord) {
        self.rest.put(Table::Entities, &serial.to_be_bytes(), |out| record.encode(out));
    }

    fn put_counter(&mut self, serial: u64, record: &CounterRecord) {
        self.rest.put(Table::Counters, &serial.to_be_bytes(), |out| record.encode(out));
    }

    fn put_session(&mut self, serial: u64, record: &SessionRecord) {
        self.rest.put(Table::Sessions, &session_key(serial, &record.id), |out| record.encode(out));
    }

    fn put_id(&mut self, serial: u64, number: u64, record: &IdRecord) {
        self.rest.put(Table::Ids, &key(serial, number), |out| record.encode(out));
    }

    fn put_message(&mut self, serial: u64, order: u64, record: MessageView<'_>) {
        let MessageView { state, message } = record;
        self.messages.push((serial, order, MessageRecord { state, message: message.clone() }));
    }

    fn remove_entity(&mut self, serial: u64) {
        self.rest.remove(Table::Counters, &serial.to_be_bytes());
        self.rest.remove(Table::Entities, &serial.to_be_bytes());
    }

    fn remove_session(&mut self, serial: u64, id: &str) {
        self.rest.remove(Table::Sessions, &session_key(serial, id));
    }

    fn remove_id(&mut self, serial: u64, number: u64) {
        self.rest.remove(Table::Ids, &key(serial, number));
    }

    fn remove_message(&mut self, serial: u64, order: u64) {
        self.rest.remove(Table::Messages, &key(serial, order));
    }
}

fn session_key(serial: u64, id: &str) -> Vec<u8> {
    [&serial.to_be_bytes(), id.as_bytes()].concat()
}
