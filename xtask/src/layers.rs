//! Which packages of the workspace may depend on which, outside of tests.

use serde_json::Value;

use crate::error::Error;
use crate::workspace::metadata;

/// A package, and the packages of the workspace that it may depend on. Those that are not named here may depend on all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("consign-amqp", &["consign-codecs", "consign-core"]),
    ("consign-core", &[]),
    ("consign-codecs", &[]),
    ("consign-derive", &[]),
    ("consign-rules", &["consign-core"]),
    ("consign-broker", &["consign-core", "consign-rules"]),
    ("consign-amqp10", &["consign-amqp", "consign-core"]),
    ("consign-convert-rdkafka", &["consign-core"]),
    ("consign-convert-sqs", &["consign-core"]),
    ("consign-example-transport", &["consign-core"]),
    ("consign-http", &["consign-core", "consign-rules"]),
    ("consign-nats", &["consign-core", "consign-rules"]),
    ("consign-outbox-postgres", &["consign-amqp", "consign-core", "consign-postgres", "consign-postgres-connect"]),
    ("consign-postgres", &["consign-core", "consign-postgres-connect", "consign-rules"]),
    ("consign-postgres-connect", &[]),
    ("consign-rabbitmq", &["consign-amqp", "consign-core", "consign-rules"]),
    ("consign-servicebus", &["consign-amqp", "consign-core", "consign-http", "consign-rules"]),
    ("consign", &["consign-broker", "consign-codecs", "consign-core", "consign-derive", "consign-rules"]),
];

/// Checks the normal and the build dependencies of every package against [`ALLOWED`].
pub(crate) fn check() -> Result<(), Error> {
    let metadata = metadata()?;
    let refused = refused(&metadata);
    if refused.is_empty() {
        println!("dependencies between the packages of the workspace: ok");
        return Ok(());
    }
    Err(Error::Layers(refused))
}

/// The dependencies that no rule allows, each as `package -> dependency`.
fn refused(metadata: &Value) -> Vec<String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = array(&metadata["packages"]);
    let is_member = |name: &str| packages.iter().any(|package| package["name"] == name);
    let mut refused = Vec::new();
    for (name, allowed) in ALLOWED {
        for package in packages.iter().filter(|package| package["name"] == *name) {
            for dependency in array(&package["dependencies"]) {
                let to = dependency["name"].as_str().unwrap_or_default();
                if dependency["kind"] != "dev" && is_member(to) && !allowed.contains(&to) {
                    refused.push(format!("{name} -> {to}"));
                }
            }
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_transport_must_not_depend_on_the_library_outside_of_tests() {
        let metadata = |kind: Value| {
            json!({ "packages": [
                { "name": "consign", "dependencies": [] },
                { "name": "consign-core", "dependencies": [] },
                { "name": "consign-nats", "dependencies": [
                    { "name": "consign-core", "kind": null },
                    { "name": "async-nats", "kind": null },
                    { "name": "consign", "kind": kind },
                ] },
            ] })
        };
        assert_eq!(refused(&metadata(json!("dev"))), [""; 0]);
        assert_eq!(refused(&metadata(Value::Null)), ["consign-nats -> consign"]);
        assert_eq!(refused(&metadata(json!("build"))), ["consign-nats -> consign"]);
    }
}
