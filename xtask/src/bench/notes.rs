//! What the page says of scenarios in which ours is behind: written by hand, kept when the page is written anew.

/// Holds of whatever is consumed.
const PEEK_LOCK: &str = "a message is locked when it is received: its place, the count of its deliveries and the end of its lock are kept until it \
     is settled, under the lock of the broker, and a lost lock is an error. RustStream's broker in memory takes a delivery out \
     of a channel, and to acknowledge it is to drop it. By the profile of `bytes` (callgrind), of 578 instructions 82 take a \
     message off its queue, about 150 lock it and make the delivery, 100 complete it, and 250 are the driver, which keeps a \
     clone for a dead letter, moves 120 bytes four times and looks for a panic, and the handler. What the goal was set by had \
     no dead letters, no limit of deliveries, no expiry, no sessions and no forwarding to ask about. JSON adds the 853 of \
     serde_json, 75 for the check of UTF-8 that pays from about 100 bytes on, and 80 to choose the codec and hold the limits.";

/// Holds of messages from one task to another.
const WALL: &str = "a message is stored with its properties and an id, and locked when it is received, so that it comes again if its handler \
     fails; the others forget it when it is taken. The broker reads the clock and takes its lock for each send, each receive \
     and each step of completions. On two threads the consumer is done before the next message is there, and waits: by the \
     profile (perf) a fifth of the time goes into waking it and switching threads, and a tenth into copying messages. In \
     bodies of 64 KiB what remains is the look at their depth before they are read.";

/// Holds of durable queues.
const DURABLE: &str = "`nats` acknowledges what is not on the disk: nats-server 2.9 knows no `sync_interval`, and syncs about once in two \
     minutes. `nats-synced` is the same server with its files written through by the kernel (`chattr +S`); that each write is down before \
     it is acknowledged was not looked at. \
     `redb`, `redb-quick` and `segments` have no engine and no second thread around them, and `segments` cannot be opened \
     again. SQLite writes over its log instead of appending, which needs no new room, and once a window. What ours \
     does beside redb is in [broker.md](broker.md#what-it-costs-on-a-disk): a commit of ours syncs twice, so that a damaged \
     last commit is told from one that was cut off, and writes four tables.";

/// Holds of RabbitMQ beside lapin.
const RABBITMQ: &str = "a message of ours has an id, a sequence number and a time among its headers, and is checked against the limits \
     of the model before it is sent. It is settled by itself, where the client acknowledges a window by one frame, and it is asked \
     for when the receiver is, where the client is sent messages all the time. What each of these takes was not profiled.";

/// Holds of PostgreSQL beside tables by hand.
const POSTGRES: &str = "`skip-locked` writes nothing when it receives: a row is locked while its transaction lasts, and a connection \
     serves one handler at a time. Ours and `pgmq` write the row. By `auto_explain`, of 17.2 ms in which ours receives 512 \
     messages 14.7 are that write: a new copy of the row with its body, and an entry in three indexes, by id, by number, and by the \
     end of the lock. A send looks the entity and its limits up, and reads properties as JSON. Numbers without gaps take one more \
     row for each batch.";

/// The name of a scenario, or what names begin with, and why.
const NOTES: &[(&str, &str)] = &[
    ("json", PEEK_LOCK),
    ("bytes", PEEK_LOCK),
    ("one_layer", PEEK_LOCK),
    ("four_layers", PEEK_LOCK),
    ("router", PEEK_LOCK),
    ("batch_64", PEEK_LOCK),
    (
        "reply",
        "beside the lock, what is sent becomes a stored message with properties and a place in a queue that counts and \
         expires; RustStream's is put into a channel.",
    ),
    (
        "round_trip",
        "two messages are made, stored, locked and settled for each call, by three tasks that wake each other, and values are \
         encoded and decoded on both sides; of RustStream the requester sends and gets bytes. By the profile JSON takes 3,300, \
         the broker 5,000, ten readings of the clock 1,400, the runtime 1,700, the drivers 1,300 and calls themselves 1,800. \
         JSON, the wake-ups and the clock alone are above the goal.",
    ),
    (
        "layers/",
        "by the profile (callgrind), of what `retry` takes 27 drop what is kept for a further attempt, 26 make the state of the \
         future and look at it, 18 copy the message and 15 count references up and down; the others keep less, and do the \
         same with it. A future that is a choice, as between handed on and refused, has the one inside moved into it, which \
         takes 10 to 15. None allocates.",
    ),
    (
        "row/",
        "by the profile (callgrind), all that is not of the format itself is the 2,200 of `untouched`. Of what gzip takes, a \
         third builds the two tables of Huffman codes that each body brings with it, 40 % read the codes, and a fifth clears \
         the memory of those tables and of the body, which callgrind counts byte by byte. zstd takes a third of that, and 5 \
         allocations. A claim adds a digest of what was encrypted: 70,000 for 1 KiB, for valgrind has no instructions for \
         SHA-256, which most processors have. To decrypt takes 18,000; compression before it pays by what the broker and \
         the network carry.",
    ),
    ("wall/", WALL),
    ("brokers/", DURABLE),
    ("transports/rabbitmq", RABBITMQ),
    ("transports/nats", "what is ahead is so by a few percent, which is the noise of one run."),
    ("transports/postgres", POSTGRES),
    (
        "codecs/",
        "the limits of depth and of lengths look at a body before it is read, or while it is; where a value takes only a \
         few instructions they show, and so do the 30 to 55 of choosing the codec. For the formats that say lengths every \
         length is checked against what is left and against the limit before it is believed.",
    ),
];

/// The note for a scenario: the one whose name begins most like it.
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
