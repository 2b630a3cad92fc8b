//! AsyncAPI documents of pipelines.

use std::collections::BTreeSet;

use consign::{
    BuildErrorKind as Kind,
    asyncapi::AsyncApi,
    codecs::{Codecs, Json, MessagePack},
    middleware::encode::EncodeLayer,
    pipeline::{Pipeline, PipelineDescription},
    routing::{Body, Ignore, Router, Routes, Typed},
    transport::SendError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::service_fn;

use super::{Event, codecs};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Refund {
    id: u64,
    reason: Reason,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Reason {
    Broken,
    Late { days: u32 },
}

async fn refunded(Body(_): Body<Refund>) {}
async fn counted(Body(_): Body<u64>) {}
async fn event(_: Typed<Event>) {}

fn receiving() -> PipelineDescription {
    let router = Router::new(codecs())
        .route("refund/created", refunded)
        .route("refund:created", counted)
        .types(event)
        .fallback(Ignore)
        .build()
        .unwrap();
    Pipeline::receiving("warehouse").destination("shop/orders").router(router).unwrap().describe().clone()
}

fn sending(name: &str) -> PipelineDescription {
    let pipeline = Pipeline::sending(name).sends::<Event>().layer(EncodeLayer::new(codecs()));
    let transport = service_fn(async |_: consign::Message| Ok::<_, SendError>(()));
    pipeline.service(transport).unwrap().describe().clone()
}

/// Rules: J-270, J-271.
#[test]
fn a_document_has_channels_operations_messages_and_schemas() {
    let document = AsyncApi::new("Shop", "1.0.0")
        .description("All of it.")
        .server("production", "[2001:db8::1]:5671", "amqps")
        .pipeline(&receiving())
        .pipeline(&sending("shop_orders"))
        .pipeline(&sending("shop/orders"))
        .schema::<Refund>("refund/created")
        .schema_value("order.shipped", json!({ "type": "integer" }).try_into().unwrap())
        .build()
        .unwrap();
    let value = document.as_value();
    assert_eq!(value["info"], json!({ "title": "Shop", "version": "1.0.0", "description": "All of it." }));
    assert_eq!(value["servers"]["production"], json!({ "host": "[2001:db8::1]:5671", "protocol": "amqps" }));
    let address = |channel: &str| value["channels"][channel]["address"].as_str().unwrap();
    assert_eq!((address("shop_orders"), address("shop_orders.2")), ("shop/orders", "shop_orders"));
    let messages = &value["channels"]["shop_orders"]["messages"];
    let names: BTreeSet<_> = messages.as_object().unwrap().values().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        BTreeSet::from(["order.created", "order.shipped", "other", "refund/created", "refund:created"]),
        "each once, or as received and as sent"
    );
    let created = &messages["order.created"];
    assert_eq!(
        *created,
        json!({
            "name": "order.created",
            "contentType": "application/json",
            "x-aliases": ["OrderCreated"],
            "x-versions": [1, 2],
            "x-content-types": created["x-content-types"],
            "headers": created["headers"],
        })
    );
    let read: Vec<_> = created["x-content-types"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(read.contains(&"application/json") && read.contains(&"application/msgpack"), "{read:?}");
    assert_eq!(messages["order.shipped"]["contentType"], "application/msgpack");
    assert_eq!(messages["order.shipped"]["payload"], json!({ "type": "integer" }));
    assert_eq!(messages["refund_created"]["payload"], json!({ "$ref": "#/components/schemas/Refund" }));
    assert_eq!(messages["refund_created.2"].get("payload"), None, "a type without a schema");
    let schemas = &value["components"]["schemas"];
    assert_eq!(schemas["Refund"]["properties"]["reason"], json!({ "$ref": "#/components/schemas/Reason" }));
    let operations = value["operations"].as_object().unwrap();
    let actions: Vec<_> = operations.iter().map(|(id, it)| (id.as_str(), it["action"].as_str().unwrap())).collect();
    assert_eq!(
        BTreeSet::from_iter(actions),
        BTreeSet::from([
            ("receive.shop_orders", "receive"),
            ("send.shop_orders", "send"),
            ("send.shop_orders.2", "send")
        ])
    );
    assert_references(value, value);
    assert_eq!(serde_json::from_str::<Value>(&document.to_string()).unwrap(), *value);
}

/// Rules: J-270, J-50.
#[test]
fn the_content_type_is_that_of_the_codec_of_the_type_or_of_the_entity() {
    let layer = EncodeLayer::new(codecs().clone()).codec("msgpack").unwrap();
    let transport = service_fn(async |_: consign::Message| Ok::<_, SendError>(()));
    let pipeline = Pipeline::sending("packed").sends::<Event>().layer(layer).service(transport).unwrap();
    let document = AsyncApi::new("Shop", "1.0.0").pipeline(pipeline.describe()).build().unwrap();
    let messages = &document.as_value()["channels"]["packed"]["messages"];
    assert_eq!(messages["order.created"]["contentType"], "application/msgpack");
    assert_eq!(messages["order.shipped"]["contentType"], "application/msgpack");
}

/// Rules: J-270.
#[test]
fn content_types_that_the_consumer_refuses_are_not_listed() {
    let order = |allow: &[&str]| {
        let set = Codecs::builder().with(Json::default()).with(MessagePack).allow(allow).build().unwrap();
        let router = Router::new(set).route("order", refunded).build().unwrap();
        let pipeline = Pipeline::receiving("orders").router(router).unwrap();
        let document = AsyncApi::new("Shop", "1.0.0").pipeline(pipeline.describe()).build().unwrap();
        let order = &document.as_value()["channels"]["orders"]["messages"]["order"];
        (order.get("contentType").cloned(), order["x-content-types"].clone())
    };
    let [json, packed] = ["application/json", "application/msgpack"].map(|of| Some(Value::from(of)));
    assert_eq!(order(&["application/json"]), (json.clone(), json!(["application/json"])));
    assert_eq!(order(&["application/msgpack"]), (packed, json!(["application/msgpack"])));
    assert_eq!(order(&["application/vnd.order+json"]), (None, json!(["application/vnd.order+json"])));
    let listed = ["application/msgpack", "application/json"];
    assert_eq!(order(&listed), (json, json!(["application/json", "application/msgpack"])));
}

/// Rules: J-270.
#[test]
fn a_nested_fallback_is_a_message_of_other_subjects() {
    let other = |pipeline: &PipelineDescription| {
        let document = AsyncApi::new("Shop", "1.0.0").pipeline(pipeline).build().unwrap();
        document.as_value()["channels"]["orders"]["messages"].get("other").cloned()
    };
    let pipeline = || Pipeline::receiving("orders");
    let router = || Router::new(Codecs::json()).route("a", counted);
    let nested = router().nest("order.", Routes::new().fallback(Ignore)).build().unwrap();
    let found = other(pipeline().router(nested).unwrap().describe());
    assert_eq!(found.unwrap()["summary"], "Messages of other subjects");
    assert_eq!(other(pipeline().router(router().build().unwrap()).unwrap().describe()), None);
}

/// Every `$ref` has a target.
pub(super) fn assert_references(value: &Value, document: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                assert!(document.pointer(target.strip_prefix('#').unwrap()).is_some(), "{target}");
            }
            members.values().for_each(|member| assert_references(member, document));
        }
        Value::Array(items) => items.iter().for_each(|item| assert_references(item, document)),
        _ => {}
    }
}

/// Draft 7 has the types of a tuple in `items`.
/// Rules: J-271.
#[test]
fn a_tuple_is_of_draft_7_wherever_it_is() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Pairs {
        pairs: Vec<(String, u32)>,
    }

    let document = |builder: AsyncApi| {
        let value = builder.pipeline(&receiving()).build().unwrap().as_value().clone();
        assert!(!value.to_string().contains("prefixItems"), "{value}");
        value["channels"]["shop_orders"]["messages"]["refund_created"]["payload"].clone()
    };
    let start = || AsyncApi::new("Shop", "1.0.0");
    let pair = document(start().schema::<(String, u32)>("refund/created"));
    assert_eq!(pair["items"].as_array().map(Vec::len), Some(2), "{pair}");
    let list = document(start().schema_for::<Vec<(String, u32)>>("shop/orders", "refund/created"));
    assert_eq!(list["items"]["items"].as_array().map(Vec::len), Some(2), "{list}");
    document(start().schema::<Pairs>("refund/created"));
}

/// Rules: J-271.
#[test]
fn mistakes_are_errors_that_say_what_to_change() {
    let start = || AsyncApi::new("Shop", "1.0.0").pipeline(&receiving());
    let cases = [
        (
            start().schema::<Refund>("refund.created"),
            Kind::UnknownMessage,
            "a schema is registered for `refund.created`, and no pipeline has that message: name one of its messages",
        ),
        (
            start().schema::<u64>("other").schema::<u32>("other"),
            Kind::DuplicateSchema,
            "`other` has two schemas: register one",
        ),
        (
            start().pipeline(&receiving()),
            Kind::DuplicateOperation,
            "two pipelines receive at `shop/orders`: describe one, or set their destinations",
        ),
        (
            start().server("a", "host", "amqp").server("a", "host", "amqp"),
            Kind::DuplicateServer,
            "two servers are called `a`",
        ),
        (
            start().server("a", "guest:secret@host", "amqp"),
            Kind::Host,
            "the host of the server `a` has to be a name or an address, and a port",
        ),
    ];
    for (builder, kind, advice) in cases {
        let error = builder.build().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, advice));
    }
}

/// Rules: J-270, J-271.
#[test]
fn names_with_one_key_are_told_from_equal_names() {
    let start = || AsyncApi::new("Shop", "1.0.0");
    let servers = start().server("a b", "one", "amqp").server("a_b", "two", "amqp").server("a.b", "three", "amqp");
    let document = servers.build().unwrap();
    let hosts: Vec<_> = document.as_value()["servers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, server)| (key.as_str(), server["host"].as_str().unwrap()))
        .collect();
    assert_eq!(BTreeSet::from_iter(hosts), BTreeSet::from([("a_b", "one"), ("a_b.2", "two"), ("a.b", "three")]));

    let router = Router::new(codecs()).route("other", refunded).fallback(Ignore).build().unwrap();
    let both = Pipeline::receiving("warehouse").router(router).unwrap();
    let router = Router::new(codecs()).route("other", refunded).build().unwrap();
    let one = Pipeline::receiving("warehouse").router(router).unwrap();
    let error = start().pipeline(both.describe()).schema::<Refund>("other").build().unwrap_err();
    assert_eq!(error.kind(), Kind::DuplicateSchema);
    let text = "`other` is a subject and the name of all other messages: leave the schema out, or rename the subject";
    assert_eq!(error.to_string(), text);
    start().pipeline(both.describe()).build().unwrap();
    start().pipeline(one.describe()).schema::<Refund>("other").build().unwrap();
}

/// Rules: J-271, J-272.
#[test]
fn a_schema_of_one_destination_takes_precedence_there() {
    let at = |destination: &str| {
        let router = Router::new(codecs()).route("created", refunded).fallback(Ignore).build().unwrap();
        Pipeline::receiving(destination).router(router).unwrap().describe().clone()
    };
    let start = || AsyncApi::new("Shop", "1.0.0").pipeline(&at("orders")).pipeline(&at("users"));
    let payload =
        |document: &Value, channel: &str| document["channels"][channel]["messages"]["created"]["payload"].clone();
    let document = start().schema_for::<Refund>("orders", "created").schema_for::<u64>("users", "created");
    let document = document.build().unwrap().into_value();
    assert_eq!(payload(&document, "orders"), json!({ "$ref": "#/components/schemas/Refund" }));
    assert_eq!(payload(&document, "users")["type"], "integer");
    assert_references(&document, &document);

    let text = json!({ "type": "string" }).try_into().unwrap();
    let document = start().schema_value_for("users", "created", text).schema::<Refund>("created");
    let document = document.build().unwrap().into_value();
    assert_eq!(payload(&document, "orders"), json!({ "$ref": "#/components/schemas/Refund" }));
    assert_eq!(payload(&document, "users")["type"], "string");

    // All destinations have their own: the one for the name alone is not a mistake.
    let shadowed = start().schema::<u64>("created").schema_for::<u8>("orders", "created");
    shadowed.schema_for::<u8>("users", "created").build().unwrap();

    // A subject with a schema of its own does not make the name of all other messages ambiguous elsewhere.
    let router = Router::new(codecs()).route("other", refunded).build().unwrap();
    let subject = Pipeline::receiving("returns").router(router).unwrap().describe().clone();
    let document = start().pipeline(&subject).schema_for::<Refund>("returns", "other").schema::<u64>("other");
    let document = document.build().unwrap().into_value();
    let other = |channel: &str| document["channels"][channel]["messages"]["other"]["payload"].clone();
    assert_eq!(other("returns"), json!({ "$ref": "#/components/schemas/Refund" }));
    assert_eq!((&other("orders")["type"], &other("users")["type"]), (&json!("integer"), &json!("integer")));
    let error = start().pipeline(&subject).schema::<u64>("other").build().unwrap_err();
    assert_eq!(error.kind(), Kind::DuplicateSchema, "both would get it");

    for (builder, kind, advice) in [
        (
            start().schema_for::<u8>("orders", "created").schema_for::<u8>("orders", "created"),
            Kind::DuplicateSchema,
            "`created` of `orders` has two schemas: register one",
        ),
        (
            start().schema_for::<u8>("order", "created"),
            Kind::UnknownMessage,
            "a schema is registered for `created` of `order`, and no pipeline has that message: name one of its messages",
        ),
        (
            start()
                .schema_for::<u8>("orders", "other")
                .pipeline(&{
                    let router = Router::new(codecs()).route("other", refunded).fallback(Ignore).build().unwrap();
                    Pipeline::receiving("both").router(router).unwrap().describe().clone()
                })
                .schema_for::<u8>("both", "other"),
            Kind::DuplicateSchema,
            "`other` is a subject and the name of all other messages: leave the schema out, or rename the subject",
        ),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, advice));
    }
}

/// Rules: J-41, J-42.
#[test]
fn a_pipeline_describes_its_destination() {
    let router = Router::new(Codecs::json()).route("a", counted).build().unwrap();
    let named = Pipeline::receiving("orders").router(router.clone()).unwrap();
    assert_eq!((named.describe().address(), named.describe().destination.as_deref()), ("orders", None));
    let described = Pipeline::receiving("orders").destination("shop/orders").router(router).unwrap();
    let description = described.describe();
    assert_eq!(description.address(), "shop/orders");
    assert!(description.to_string().starts_with("orders, receiving\ndestination: shop/orders\nlayers"));
    let value = serde_json::to_value(description).unwrap();
    assert_eq!((&value["destination"], &value["router"]["subjects"]), (&json!("shop/orders"), &json!(["a"])));
}
