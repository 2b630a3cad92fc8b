use super::journal::{Batch, Table, key};
use crate::engine::record::{
    BrokerRecord, CounterRecord, EntityRecord, IdRecord, MessageView, RecordSink, SessionRecord,
};

impl RecordSink for Batch {
    fn put_broker(&mut self, record: &BrokerRecord) {
        self.put(Table::Broker, &[], |out| record.encode(out));
    }

    fn put_entity(&mut self, serial: u64, record: &EntityRecord) {
        self.put(Table::Entities, &serial.to_be_bytes(), |out| record.encode(out));
    }

    fn put_counter(&mut self, serial: u64, record: &CounterRecord) {
        self.put(Table::Counters, &serial.to_be_bytes(), |out| record.encode(out));
    }

    fn put_session(&mut self, serial: u64, record: &SessionRecord) {
        self.put(Table::Sessions, &session_key(serial, &record.id), |out| record.encode(out));
    }

    fn put_id(&mut self, serial: u64, number: u64, record: &IdRecord) {
        self.put(Table::Ids, &key(serial, number), |out| record.encode(out));
    }

    fn put_message(&mut self, serial: u64, order: u64, record: MessageView<'_>) {
        self.put(Table::Messages, &key(serial, order), |out| record.encode(out));
    }

    fn remove_entity(&mut self, serial: u64) {
        self.remove(Table::Counters, &serial.to_be_bytes());
        self.remove(Table::Entities, &serial.to_be_bytes());
    }

    fn remove_session(&mut self, serial: u64, id: &str) {
        self.remove(Table::Sessions, &session_key(serial, id));
    }

    fn remove_id(&mut self, serial: u64, number: u64) {
        self.remove(Table::Ids, &key(serial, number));
    }

    fn remove_message(&mut self, serial: u64, order: u64) {
        self.remove(Table::Messages, &key(serial, order));
    }
}

fn session_key(serial: u64, id: &str) -> Vec<u8> {
    [&serial.to_be_bytes(), id.as_bytes()].concat()
}
