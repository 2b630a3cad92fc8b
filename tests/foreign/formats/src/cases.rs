//! The list of cases.

use consign::cloud_events::{Mode, Prefix};

use crate::{
    asyncapi, cloud_events, encodings, encrypted, environment::Environment, nats, rabbitmq, suite::Case, traces,
};

macro_rules! cases {
    ($($name:literal: $module:ident :: $run:ident $(( $($argument:expr),+ ))?;)*) => {
        &[$(Case { name: $name, run: |env| Box::pin($module::$run(env $(, $($argument),+)?)) }),*]
    };
}

pub(crate) const CASES: &[Case<Environment>] = cases! {
    "kombu sends JSON": rabbitmq::from_kombu("json");
    "kombu sends MessagePack": rabbitmq::from_kombu("msgpack");
    "kombu reads JSON": rabbitmq::to_kombu;
    "pika sends every property": rabbitmq::from_pika;
    "pika reads every property": rabbitmq::to_pika;

    "pika calls, with a queue for replies": rabbitmq::called_by_pika("queue");
    "pika calls, with direct replies": rabbitmq::called_by_pika("direct");

    "nats-py sends JSON": nats::from_python;
    "nats-py reads JSON": nats::to_python;

    "CloudEvents of Python, AMQP binding, structured": cloud_events::from_python("amqp", "structured");
    "CloudEvents of Python, AMQP binding, binary": cloud_events::from_python("amqp", "binary");
    "CloudEvents of Python, RabbitMQ binding, structured": cloud_events::from_python("rabbitmq", "structured");
    "CloudEvents of Python, RabbitMQ binding, binary": cloud_events::from_python("rabbitmq", "binary");
    "CloudEvents of Python, NATS, binary": cloud_events::from_python_by_nats;
    "CloudEvents of Python, batch": cloud_events::batch_from_python;
    "CloudEvents of JavaScript: binary, structured, batch": cloud_events::from_node;
    "Python reads CloudEvents, AMQP binding, structured": cloud_events::to_python("amqp", Mode::Structured);
    "Python reads CloudEvents, AMQP binding, binary": cloud_events::to_python("amqp", Mode::Binary);
    "Python reads CloudEvents, AMQP binding, colons": cloud_events::to_python("amqp", Mode::BinaryWith(Prefix::Colon));
    "Python reads CloudEvents, RabbitMQ binding, structured": cloud_events::to_python("rabbitmq", Mode::Structured);
    "Python reads CloudEvents, RabbitMQ binding, binary":
        cloud_events::to_python("rabbitmq", Mode::BinaryWith(Prefix::Ce));
    "Python reads CloudEvents, NATS, binary": cloud_events::to_python_by_nats;
    "Python reads CloudEvents, batch": cloud_events::batch_to_python;
    "JavaScript reads CloudEvents: binary, structured, batch": cloud_events::to_node;

    "a trace of Python goes on through RabbitMQ": traces::from_python_by_rabbitmq;
    "a trace goes on in Python through RabbitMQ": traces::to_python_by_rabbitmq;
    "a trace of Python goes on through NATS": traces::from_python_by_nats;
    "a trace goes on in Python through NATS": traces::to_python_by_nats;

    "gzip of Python": encodings::from_python("gzip", "one-shot");
    "gzip of Python, level 1": encodings::from_python("gzip", "level 1");
    "gzip of Python, with a name and a time": encodings::from_python("gzip", "with a name and a time");
    "gzip of Python, two members": encodings::from_python("gzip", "two members");
    "zlib of Python": encodings::from_python("deflate", "zlib");
    "zlib of Python, without a header": encodings::from_python("deflate", "raw");
    "zstandard of Python": encodings::from_python("zstd", "one-shot");
    "zstandard of Python, level 19": encodings::from_python("zstd", "level 19");
    "zstandard of Python, checksum": encodings::from_python("zstd", "checksum");
    "zstandard of Python, no content size": encodings::from_python("zstd", "no content size");
    "zstandard of Python, stream": encodings::from_python("zstd", "stream");
    "zstandard of Python, two frames": encodings::from_python("zstd", "two frames");
    "zstandard of Python, behind a skippable frame": encodings::from_python("zstd", "behind a skippable frame");
    "Python reads gzip": encodings::to_python("gzip");
    "Python reads deflate": encodings::to_python("deflate");
    "Python reads zstandard": encodings::to_python("zstd");

    "signed and encrypted messages, by cryptography": encrypted::python;
    "signed and encrypted messages, by node:crypto": encrypted::node;

    "the schema of AsyncAPI accepts a document": asyncapi::validated;
};
