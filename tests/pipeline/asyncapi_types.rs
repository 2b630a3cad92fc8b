//! Types in AsyncAPI documents: their versions, and their schemas as they are read and as they are written.

use consign::{
    Message,
    asyncapi::AsyncApi,
    codecs::Codecs,
    message::EntityPath,
    message_types::MessageTypes,
    middleware::encode::EncodeLayer,
    pipeline::{Pipeline, PipelineDescription},
    routing::{Body, Router, Typed},
    rpc::{Reply, Responder},
    transport::SendError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::service_fn;

use super::asyncapi::assert_references;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    #[serde(rename(serialize = "sent", deserialize = "received"))]
    id: u64,
    #[serde(skip_deserializing)]
    link: Option<Link>,
    line: Line,
    parcel: Parcel,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Link {
    href: String,
}

/// It refers to itself.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Line {
    sku: String,
    parts: Vec<Line>,
}

/// It refers to a type that differs.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Parcel {
    weight: Weight,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Weight {
    #[serde(default)]
    grams: u64,
}

impl From<u64> for Order {
    fn from(id: u64) -> Self {
        let (line, parcel) = (Line { sku: String::new(), parts: Vec::new() }, Parcel { weight: Weight { grams: 1 } });
        Self { id, link: None, line, parcel }
    }
}

#[derive(MessageTypes)]
#[message(property = "kind")]
enum Event {
    #[message("created", alias = "Created", version = 2, from(1 = u64))]
    Created(Order),
    #[message("shipped", version = 1)]
    Shipped(u64),
}

async fn event(_: Typed<Event>) {}
async fn taken(Body(_): Body<u64>) {}
async fn answered(Body(_): Body<Order>) -> Reply<Order> {
    Reply(7.into())
}

fn receiving() -> PipelineDescription {
    let router = Router::new(Codecs::json()).types(event).build().unwrap();
    Pipeline::receiving("in").router(router).unwrap().describe().clone()
}

fn sending() -> PipelineDescription {
    let pipeline = Pipeline::sending("out").sends::<Event>().layer(EncodeLayer::new(Codecs::json()));
    let transport = service_fn(async |_: Message| Ok::<_, SendError>(()));
    pipeline.service(transport).unwrap().describe().clone()
}

fn routed() -> PipelineDescription {
    let router = Router::new(Codecs::json()).route("a", taken).route("b", taken).route("c", taken).route("d", taken);
    Pipeline::receiving("in").router(router.build().unwrap()).unwrap().describe().clone()
}

fn document(builder: AsyncApi) -> Value {
    let document = builder.build().unwrap().into_value();
    assert_references(&document, &document);
    document
}

fn start() -> AsyncApi {
    AsyncApi::new("Shop", "1.0.0")
}

/// Rules: J-276.
/// A body of the newest version without the property would be read as one of the first.
#[test]
fn the_headers_are_those_of_a_body_of_the_newest_version() {
    let document = document(start().pipeline(&receiving()).pipeline(&sending()).schema::<Order>("created"));
    let message = |channel: &str, name: &str| document["channels"][channel]["messages"][name].clone();

    let created = message("in", "created");
    let version = json!({
        "type": "integer", "const": 2, "description": "A message without it has a body of version 1",
    });
    let kind = json!({ "type": "string", "enum": ["created", "Created"] });
    let properties = json!({ "kind": kind, "x-message-version": version });
    let required = json!(["kind", "x-message-version"]);
    let expected = json!({ "type": "object", "properties": properties, "required": required });
    assert_eq!(created["headers"], expected);
    assert_eq!((&created["x-aliases"], &created["x-versions"]), (&json!(["Created"]), &json!([1, 2])));
    assert_eq!(created["payload"]["$ref"], "#/components/schemas/Order");
    let shipped = message("in", "shipped");
    assert_eq!(shipped["headers"]["properties"]["x-message-version"], json!({ "type": "integer", "const": 1 }));
    assert_eq!(shipped["headers"]["required"], json!(["kind"]), "the only version needs no property");
    assert_eq!(shipped.get("x-versions"), None);

    let created = message("out", "created");
    let kind = json!({ "type": "string", "const": "created" });
    let properties = json!({ "kind": kind, "x-message-version": { "type": "integer", "const": 2 } });
    assert_eq!(created["headers"], json!({ "type": "object", "properties": properties, "required": required }));
    assert_eq!((created.get("x-aliases"), created.get("x-versions")), (None, None), "it is sent by its name");
    assert_eq!(message("out", "shipped")["headers"]["required"], required);
}

/// Rules: J-277.
#[test]
fn a_schema_is_that_of_the_bodies_that_are_read_or_of_those_that_are_written() {
    let members = |document: &Value, message: &Value| {
        let target = message["payload"]["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
        let members = document.pointer(target).unwrap()["properties"].as_object().unwrap();
        members.keys().cloned().collect::<Vec<_>>()
    };
    let both = document(start().pipeline(&receiving()).pipeline(&sending()).schema::<Order>("created"));
    let channels = &both["channels"];
    assert_eq!(members(&both, &channels["in"]["messages"]["created"]), ["line", "parcel", "received"]);
    let sent = &channels["out"]["messages"]["created"];
    assert_eq!(members(&both, sent), ["line", "link", "parcel", "sent"]);
    let schemas = both["components"]["schemas"].as_object().unwrap();
    let names: Vec<_> = schemas.keys().map(String::as_str).collect();
    let expected = ["Line", "Link", "Order", "Order.2", "Parcel", "Parcel.2", "Weight", "Weight.2"];
    assert_eq!(names, expected, "one for a type that is the same in both directions");
    assert_eq!(schemas["Parcel.2"]["properties"]["weight"]["$ref"], "#/components/schemas/Weight.2");
    assert_eq!(sent["payload"]["$ref"], "#/components/schemas/Order.2");

    let only_sent = document(start().pipeline(&sending()).schema::<Order>("created"));
    let sent = &only_sent["channels"]["out"]["messages"]["created"];
    assert_eq!(sent["payload"]["$ref"], "#/components/schemas/Order", "its own name, if it is free");
    assert_eq!(members(&only_sent, sent), ["line", "link", "parcel", "sent"]);

    // A schema of the user refers to the type in the direction of its message.
    let list = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Order" } });
    let builder = start().pipeline(&receiving()).pipeline(&sending()).schema_for::<Order>("in", "created");
    let listed = document(builder.schema_value_for("out", "created", list.try_into().unwrap()));
    let items = &listed["channels"]["out"]["messages"]["created"]["payload"]["items"];
    assert_eq!(items["$ref"], "#/components/schemas/Order.2");

    let senders = |_: &EntityPath| Ok(service_fn(async |_: Message| Ok::<_, SendError>(())));
    let responder = Responder::builder(senders).codecs(Codecs::json()).answer("get", answered).build().unwrap();
    let responder = Pipeline::receiving("orders").router(responder).unwrap().describe().clone();
    let answers = document(start().pipeline(&responder).schema::<Order>("get").reply::<Order>("get"));
    let channels = &answers["channels"];
    assert_eq!(members(&answers, &channels["orders"]["messages"]["get"]), ["line", "parcel", "received"]);
    assert_eq!(
        members(&answers, &channels["orders.replies"]["messages"]["get.reply"]),
        ["line", "link", "parcel", "sent"]
    );
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename = "Shop.Order v2")]
#[allow(dead_code, reason = "only its schema is used")]
struct Spaced {
    line: Höhe,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename = "Shop.Order/v2")]
#[allow(dead_code, reason = "only its schema is used")]
struct Slashed {
    within: Option<Box<Slashed>>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Höhe {
    percent: u8,
}

/// Rules: J-278.
#[test]
fn the_keys_of_schemas_are_valid() {
    let builder = start().pipeline(&routed()).schema::<Spaced>("a").schema::<Slashed>("b");
    let named = |target: &str| json!({ "$ref": format!("#/components/schemas/{target}") }).try_into().unwrap();
    let builder = builder.schema_value("c", named("H%C3%B6he")).schema_value("d", named("H_he"));
    let document = document(builder);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let keys: Vec<_> = schemas.keys().map(String::as_str).collect();
    assert_eq!(keys, ["H_he", "Shop.Order_v2", "Shop.Order_v2.2"]);
    let target = |name: &str| document["channels"]["in"]["messages"][name]["payload"]["$ref"].as_str().unwrap();
    assert_eq!(target("a"), "#/components/schemas/Shop.Order_v2");
    assert_eq!(target("b"), "#/components/schemas/Shop.Order_v2.2");
    assert_eq!((target("c"), target("d")), ("#/components/schemas/H_he", "#/components/schemas/H_he"));
    assert!(schemas["Shop.Order_v2.2"].to_string().contains(target("b")), "{schemas:?}");
    assert_eq!(schemas["Shop.Order_v2"]["properties"]["line"]["$ref"], target("c"));
}
