//! A tower stack around a message broker.
