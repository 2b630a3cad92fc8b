//! What the page says of each part: written by hand, kept when the page is written anew.

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
        title: "Instructions of one message",
        text: "From a full queue in memory to a settled delivery, on one thread. Ours is locked when it is received, its codec \
               is chosen by its ContentType and its handler by its subject, and it is completed. RustStream's is received \
               from its broker in memory, decoded by the codec of its subscription and acknowledged; `router` is there a set \
               of messages told apart by a header. Ours has 16 handlers at once, its default, and RustStream one, which is \
               its; in `json_one` and `bytes_one` ours has one too. The clock of ours stands still but in \
               `json_real_clock`, for under callgrind a clock is a system call, of which nothing is counted. The floor is \
               `serde_json::from_slice` into the same type.",
        command: "cargo xtask bench --only json",
    },
    Section {
        part: Part::Allocations,
        title: "Allocations of one message",
        text: "How often memory is asked for, in the same runs. Where tables grow with the number of messages, a part of an \
               allocation falls to each.",
        command: "cargo xtask bench --only json",
    },
    Section {
        part: Part::Release,
        title: "The same without link-time optimization",
        text: "The profile `release` as `cargo build --release` has it: crates are compiled apart, and less is inlined.",
        command: "cargo xtask bench --only release",
    },
    Section {
        part: Part::Layers,
        title: "Layers",
        text: "What one layer costs a message that passes through it untouched, over a stack without layers, whose own cost is \
               in the rows `receiving` and `sending`. All of these are one program. Its clock takes no time to read, and no \
               message is freed in what is counted. The rows below `observed_receiving` and `observed_sending` are those of \
               `consign-opentelemetry`, half of which or more is OpenTelemetry's SDK, over the stacks of a \
               program of its own. A layer that has nothing to do is held to 25 instructions and to no \
               allocation; a figure says little below ten, for the compiler lays each stack out anew. Valgrind has no \
               instructions for SHA-256, which most processors have: nine tenths of `sign`, `verify` and of claims are that.",
        command: "cargo xtask bench --only layers",
    },
    Section {
        part: Part::Row,
        title: "The whole receiving row",
        text: "An order of 1,024 bytes through all of trace, catch panic, lock renewal, expiry, duplicate \
               detection, claim check, decryption and decompression, and into a router that decodes it, from a full \
               queue to a settled delivery. The floor is `decode`, the same without a layer, and the goal is twice \
               that. The rows differ in what a sending stack has made of the order: nobody has a subscriber for \
               spans, and ids and blobs are kept in memory. `cloud_event` and `transcode` are no rows: they say \
               what one body of that size takes.",
        command: "cargo xtask bench --only layers",
    },
    Section {
        part: Part::Codecs,
        title: "Codecs",
        text: "One body, read or written through a set of codecs, beside the crate of its format. `raw` is the crate as its \
               documentation has it, `raw_limits` the crate behind the same limits of depth and length, and a row ending in \
               `limits` is what those cost, and is held to 5 %; a set is held to 2 % over `raw_limits`, the floor, and a codec \
               chosen for each type to 20 % over the crate. `raw_erased` is erased-serde around the crate. `two` has two \
               fields, `1k` is an order of 1 KiB.",
        command: "cargo xtask bench --only codecs",
    },
    Section {
        part: Part::Growth,
        title: "Growth",
        text: "Instructions of one cycle (by default to send, to receive and to complete one message) while the broker holds \
               more and more. What is to stay level may cost 1.2 times as much at the largest size as at the smallest.",
        command: "cargo xtask growth",
    },
    Section {
        part: Part::Wall,
        title: "Wall clock",
        text: "In one process, beside what else carries messages in memory. Wall clock is noisy, the more so on a machine that \
               others use: the peers take turns within a run, a ratio is the median of those of the rounds, and the figures \
               of others are ours by that ratio. The floor is a bounded channel of tokio and `serde_json`, which loses a \
               message whose handler fails. The scenarios, and what each peer guarantees, are at the top of \
               `benches/peers/src/bin/wall/main.rs`.",
        command: "cargo xtask bench --only wall",
    },
    Section {
        part: Part::Times,
        title: "Wall clock of calls, the driver and sends",
        text: "Calls on one thread with so many under way, as percentiles. The consumer with handlers that work in it \
               (`plain`) or in a task that they spawn, 16 or one at once. Sends over a connection with a round trip of 5 ms \
               with so many under way, beside as many tasks that only sleep; the floor is how many there can be. All of it is \
               noisy: look at the order of magnitude.",
        command: "cargo xtask bench --only call` and `cargo xtask bench --only wall",
    },
    Section {
        part: Part::Brokers,
        title: "Durable queues",
        text: "Messages of 1 KiB in windows of 1, 64 and 512: a window is sent, and all of it acknowledged, before the next one \
               is. `send` is that alone; `cycle` is that, and then to receive as many and to complete them. Messages per \
               second, and in brackets how many times that `durable` does, which is the broker of this library on a disk \
               (`Broker::open`): above 1 it is ahead. The contestants take turns; a figure is ours by the median ratio of the \
               rounds. `floor` appends the same bytes to a file and calls `fdatasync` after each window, \
               `redb` is the store under ours alone, and `segments` a prototype of a log in its place, which is in no release: \
               records with checksums, an index in memory, and no engine around it. A completion is acknowledged by all but \
               RabbitMQ, which answers none.",
        command: "cargo xtask bench --only brokers",
    },
    Section {
        part: Part::Transports,
        title: "Transports beside their clients",
        text: "The same windows over servers on loopback, which are the same for both: a transport of this library, with its default \
               options, each message sent and completed by itself, and its client by hand, `rabbitmq` by lapin with publisher \
               confirms and one acknowledgement for all, `nats` by async-nats, `skip-locked` a table whose rows are locked \
               while they are handled and deleted in the same transaction, `pgmq` a table whose rows have a time \
               until which nobody sees them. The goal is 0.95 of the client, and all of the faster of the two tables.",
        command: "cargo xtask bench --only transports",
    },
];
