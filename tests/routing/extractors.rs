use consign::{
    Disposition, Message,
    codecs::{Chosen, CodecSet, Decoded},
    message::{MessageBody, Received, Value},
    routing::{
        Body, Context, CorrelationId, FromMessage, MessageId, MissingProperty, NotReceived, Payload, RawBody, ReplyTo,
        ReplyToSessionId, SessionId, State, Subject,
    },
    settlement::{DeadLetterReason, IntoDisposition, Permanent, Transient, Undecodable},
};
use serde::Deserialize;
use tokio::task::yield_now;

use crate::support::{Order, Seen, codecs, dead, delivered, full, handle, note, taken};

#[tokio::test]
async fn arguments_stand_in_any_order() {
    let seen = Seen::default();
    let message = delivered(full());
    let body_first = |Body(order): Body<Order>, State(seen): State<Seen>, id: MessageId| async move {
        note(&seen, format!("{} {}", order.id, &*id));
    };
    assert_eq!(handle(codecs(), &seen, body_first, message.clone()).await, Disposition::Complete);
    let body_last = |id: MessageId, State(seen): State<Seen>, Body(order): Body<Order>| async move {
        note(&seen, format!("{} {}", order.id, &*id));
    };
    assert_eq!(handle(codecs(), &seen, body_last, message.clone()).await, Disposition::Complete);
    // The body may be taken more than once.
    let twice = |Body(one): Body<Order>, Body(two): Body<serde_json::Value>, State(seen): State<Seen>| async move {
        note(&seen, format!("{} {}", one.id, two["id"]));
    };
    assert_eq!(handle(codecs(), &seen, twice, message).await, Disposition::Complete);
    assert_eq!(taken(&seen), ["7 m", "7 m", "7 7"]);
}

#[tokio::test]
async fn a_handler_without_arguments() {
    let seen = Seen::default();
    assert_eq!(handle(codecs(), &seen, || async {}, Message::new("not JSON")).await, Disposition::Complete);
    let defer = || async { Disposition::DEFER };
    assert_eq!(handle(codecs(), &seen, defer, Message::new("")).await, Disposition::DEFER);
}

#[tokio::test]
async fn a_closure_keeps_what_it_captured() {
    let (seen, prefix) = (Seen::default(), String::from("north"));
    let handler = move |State(seen): State<Seen>, subject: Subject| {
        let prefix = prefix.clone();
        async move { note(&seen, format!("{prefix}/{}", &*subject)) }
    };
    handle(codecs(), &seen, handler, delivered(full())).await;
    assert_eq!(taken(&seen), ["north/order.created"]);
}

#[expect(clippy::too_many_arguments, reason = "eight is what is tested")]
async fn eight(
    id: MessageId,
    correlation: CorrelationId,
    subject: Subject,
    session: SessionId,
    reply_to: ReplyTo,
    reply_to_session: ReplyToSessionId,
    received: Received,
    State(seen): State<Seen>,
) {
    let texts = [&*id, &*correlation, &*subject, &*session, &*reply_to, &*reply_to_session];
    note(&seen, format!("{texts:?} {} {}", received.sequence_number, received.delivery_count));
}

#[tokio::test]
async fn eight_arguments() {
    let seen = Seen::default();
    assert_eq!(handle(codecs(), &seen, eight, delivered(full())).await, Disposition::Complete);
    assert_eq!(taken(&seen), [r#"["m", "c", "order.created", "s", "r", "rs"] 9 2"#]);
}

#[tokio::test]
async fn a_missing_property_is_a_dead_letter_that_names_it() {
    let seen = Seen::default();
    let bare = Message::new("{}");
    let found = [
        dead(handle(codecs(), &seen, |_: MessageId| async {}, bare.clone()).await),
        dead(handle(codecs(), &seen, |_: CorrelationId| async {}, bare.clone()).await),
        dead(handle(codecs(), &seen, |_: Subject| async {}, bare.clone()).await),
        dead(handle(codecs(), &seen, |_: SessionId| async {}, bare.clone()).await),
        dead(handle(codecs(), &seen, |_: ReplyTo| async {}, bare.clone()).await),
        dead(handle(codecs(), &seen, |_: ReplyToSessionId| async {}, bare.clone()).await),
    ];
    let names = ["MessageId", "CorrelationId", "Subject", "SessionId", "ReplyTo", "ReplyToSessionId"];
    let named = names.map(|name| (DeadLetterReason::MissingProperty, format!("the message has no {name}")));
    assert_eq!(found, named);
    let (reason, text) = dead(handle(codecs(), &seen, |_: Received| async {}, bare).await);
    assert_eq!((reason, &*text), (DeadLetterReason::MissingProperty, "the message carries nothing of a broker"));
}

#[tokio::test]
async fn an_optional_property_may_be_missing() {
    let seen = Seen::default();
    let handler = |id: Option<MessageId>, session: Option<SessionId>, State(seen): State<Seen>| async move {
        note(&seen, format!("{:?} {:?}", id.as_deref(), session.as_deref()));
    };
    handle(codecs(), &seen, handler, Message::new("")).await;
    handle(codecs(), &seen, handler, delivered(full())).await;
    // The empty session is a session.
    handle(codecs(), &seen, handler, Message::builder().session_id("").build("").unwrap()).await;
    assert_eq!(taken(&seen), ["None None", r#"Some("m") Some("s")"#, r#"None Some("")"#]);
}

#[tokio::test]
async fn an_undecodable_body_is_a_dead_letter_and_the_handler_is_not_called() {
    let seen = Seen::default();
    let handler = |Body(_): Body<Order>, State(seen): State<Seen>| async move { note(&seen, "called") };
    let message = Message::builder().content_type("application/json").build("[]").unwrap();
    let disposition = handle(codecs(), &seen, handler, message).await;
    let Disposition::DeadLetter(dead_letter) = disposition else { panic!("{disposition:?}") };
    assert_eq!(dead_letter.reason, DeadLetterReason::DeserializationFailed);
    let trail = dead_letter.changes.properties().and_then(|changes| changes.get("x-decode-trail")).unwrap();
    assert_eq!(trail.as_str(), Some("json;exact;Type;1:2;;struct Order with 2 elements,msgpack;fallback;Trailing;1"));
    assert_eq!(taken(&seen), [""; 0]);
}

/// Rules: P-41.
#[tokio::test]
async fn decoded_says_by_which_codec_and_after_what() {
    let seen = Seen::default();
    let handler = |decoded: Decoded<Order>, State(seen): State<Seen>| async move {
        let attempts: Vec<_> = decoded.attempts.iter().map(|attempt| attempt.codec).collect();
        note(&seen, format!("{} by {} {:?} after {attempts:?}", decoded.value.id, decoded.by, decoded.chosen));
    };
    handle(codecs(), &seen, handler, delivered(full())).await;
    let order = Order { id: 8, sku: "nut".into() };
    let msgpack = codecs().encode_as(&order, "application/msgpack").unwrap().body;
    let mislabelled = Message::builder().content_type("application/json").build(msgpack).unwrap();
    handle(codecs(), &seen, handler, mislabelled).await;
    let expected = [(7, "json", Chosen::Exact, "[]"), (8, "msgpack", Chosen::Fallback, r#"["json"]"#)];
    assert_eq!(taken(&seen), expected.map(|(id, by, chosen, after)| format!("{id} by {by} {chosen:?} after {after}")));
}

#[derive(Deserialize)]
struct OrderRef<'a> {
    id: u64,
    sku: &'a str,
}

async fn borrow<C: CodecSet>(State(seen): State<Seen>, payload: Payload<C>) -> Result<(), Undecodable> {
    let order: OrderRef<'_> = payload.decode()?;
    yield_now().await;
    let body = payload.payload().unwrap().as_ptr_range();
    assert!(body.contains(&order.sku.as_ptr()), "the text is in the message");
    let traced = payload.decode_traced::<OrderRef<'_>>()?;
    yield_now().await;
    note(&seen, format!("{} {} {} {:?}", order.id, traced.value.sku, traced.by, payload.subject()));
    Ok(())
}

#[tokio::test]
async fn values_borrowed_from_a_payload_live_across_an_await() {
    let seen = Seen::default();
    assert_eq!(handle(codecs(), &seen, borrow, delivered(full())).await, Disposition::Complete);
    assert_eq!(taken(&seen), [r#"7 nail json Some("order.created")"#]);
    let (reason, _) = dead(handle(codecs(), &seen, borrow, Message::new("[")).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed);
}

#[tokio::test]
async fn the_raw_bytes_and_the_message_itself() {
    let seen = Seen::default();
    let handler = |RawBody(bytes): RawBody, message: Message, State(seen): State<Seen>| async move {
        assert_eq!(bytes.as_ptr(), message.payload().unwrap().as_ptr(), "nothing is copied");
        note(&seen, format!("{} {:?}", bytes.len(), message.message_id()));
    };
    handle(codecs(), &seen, handler, delivered(full())).await;
    assert_eq!(taken(&seen), [r#"21 Some("m")"#]);
    let bytes =
        |RawBody(bytes): RawBody, State(seen): State<Seen>| async move { note(&seen, format!("{}", bytes.len())) };
    handle(codecs(), &seen, bytes, Message::new(Value::from("four"))).await;
    assert_eq!(taken(&seen), ["4"]);
}

/// Rules: B-270.
#[tokio::test]
async fn a_body_that_is_not_bytes_is_refused_as_raw_bytes() {
    let seen = Seen::default();
    let bytes =
        |RawBody(bytes): RawBody, State(seen): State<Seen>| async move { note(&seen, format!("{}", bytes.len())) };
    let sequence = MessageBody::Sequence([vec![Value::from(1)]].into());
    for (body, kind) in [
        (Value::List(Vec::new()).into(), "an AMQP list value"),
        (Value::Map(Vec::new()).into(), "an AMQP map value"),
        (Value::from(true).into(), "an AMQP boolean value"),
        (Value::from(7).into(), "an AMQP number value"),
        (sequence, "an AMQP sequence"),
    ] {
        let (reason, description) = dead(handle(codecs(), &seen, bytes, Message::new(body)).await);
        let text =
            format!("the body is {kind}, and bytes were expected: data sections, or an AMQP binary or string value");
        assert_eq!((reason, description), (DeadLetterReason::DeserializationFailed, text));
    }
    assert!(taken(&seen).is_empty(), "the handler is not called");
}

/// An extractor of the user's own, with a rejection of its own.
struct Tenant(String);

/// Not here yet: another consumer will have it.
struct Unassigned;

impl IntoDisposition for Unassigned {
    fn into_disposition(self) -> Disposition {
        Disposition::ABANDON
    }
}

impl<S, C> FromMessage<S, C> for Tenant {
    type Rejection = Unassigned;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, Unassigned> {
        let tenant = message.application_properties().get("tenant").and_then(|value| value.as_str());
        tenant.map(|tenant| Self(tenant.to_owned())).ok_or(Unassigned)
    }
}

#[tokio::test]
async fn an_extractor_of_the_users_own_decides_by_its_rejection() {
    let seen = Seen::default();
    let handler = |Tenant(tenant): Tenant, State(seen): State<Seen>| async move { note(&seen, tenant) };
    let message = Message::builder().property("tenant", "north").build("").unwrap();
    assert_eq!(handle(codecs(), &seen, handler, message).await, Disposition::Complete);
    assert_eq!(taken(&seen), ["north"]);
    assert_eq!(handle(codecs(), &seen, handler, Message::new("")).await, Disposition::ABANDON);
}

/// The first argument that cannot be taken out decides.
#[tokio::test]
async fn rejections_go_by_the_order_of_the_arguments() {
    let seen = Seen::default();
    let message = Message::new("[");
    let (reason, _) = dead(handle(codecs(), &seen, |_: MessageId, _: Body<Order>| async {}, message.clone()).await);
    assert_eq!(reason, DeadLetterReason::MissingProperty);
    let (reason, _) = dead(handle(codecs(), &seen, |_: Body<Order>, _: MessageId| async {}, message).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed);
}

#[tokio::test]
async fn the_return_value_of_a_handler_is_the_disposition() {
    let seen = Seen::default();
    let message = Message::new("");
    let transient = || async { Err::<(), _>(Transient::new("away")) };
    assert_eq!(handle(codecs(), &seen, transient, message.clone()).await, Disposition::ABANDON);
    let permanent = || async { Err::<(), _>(Permanent::new("closed")) };
    let found = dead(handle(codecs(), &seen, permanent, message.clone()).await);
    assert_eq!(found, (DeadLetterReason::HandlerPermanent, "closed".to_owned()));
    let either = || async { Ok::<_, Transient>(Disposition::DEFER) };
    assert_eq!(handle(codecs(), &seen, either, message.clone()).await, Disposition::DEFER);
    let nested = || async { Ok::<Result<(), Permanent>, Transient>(Err(Permanent::new("closed"))) };
    assert_eq!(dead(handle(codecs(), &seen, nested, message).await).0, DeadLetterReason::HandlerPermanent);
}

/// The rejections are types that a user can name and convert.
#[test]
fn rejections_are_dispositions() {
    fn disposition<E: IntoDisposition>() {}

    disposition::<MissingProperty>();
    disposition::<NotReceived>();
    disposition::<Undecodable>();
}
