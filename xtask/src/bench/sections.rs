//! The texts of each part of the page, written by hand.

use super::figure::Part;

/// A part of the page.
pub(crate) struct Section {
    pub(crate) part: Part,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// The command that measures it again.
    pub(crate) command: &'static str,
}

pub(crate) const SECTIONS: &[Section] = &[
    Section {
        part: Part::Counted,
        title: "Instructions per message",
        text: "From a full queue in memory to a settled delivery, on one thread. This library locks the message when it \
               is received, chooses its codec by ContentType and its handler by subject, and completes it. RustStream \
               receives it from its broker in memory, decodes it by the codec of its subscription and acknowledges it; \
               its `router` chooses a handler by a header. This library runs up to 16 handlers at once, its default, and \
               RustStream one, its default; in `json_one` and `bytes_one` this library runs one too. The clock of this \
               library does not advance except in `json_real_clock`, because callgrind counts no instructions of a system \
               call. The floor is `serde_json::from_slice` into the same type.",
        command: "cargo xtask bench --only counted",
    },
    Section {
        part: Part::Allocations,
        title: "Allocations per message",
        text: "The number of allocations, in the same runs. If a table grows with the number of messages, each message has \
               a fraction of an allocation.",
        command: "cargo xtask bench --only counted",
    },
    Section {
        part: Part::Release,
        title: "Without link-time optimization",
        text: "The profile `release` of `cargo build --release`: crates are compiled separately, and fewer functions are \
               inlined.",
        command: "cargo xtask bench --only release",
    },
    Section {
        part: Part::Layers,
        title: "Layers",
        text: "The cost of one layer for a message that it passes on unchanged: the difference from a stack without \
               layers. The cost of that stack is in the rows `receiving` and `sending`. All of these are one program. Its \
               clock takes no time to read, and freeing messages is not counted. The rows below `observed_receiving` and \
               `observed_sending` are layers of `consign-opentelemetry`, in a program of its own; half of their cost or \
               more is OpenTelemetry's SDK. The goal for a layer that does not act on the message is 25 instructions and \
               no allocation. Figures below ten are not significant, because the compiler lays out each stack \
               differently. Valgrind has no instructions for SHA-256, which most processors have: nine tenths of `sign`, \
               `verify` and of claims are SHA-256.",
        command: "cargo xtask bench --only layers",
    },
    Section {
        part: Part::Row,
        title: "The full receive stack",
        text: "An order of 1,024 bytes passes through the full receive stack: trace, catch panic, lock renewal, expiry, \
               duplicate detection, claim check, decryption, decompression and a router that decodes it, from a full queue \
               to a settled delivery. The floor is `decode`, the same without layers, and the goal is twice that. The rows \
               differ in the layers of the sender. There is no subscriber for spans, and ids and blobs are in memory. \
               `cloud_event` and `transcode` are not stacks: they are the cost of one body of that size.",
        command: "cargo xtask bench --only layers",
    },
    Section {
        part: Part::Codecs,
        title: "Codecs",
        text: "One body, decoded or encoded through a set of codecs, compared with the crate of its format. `raw` is the \
               crate as in its documentation, and `raw_limits` the crate with the same limits of depth and length. A row \
               that ends in `limits` is the cost of these limits, with a goal of 5 %. The goal of a set is 2 % more than \
               `raw_limits`, the floor. The goal of a codec that is chosen for each type is 20 % more than the crate. \
               `raw_erased` is erased-serde around the crate. `two` has two fields, `1k` is an order of 1 KiB.",
        command: "cargo xtask bench --only codecs",
    },
    Section {
        part: Part::Amqp,
        title: "AMQP 1.0",
        text: "`consign-amqp` and the codec of fe2o3-amqp, `serde_amqp` with `fe2o3-amqp-types`. The message is one \
               that Service Bus delivers: header, delivery annotations, message annotations, properties, 5 application \
               properties and 1 KiB of data. Decoding decodes every section. This library decodes texts and the body as \
               slices of the input, and fe2o3-amqp copies them. A transfer takes the encoded message from the engine of \
               a client to that of a server, with a flow for each 100 deliveries; copying the frames once, as a socket \
               does, is included. The engine of fe2o3-amqp runs on tokio, and is not measured. The goals are a third of \
               the instructions of fe2o3-amqp, and no allocation for a settled delivery. `send` and `receive` are \
               messages a second over loopback by wall clock: the clients of both libraries take turns with the same \
               server, and encode or decode every section of each message. `engine` is a server without queues on the \
               engine of this library, and `RabbitMQ` the plugin `rabbitmq_amqp1_0` at the address in `CONSIGN_AMQP10`; \
               the goal is twice the messages of fe2o3-amqp.",
        command: "cargo xtask bench --only amqp",
    },
    Section {
        part: Part::Growth,
        title: "Growth",
        text: "Instructions of one cycle while the number of messages, or of other items, in the broker grows. A cycle \
               sends, receives and completes one message unless the table says otherwise. Where the cost should be \
               constant, the goal is a ratio of at most 1.2 between the largest and the smallest size.",
        command: "cargo xtask growth",
    },
    Section {
        part: Part::Wall,
        title: "Wall clock",
        text: "Compared with other libraries that pass messages in memory, in one process. Wall-clock times are noisy, \
               especially on a shared machine. So the libraries take turns within a run, a ratio is the median of the \
               rounds, and the figures of other libraries are computed from this library's figure and the ratio. The floor \
               is a bounded channel of tokio with `serde_json`, which loses a message whose handler fails. \
               `benches/peers/src/bin/wall/main.rs` describes the scenarios and the guarantees of each library.",
        command: "cargo xtask bench --only wall",
    },
    Section {
        part: Part::Times,
        title: "Wall clock of calls, the consumer and sends",
        text: "`in_flight_N` is the latency of a call with N calls in flight on one thread, as percentiles. `driver` is \
               the consumer on one thread and on two, with 16 handlers at once that run in its task. It is compared with \
               one handler at a time (`plain_1`), and with handlers that spawn a task for their work (`spawn_1`, \
               `spawn_16`). `pipelining_N` is the rate of sends over a connection with a round trip of 5 ms and N sends \
               in flight, compared with N tasks that only sleep; the floor is the theoretical maximum. All of these are \
               noisy: only the order of magnitude counts.",
        command: "cargo xtask bench --only call` and `cargo xtask bench --only wall",
    },
    Section {
        part: Part::Brokers,
        title: "Durable queues",
        text: "Messages of 1 KiB in windows of 1, 64 and 512: a window is sent, and acknowledged as a whole, before the \
               next one. `send` only sends; `cycle` also receives and completes the messages. The figures are messages \
               per second, and in brackets the ratio to `durable`, the broker of this library on a disk (`Broker::open`): \
               above 1 the other one is faster. The brokers take turns, and a ratio is the median of the rounds. `floor` \
               writes the same bytes to a preallocated file, again and again, and calls `fdatasync` after each window; \
               `floor-handed` does so on a thread of its own, and `append` on a file that grows. `redb` and `fjall` are \
               storage libraries alone, and `segments` a prototype of a log, which is not released: records with \
               checksums, and an index in memory, without a broker. All of them confirm a completion, except RabbitMQ. \
               `bytes` are those written for a byte of a message while windows are sent, and `first bytes` those of the \
               first round, in which files are made. `16 senders` are tasks that each wait for one message at a time. \
               The goal is 0.8 of the floor for a send and 0.5 for a cycle, 1.3 bytes, and 8 times one task.",
        command: "cargo xtask bench --only brokers",
    },
    Section {
        part: Part::Transports,
        title: "Transports and their clients",
        text: "The same windows with servers on loopback, for a transport of this library and for its client. The \
               transport has its default options, and each message is sent and completed on its own. The clients are \
               `rabbitmq`: lapin with publisher confirms and one acknowledgement per window; `nats`: async-nats; \
               `skip-locked`: a table whose rows are locked while they are handled, and deleted in the same transaction; \
               `pgmq`: a table whose rows are invisible until a given time. The goal is 0.95 of the client's rate, and the \
               rate of the faster of the two tables.",
        command: "cargo xtask bench --only transports",
    },
    Section {
        part: Part::Costs,
        title: "CPU time of transports and their clients",
        text: "The CPU time of the client's process and of the server's processes in the same runs, per message. It shows \
               what wall clock hides while both have a core of their own. `of 64 bytes` and `of 65536 bytes` are windows of \
               64 with bodies of other sizes. In `16 to 16`, 16 senders and 16 receivers work at the same time, each on one \
               message after the other.",
        command: "cargo xtask bench --only transports",
    },
    Section {
        part: Part::Kinds,
        title: "Kinds of messages",
        text: "The time of a message from its send to its completion, one after the other, on servers on loopback. The floor is \
               the time of as many plain messages as it takes by hand: two for a dead letter, which is received from the \
               dead-letter queue, and for a call, which is a request and its reply in the same process; otherwise one. An \
               abandoned message is received twice. Scheduled messages are sent 2 s ahead, and the pause between the last send \
               and this time is not counted; NATS does not support them. `a session each` accepts a session and closes it for each message, and `in a \
               session` once for 200 messages. On RabbitMQ, an accept that finds the slot of its session closed opens two \
               channels, declares the exclusive queue that locks the slot, and reads its notes; the close ends all of that. On \
               NATS it writes a record and creates a consumer, which the close deletes. An abandoned message of NATS has a \
               record of its failed delivery.",
        command: "cargo xtask bench --only transports/kinds",
    },
    Section {
        part: Part::Depth,
        title: "Growth of transports",
        text: "The time of a message while 1,000 to 1,000,000 others of 64 bytes wait, in windows of 64 that are sent, received \
               and completed, and the time of a session of one message while 10 to 10,000 other sessions wait, from the send to \
               the close. A figure is how often the first size's time is in the last one's. The memory of a message in flight \
               is measured with 8,192 that are received and not settled: that of the client has the message, that of the \
               server is what it needs beside the waiting message.",
        command: "cargo xtask bench --only transports/depth",
    },
    Section {
        part: Part::Rest,
        title: "Idle receivers",
        text: "What receivers cost that wait on a queue each, in one process: the tasks of the runtime, how often it wakes up, \
               the requests that the server gets, if it counts them, the memory of a queue at both ends, and the CPU time of \
               both ends as a share of a core. They have waited for 40 s before it is measured.",
        command: "cargo xtask bench --only transports/rest",
    },
];
