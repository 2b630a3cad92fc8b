//! Replies in AsyncAPI documents, and in the descriptions of pipelines.

use consign::{
    BuildErrorKind as Kind, Message,
    asyncapi::AsyncApi,
    codecs::Codecs,
    message::EntityPath,
    pipeline::{Pipeline, PipelineDescription},
    routing::{Body, Ignore, Router},
    rpc::{Correlate, Fault, Reply, ReplySenders, Responder},
    transport::SendError,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tower::service_fn;

use super::{asyncapi::assert_references, codecs};

#[derive(Serialize, JsonSchema)]
struct Price {
    cents: u32,
}

async fn price(Body(_): Body<String>) -> Result<Price, Fault> {
    Ok(Price { cents: 499 })
}
async fn stock(Body(_): Body<String>) -> Reply<u32> {
    Reply(12)
}
async fn note(Body(_): Body<String>) {}

fn senders() -> impl ReplySenders {
    |_: &EntityPath| Ok(service_fn(async |_: Message| Ok::<_, SendError>(())))
}

/// Two requests that are answered, and a message that is not.
fn prices() -> PipelineDescription {
    let responder = Responder::builder(senders()).codecs(Codecs::json());
    let responder =
        responder.answer("price.get", price).route("note", note).answer("stock/get", stock).build().unwrap();
    Pipeline::receiving("prices").destination("shop/prices").router(responder).unwrap().describe().clone()
}

/// A subject and all other messages are answered, in several formats.
fn everything(address: &str) -> PipelineDescription {
    let responder = Responder::builder(senders())
        .correlate(Correlate::CorrelationIdOrMessageId)
        .reply_subject("answer")
        .fault_body("application/json", |_| "{}")
        .codecs(codecs())
        .answer("price.get", price)
        .fallback(stock)
        .build()
        .unwrap();
    Pipeline::receiving(address).router(responder).unwrap().describe().clone()
}

fn start() -> AsyncApi {
    AsyncApi::new("Shop", "1.0.0")
}

fn document(builder: AsyncApi) -> Value {
    let document = builder.build().unwrap().into_value();
    assert_references(&document, &document);
    document
}

fn text() -> schemars::Schema {
    json!({ "type": "string" }).try_into().unwrap()
}

/// Rules: J-270, J-273, J-274, J-275.
#[test]
fn the_document_of_a_responder_has_its_replies() {
    let document = document(start().pipeline(&prices()).schema_value("price.get", text()).reply::<Price>("price.get"));
    let read = document["channels"]["shop_prices"]["messages"]["note"]["x-content-types"].clone();
    let id =
        json!({ "location": "$message.header#/messageId", "description": "The MessageId, or else the CorrelationId" });
    let correlation = json!({
        "location": "$message.header#/correlationId",
        "description": "The CorrelationId, which is the id of the request",
    });
    let word = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" });
    let reference = |to: &str| json!({ "$ref": format!("#/channels/{to}") });
    let expected = json!({
        "asyncapi": "3.0.0",
        "info": { "title": "Shop", "version": "1.0.0" },
        "channels": {
            "shop_prices": {
                "address": "shop/prices",
                "messages": {
                    "price.get": {
                        "name": "price.get",
                        "contentType": "application/json",
                        "correlationId": id,
                        "payload": { "type": "string" },
                        "x-content-types": read,
                    },
                    "note": { "name": "note", "contentType": "application/json", "x-content-types": read },
                    "stock_get": {
                        "name": "stock/get",
                        "contentType": "application/json",
                        "correlationId": id,
                        "x-content-types": read,
                    },
                },
            },
            "shop_prices.replies": {
                "address": null,
                "summary": "Replies to requests at `shop/prices`",
                "messages": {
                    "price.get.reply": {
                        "name": "price.get.reply",
                        "summary": "The reply to `price.get`",
                        "contentType": "application/json",
                        "correlationId": correlation,
                        "payload": { "$ref": "#/components/schemas/Price" },
                        "x-content-types": ["application/json"],
                        "x-request": "price.get",
                    },
                    "stock_get.reply": {
                        "name": "stock/get.reply",
                        "summary": "The reply to `stock/get`",
                        "contentType": "application/json",
                        "correlationId": correlation,
                        "x-content-types": ["application/json"],
                        "x-request": "stock/get",
                    },
                    "fault": {
                        "name": "fault",
                        "summary": "What is sent instead of a reply",
                        "description": "The body is empty.",
                        "correlationId": correlation,
                        "headers": {
                            "type": "object",
                            "properties": {
                                "x-fault": word,
                                "x-fault-reason": word,
                                "x-fault-detail": { "type": "string", "maxLength": 1024 },
                                "x-fault-trail": { "type": "string" },
                            },
                            "required": ["x-fault"],
                        },
                    },
                },
            },
        },
        "operations": {
            "receive.shop_prices": {
                "action": "receive",
                "title": "prices",
                "channel": reference("shop_prices"),
                "messages": [
                    reference("shop_prices/messages/price.get"),
                    reference("shop_prices/messages/note"),
                    reference("shop_prices/messages/stock_get"),
                ],
                "reply": {
                    "address": { "location": "$message.header#/replyTo", "description": "The ReplyTo of the request" },
                    "channel": reference("shop_prices.replies"),
                    "messages": [
                        reference("shop_prices.replies/messages/price.get.reply"),
                        reference("shop_prices.replies/messages/stock_get.reply"),
                        reference("shop_prices.replies/messages/fault"),
                    ],
                },
            },
        },
        "components": { "schemas": { "Price": document["components"]["schemas"]["Price"] } },
    });
    assert_eq!(document, expected, "{document:#}");
    assert_eq!(document["components"]["schemas"]["Price"]["properties"]["cents"]["type"], "integer");
}

/// Rules: J-274, J-275.
#[test]
fn a_fallback_replies_in_any_format_of_the_codecs() {
    let document = document(start().pipeline(&everything("prices")).reply_value(AsyncApi::OTHER, text()));
    let requests = &document["channels"]["prices"]["messages"];
    for request in ["price.get", "other"] {
        let request = &requests[request];
        assert_eq!(request["correlationId"]["location"], "$message.header#/correlationId");
        assert_eq!(request["headers"]["properties"]["x-accept"]["type"], "string");
    }
    let replies = &document["channels"]["prices.replies"]["messages"];
    let other = &replies["other.reply"];
    assert_eq!((&other["x-request"], &other["payload"]["type"]), (&json!("other"), &json!("string")));
    assert_eq!(other["summary"], "The reply to messages of other subjects");
    assert_eq!(other["contentType"], "application/json");
    assert_eq!(other["x-content-types"], json!(["application/json", "application/msgpack"]));
    assert_eq!(replies["price.get.reply"].get("payload"), None, "a type that was not registered");
    let fault = &replies["fault"];
    assert_eq!((&fault["contentType"], fault.get("description")), (&json!("application/json"), None));
}

/// Rules: J-273, J-274.
#[test]
fn only_a_responder_replies() {
    let router = || Router::new(Codecs::json()).route("price.get", note).fallback(Ignore).build().unwrap();
    let plain = Pipeline::receiving("prices").router(router()).unwrap().describe().clone();
    let value = document(start().pipeline(&plain));
    assert_eq!(value["operations"]["receive.prices"].get("reply"), None);
    assert_eq!(value["channels"].as_object().unwrap().len(), 1);
    assert_eq!(value["channels"]["prices"]["messages"]["price.get"].get("correlationId"), None);
    assert_eq!(serde_json::to_value(&plain).unwrap()["router"].get("replies"), None);
    assert!(!plain.to_string().contains("replies"));

    // A responder that answers nothing still sends faults.
    let responder = Responder::builder(senders()).codecs(Codecs::json()).route("note", note).build().unwrap();
    let silent = Pipeline::receiving("notes").router(responder).unwrap().describe().clone();
    let value = document(start().pipeline(&silent));
    let reply = &value["operations"]["receive.notes"]["reply"];
    assert_eq!(reply["messages"], json!([{ "$ref": "#/channels/notes.replies/messages/fault" }]));
}

/// Rules: J-273.
#[test]
fn a_pipeline_describes_how_its_responder_replies() {
    let description = everything("prices");
    let replies = description.router.as_ref().unwrap().replies.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(replies).unwrap(),
        json!({
            "subjects": ["price.get"],
            "has_otherwise": true,
            "correlate": "CorrelationIdOrMessageId",
            "subject": "answer",
            "fault_content_type": "application/json",
        })
    );
    let text = "
  others: a handler
replies
  to subject \"price.get\"
  to others
  CorrelationId: CorrelationId, else MessageId
  Subject: \"answer\"
  body of faults: application/json
codecs
";
    assert!(description.to_string().contains(text), "{description}");
    let replies = prices().router.unwrap().replies.unwrap();
    assert_eq!(
        replies.to_string(),
        "replies\n  to subject \"price.get\"\n  to subject \"stock/get\"\n  CorrelationId: MessageId, else CorrelationId\n  body of \
         faults: empty"
    );
}

/// Rules: J-274, J-275.
#[test]
fn a_channel_of_replies_has_a_key_of_its_own_and_a_reply_of_one_destination_takes_precedence() {
    let sink = Router::new(Codecs::json()).route("a", note).build().unwrap();
    let same = Pipeline::receiving("one.replies").router(sink).unwrap().describe().clone();
    let builder = start().pipeline(&everything("one")).pipeline(&same).pipeline(&everything("two"));
    let builder = builder.reply::<Price>("price.get").reply_for::<String>("two", "price.get");
    let document = document(builder.reply_value_for("one", "other", text()));
    let channel = |key: &str| &document["channels"][key];
    assert_eq!(channel("one.replies")["address"], Value::Null);
    assert_eq!(channel("one.replies.2")["address"], "one.replies");
    let payload = |key: &str, message: &str| channel(key)["messages"][message].get("payload");
    assert_eq!(payload("one.replies", "price.get.reply").unwrap()["$ref"], "#/components/schemas/Price");
    assert_eq!(payload("two.replies", "price.get.reply").unwrap()["type"], "string");
    assert_eq!(payload("one.replies", "other.reply").unwrap()["type"], "string");
    assert_eq!(payload("two.replies", "other.reply"), None);
}

/// Rules: J-275.
#[test]
fn mistakes_of_replies_are_errors_that_say_what_to_change() {
    let both = {
        let responder = Responder::builder(senders()).codecs(Codecs::json());
        let responder = responder.answer("other", stock).fallback(stock).build().unwrap();
        Pipeline::receiving("both").router(responder).unwrap().describe().clone()
    };
    let none = "and no responder answers that message: name one that `answer` or `fallback` of a responder takes";
    let prices = || start().pipeline(&prices());
    for (builder, kind, advice) in [
        (prices().reply::<Price>("note"), Kind::UnknownMessage, format!("a reply is registered for `note`, {none}")),
        (
            prices().reply_for::<Price>("prices", "price.get"),
            Kind::UnknownMessage,
            format!("a reply is registered for `price.get` of `prices`, {none}"),
        ),
        (
            prices().reply::<Price>("price.get").reply_value("price.get", text()),
            Kind::DuplicateSchema,
            "the reply to `price.get` has two schemas: register one".to_owned(),
        ),
        (
            start().pipeline(&both).reply::<Price>("other"),
            Kind::DuplicateSchema,
            "`other` is a subject and the name of all other messages: leave the schema out, or rename the subject"
                .to_owned(),
        ),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (kind, advice));
    }
    // A schema of a message is not one of its reply.
    prices().schema::<String>("price.get").reply::<Price>("price.get").build().unwrap();
}
