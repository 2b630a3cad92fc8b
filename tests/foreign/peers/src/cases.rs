//! The list of cases. Each is a function of a module, beside a program in Python of that module's name.

use crate::{calls, environment::Environment, sessions, suite::Case};

pub(crate) const CASES: &[Case<Environment>] = &[
    Case { name: "pika: 100 calls at once, by the tutorial", run: |env| Box::pin(calls::of_pika(env, "queue")) },
    Case { name: "pika: 100 calls at once, direct replies", run: |env| Box::pin(calls::of_pika(env, "direct")) },
    Case { name: "nats-py: 100 requests at once", run: |env| Box::pin(calls::of_nats(env)) },
    Case { name: "nats-py: 100 calls at once, to a stream", run: |env| Box::pin(calls::of_jetstream(env)) },
    Case { name: "pika: sessions by the README, two consumers", run: |env| Box::pin(sessions::of_pika(env)) },
];
