//! A service that validates its messages by JSON Schema, answers requests, and prints its AsyncAPI document.
//!
//! `cargo run --example describe_service --features asyncapi,derive,json-schema` prints the document, and
//! `... -- pipelines` the pipelines as JSON.

use std::env;

use consign::{
    Message,
    asyncapi::{AsyncApi, AsyncApiDocument},
    codecs::Codecs,
    consumer::Settings,
    message::EntityPath,
    message_types::MessageTypes,
    middleware::{
        encode::EncodeLayer,
        json_schema::{JsonSchema, JsonSchemaLayer},
    },
    pipeline::{Pipeline, PipelineDescription},
    routing::{Body, Ignore, Router},
    rpc::{Fault, Responder},
    transport::SendError,
};
use schemars::JsonSchema as DescribeSchema;
use serde::{Deserialize, Serialize};
use tower::{BoxError, service_fn};

/// An order of the shop.
#[derive(Serialize, Deserialize, DescribeSchema)]
#[serde(rename_all = "camelCase")]
struct Order {
    /// Chosen by the shop.
    order_id: u64,
    #[schemars(length(min = 1))]
    lines: Vec<Line>,
}

#[derive(Serialize, Deserialize, DescribeSchema)]
struct Line {
    sku: String,
    #[schemars(range(min = 1))]
    count: u32,
}

/// What the service sends.
#[derive(MessageTypes)]
#[allow(dead_code, reason = "the example sends nothing")]
enum Event {
    #[message("order.shipped", alias = "OrderShipped", version = 1)]
    Shipped(Shipped),
}

#[derive(Serialize, Deserialize, DescribeSchema)]
struct Shipped {
    order_id: u64,
    parcels: Vec<String>,
}

/// A type without a schema.
#[derive(Deserialize)]
struct Cancelled {
    order_id: u64,
}

/// The reply to `stock.get`.
#[derive(Serialize, DescribeSchema)]
struct Stock {
    sku: String,
    pieces: u32,
}

async fn created(Body(order): Body<Order>) {
    println!("{} with {} lines", order.order_id, order.lines.len());
}

async fn cancelled(Body(order): Body<Cancelled>) {
    println!("{} is cancelled", order.order_id);
}

async fn stock(Body(sku): Body<String>) -> Result<Stock, Fault> {
    if sku.is_empty() { Err(Fault::application("NoSku")) } else { Ok(Stock { sku, pieces: 12 }) }
}

fn receiving() -> Result<PipelineDescription, BoxError> {
    let router = Router::new(Codecs::json())
        .route("order.created", created)
        .route("order.cancelled", cancelled)
        .fallback(Ignore)
        .build()?;
    let validate = JsonSchemaLayer::by_subject([("order.created", JsonSchema::of::<Order>()?)]);
    let pipeline = Pipeline::receiving("warehouse")
        .destination("shop/orders")
        .consumer(&Settings::new().concurrency(32))
        .layer(validate)
        .router(router)?;
    Ok(pipeline.describe().clone())
}

fn answering() -> Result<PipelineDescription, BoxError> {
    // A service returns the sender of its transport here.
    let senders = |_: &EntityPath| Ok(service_fn(async |_: Message| Ok::<_, SendError>(())));
    let responder = Responder::builder(senders).codecs(Codecs::json()).answer("stock.get", stock).build()?;
    Ok(Pipeline::receiving("stock").router(responder)?.describe().clone())
}

fn sending() -> Result<PipelineDescription, BoxError> {
    let pipeline = Pipeline::sending("shipments")
        .sends::<Event>()
        .layer(EncodeLayer::new(Codecs::json()))
        .service(service_fn(async |_: Message| Ok::<_, SendError>(())))?;
    Ok(pipeline.describe().clone())
}

pub(crate) fn document() -> Result<AsyncApiDocument, BoxError> {
    Ok(AsyncApi::new("Warehouse", "1.4.0")
        .description("Ships the orders of the shop.")
        .server("production", "rabbitmq.example:5671", "amqps")
        .pipeline(&receiving()?)
        .pipeline(&answering()?)
        .pipeline(&sending()?)
        .schema::<Order>("order.created")
        .schema::<Shipped>("order.shipped")
        .schema::<String>("stock.get")
        .reply::<Stock>("stock.get")
        .build()?)
}

fn main() -> Result<(), BoxError> {
    if env::args().nth(1).as_deref() == Some("pipelines") {
        println!("{}", serde_json::to_string_pretty(&[receiving()?, answering()?, sending()?])?);
    } else {
        println!("{}", document()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_has_all_pipelines() {
        let document = super::document().unwrap().into_value();
        assert_eq!(document["operations"].as_object().unwrap().len(), 3);
        let shipped = &document["channels"]["shipments"]["messages"]["order.shipped"];
        assert_eq!(shipped["headers"]["required"][0], "x-message-version");
        assert_eq!(document["channels"]["shop_orders"]["address"], "shop/orders");
        let reply = &document["operations"]["receive.stock"]["reply"];
        assert_eq!(reply["channel"]["$ref"], "#/channels/stock.replies");
        super::main().unwrap();
    }
}
