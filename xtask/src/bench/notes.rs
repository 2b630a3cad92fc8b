//! Notes on scenarios in which this library is slower: written by hand, and part of the generated page.

/// For scenarios that consume messages.
const PEEK_LOCK: &str = "a received message is locked: its place, its delivery count and the end of its lock are stored \
     until it is settled, under the mutex of the broker, and a lost lock is an error. RustStream's broker in memory takes \
     a delivery out of a channel, and acknowledging it drops it. A profile of `bytes` (callgrind) is of a version in which it took 578 \
     instructions. Of these, 82 take a message off its queue, about 150 lock it and create the delivery, 100 complete it, and 250 are \
     the consumer and the handler. The consumer keeps a clone for a dead letter, moves 120 bytes four times and catches \
     panics. The prototype that the goal comes from had no dead letters, no delivery limit, no expiry, no sessions and no \
     forwarding. JSON adds the 853 of serde_json, 75 to check UTF-8, which is faster from about 100 bytes on, and 80 to \
     choose the codec and check the limits.";

/// For messages from one task to another.
const WALL: &str = "a message is stored with its properties and an id, and locked when it is received, so that it is \
     redelivered if its handler fails; the others drop it when it is received. The broker reads the clock and locks its \
     mutex for each send, each receive and each batch of completions. On two threads the consumer is done before the next \
     message arrives, and waits: in the profile (perf), a fifth of the time is spent on waking it and switching threads, \
     and a tenth on copying messages. With bodies of 64 KiB, the other part of the difference is the check of their depth \
     before they are decoded.";

/// For durable queues.
const DURABLE: &str = "`nats` acknowledges messages that are not on the disk: nats-server 2.9 has no `sync_interval`, and \
     syncs about once in two minutes. `nats-synced` is the same server with files that the kernel writes synchronously \
     (`chattr +S`). It was not checked whether each write is on the disk before it is acknowledged. `redb`, `redb-quick` \
     and `segments` run without a broker and without a second thread, and `segments` cannot be opened again. SQLite \
     overwrites its log instead of appending, which allocates no new space, and syncs once per window. \
     A sync of this disk takes 0.1 ms, so processor time counts: the broker takes about 2 µs for each message of a window, \
     which is three times what the floor takes for a window of 512. In windows of 1 it takes 0.04 ms beside the floor on a \
     thread of its own. `bytes` are counted as pages become dirty, in units of up to 1 MiB (the floor writes 1 KiB in \
     windows of 1, and counts 1 MiB). [broker.md](broker.md#what-it-costs-on-a-disk) describes the store.";

/// For RabbitMQ and lapin.
const RABBITMQ: &str = "a message of this library has a MessageId that contains its sequence number, and its time, and is checked \
     against the limits of the model before it is sent. A task awaits the confirms, because lapin gives a returned message to \
     the confirm that it resolves first. A received message is read from the properties of AMQP 0-9-1, and its lock has an \
     entry in a table. Completions that come together are acknowledged by one frame, as the client acknowledges a window. In \
     the profile (perf) of windows of 512, the thread that reads and writes the connection, which both have, takes half of the \
     processor time of this library. Of the other half, lapin's publishing takes 27 %, the task of the confirms 14 % besides \
     that, writing the messages 4 %, reading and locking them 11 %, and completing them 8 %.";

/// For PostgreSQL and hand-written tables.
const POSTGRES: &str = "`skip-locked` writes nothing when it receives: a row is locked while its transaction lasts, and a connection serves \
     one handler at a time. `pgmq` writes each row when it is received. This library writes a row when it is sent and \
     deletes it when it is completed, and beside it one row for each send and one for each receive. The row is in a table \
     with one index, and a send is one statement, which looks up the entity and its limits. In windows of 64 and 512 the \
     server takes less time than with `pgmq`. The fixed cost of a call is higher, as windows of 1 show: a receive looks for \
     what is due, gives numbers without gaps, and stores a lock. In the profile (callgrind, a server in single-user mode) a \
     receive of one message takes twice the instructions of `pgmq`. A third of them set up its plans, which have twelve \
     index scans and three writes. A send takes twice as many too, and a completion four times. In the client each message \
     is a call of its own with an id, and its properties are written and read as JSON.";

/// The name or the prefix of a scenario, and the reason.
const NOTES: &[(&str, &str)] = &[
    ("json", PEEK_LOCK),
    ("bytes", PEEK_LOCK),
    ("one_layer", PEEK_LOCK),
    ("four_layers", PEEK_LOCK),
    ("router", PEEK_LOCK),
    ("batch_64", PEEK_LOCK),
    (
        "reply",
        "in addition to the lock, the sent value becomes a stored message with properties, in a queue with a quota and \
         expiry; RustStream puts it into a channel.",
    ),
    (
        "round_trip",
        "each call creates, stores, locks and settles two messages, in three tasks that wake each other, and encodes and \
         decodes values on both sides; RustStream's requester sends and receives bytes. In the profile \
         (callgrind) the broker takes 3,000, JSON 2,700, the `rpc` module 2,100, messages 1,100, the consumer loops 1,000, \
         reading the clock 1,000 and the runtime 600.",
    ),
    (
        "layers/",
        "in the profile (callgrind) of `retry`, 27 instructions drop the copy for a further attempt, 26 create and check \
         the state of the future, 18 copy the message and 15 count references. The other layers do the same steps with \
         less state. If a layer either passes a message on or refuses it, its future is an enum, and moving the inner \
         future into it takes 10 to 15. None allocates.",
    ),
    (
        "row/",
        "in the profile (callgrind), everything except decompression, decryption and claims takes the 2,200 instructions \
         of `untouched`. For gzip, a third builds the two Huffman tables of each body, 40 % decodes, and a fifth clears \
         the memory of the tables and of the body, which callgrind counts byte by byte. zstd takes a third of that, and 5 \
         allocations. A claim adds a digest of the encrypted body: 70,000 for 1 KiB, because valgrind has no instructions \
         for SHA-256, which most processors have. Decryption takes 18,000. Compression saves work of the broker and the \
         network, which is not counted here.",
    ),
    ("wall/", WALL),
    ("brokers/", DURABLE),
    ("transports/rabbitmq", RABBITMQ),
    ("costs/rabbitmq", RABBITMQ),
    ("transports/nats", "the differences are a few percent, which is the noise of one run."),
    ("costs/nats", "the differences are a few percent, which is the noise of one run."),
    ("transports/postgres", POSTGRES),
    ("costs/postgres", POSTGRES),
    (
        "codecs/",
        "the limits of depth and length are checked before or while a body is decoded. For a value that is decoded in few \
         instructions, these checks are a visible part of the cost, and so are the 30 to 55 instructions to choose the \
         codec. In formats with declared lengths, every length is compared with the remaining bytes and with the limit \
         before it is used.",
    ),
];

/// Returns the note for a scenario: the one with the longest matching prefix.
pub(crate) fn note(scenario: &str) -> Option<&'static str> {
    let matching = NOTES.iter().filter(|(name, _)| scenario.starts_with(name));
    matching.max_by_key(|(name, _)| name.len()).map(|(_, note)| *note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_note_is_taken() {
        assert!(note("round_trip_100k").is_some());
        assert!(note("codecs/json/two/owned").is_some());
        assert!(note("wall/throughput_256_one").is_some());
        assert_eq!(note("no such scenario"), None);
    }
}
