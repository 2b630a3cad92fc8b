use std::sync::{Arc, Mutex};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    consumer::Consumer,
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::PropertyValue,
    message_types::{Incoming, MessageType, MessageTypes, ReceiveTypes, TypeError, TypeErrorKind, TypeTable, read},
    routing::{Forward, Ignore, Router, State, Typed},
    settlement::DeadLetterReason,
    transport::{ErrorKind, ReceiverExt, SendError, Sender},
};

use crate::events::{
    Cancelled, Created, CreatedV1, CreatedV2, Event, Seen, Shipped, about, call, codecs, dead, keep, shop, taken,
};

fn versioned(body: &'static str, version: impl Into<PropertyValue>) -> Message {
    let mut message = about("order.created", body);
    message.properties_mut().application_properties_mut().insert(TypeTable::VERSION_PROPERTY, version);
    message
}

fn created(id: u64, cents: u64, currency: &str) -> Event {
    Event::Created(Created { id, total: (cents, currency.into()) })
}

/// Rules: J-01.
#[tokio::test]
async fn each_of_five_types_comes_to_the_handler_as_its_variant() {
    let seen = Seen::default();
    let shop = shop(&seen);
    for message in [
        versioned(r#"{"id":1,"total":[250,"CHF"]}"#, 3),
        about("order.cancelled", r#"{"reason":"late"}"#),
        about("order.shipped", r#"{"id":1}"#),
        about("stock.counted", "[1,2]"),
        about("shop.closed", ""),
        about("shop.closed", "null"),
    ] {
        assert_eq!(call(&shop, message).await, Disposition::Complete);
    }
    let expected = [
        created(1, 250, "CHF"),
        Event::Cancelled(Cancelled { reason: "late".into() }),
        Event::Shipped(Shipped { id: 1 }),
        Event::Counted(vec![1, 2]),
        Event::Closed,
        Event::Closed,
    ];
    assert_eq!(taken(&seen), expected);
}

/// Rules: J-02.
#[tokio::test]
async fn another_name_of_a_type_is_that_type() {
    let seen = Seen::default();
    let shop = shop(&seen);
    for name in ["order.cancelled", "OrderCancelled, Acme.Shop", "order.canceled"] {
        assert_eq!(call(&shop, about(name, "{}")).await, Disposition::Complete, "{name}");
    }
    assert_eq!(taken(&seen), vec![Event::Cancelled(Cancelled { reason: String::new() }); 3]);
    // Case and white space count.
    for name in ["Order.Cancelled", "ordercancelled", "order.cancelled "] {
        assert_eq!(dead(call(&shop, about(name, "{}")).await).0, DeadLetterReason::UnknownMessageType, "{name}");
    }
}

/// Rules: J-03.
/// Attacks: 34.
#[tokio::test]
async fn an_unknown_type_and_a_missing_one_are_dead_letters() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let unknown = (DeadLetterReason::UnknownMessageType, r#"no handler takes the subject "order.deleted""#.to_owned());
    assert_eq!(dead(call(&shop, about("order.deleted", "{}")).await), unknown);
    let (reason, text) = dead(call(&shop, Message::new(r#"{"id":1}"#)).await);
    assert_eq!(reason, DeadLetterReason::UnknownMessageType);
    assert_eq!(text, "the message has no subject, and no handler takes it");
    // The same where the enum is an argument of a handler of everything.
    let any = Router::with_state(codecs(), Arc::clone(&seen)).fallback(keep).build().unwrap();
    let (reason, text) = dead(call(&any, about("order.deleted", "{}")).await);
    assert_eq!(reason, DeadLetterReason::UnknownMessageType);
    assert_eq!(text, r#"unknown type "order.deleted" in the subject"#);
    let (reason, text) = dead(call(&any, Message::new("{}")).await);
    assert_eq!(
        (reason, &*text),
        (DeadLetterReason::UnknownMessageType, "the message has no type: the subject is missing")
    );
    assert!(taken(&seen).is_empty());
}

/// Rules: J-04.
#[tokio::test]
async fn an_empty_body_is_no_value_of_a_type_that_has_one() {
    let seen = Seen::default();
    let shop = shop(&seen);
    // Every field of a cancellation may be missing, its body may not.
    for name in ["order.created", "order.cancelled", "order.shipped", "stock.counted"] {
        let (reason, text) = dead(call(&shop, about(name, "")).await);
        assert_eq!(reason, DeadLetterReason::DeserializationFailed, "{name}");
        assert!(text.contains("empty"), "{text}");
    }
    // And what is nothing is not read out of something.
    assert_eq!(dead(call(&shop, about("shop.closed", r#"{"at":1}"#)).await).0, DeadLetterReason::DeserializationFailed);
    assert!(taken(&seen).is_empty());
}

/// Rules: J-05.
/// Attacks: 34.
#[tokio::test]
async fn a_name_is_looked_up_and_never_more() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let long = "a".repeat(60_000);
    for name in [
        "message_types::events::Created",
        "std::process::Command",
        "../../etc/passwd",
        "\u{1b}[31m\r\nReason: x",
        &long,
    ] {
        let message = Message::builder().subject(name.to_owned()).build("{}").unwrap();
        let (reason, text) = dead(call(&shop, message).await);
        assert_eq!(reason, DeadLetterReason::UnknownMessageType);
        assert!(text.len() < 500 && !text.contains(char::is_control), "{text}");
    }
    assert!(taken(&seen).is_empty());
}

/// Rules: J-06.
#[tokio::test]
async fn other_types_go_where_the_router_says() {
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen)).types(keep);
    let ignoring = router.fallback(Ignore).build().unwrap();
    assert_eq!(call(&ignoring, about("order.deleted", "{}")).await, Disposition::Complete);
    // What the router knows and cannot read is not ignored.
    assert_eq!(dead(call(&ignoring, about("order.created", "")).await).0, DeadLetterReason::DeserializationFailed);

    let others = Broker::new().create_queue("others", QueueSettings::default()).unwrap();
    let forward = Forward::to(others.sender().unwrap());
    let forwarding = Router::with_state(codecs(), Arc::clone(&seen)).types(keep).fallback(forward).build().unwrap();
    let message =
        Message::builder().message_id("m-1").subject("order.deleted").property("a", 1).build("as it is").unwrap();
    assert_eq!(call(&forwarding, message).await, Disposition::Complete);
    let mut receiver = others.receive_and_delete();
    let copy = receiver.receive().await.unwrap();
    assert_eq!((copy.message.message_id(), copy.message.subject()), (Some("m-1"), Some("order.deleted")));
    assert_eq!(copy.message.payload(), Some(&b"as it is"[..]));
    // Consumers that forward to each other stop at some time.
    let mut message = copy.message.clone();
    for hop in 2..=Forward::MAX_HOPS {
        assert_eq!(call(&forwarding, message).await, Disposition::Complete, "{hop}");
        message = receiver.receive().await.unwrap().message;
    }
    assert_eq!(dead(call(&forwarding, message).await).0, DeadLetterReason::UnknownMessageType);
    assert!(taken(&seen).is_empty());
}

/// A broker that is full.
struct Full;

impl Sender for Full {
    type Send = std::future::Ready<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        std::future::ready(Err(SendError::new(ErrorKind::QuotaExceeded)))
    }

    fn send_batch(&self, _: consign::transport::Batch) -> Self::Send {
        unimplemented!("one message is forwarded")
    }
}

/// Rules: J-07.
#[tokio::test]
async fn a_message_whose_forward_fails_is_abandoned() {
    let router = Router::with_state(codecs(), Seen::default()).types(keep).fallback(Forward::to(Full)).build().unwrap();
    assert_eq!(call(&router, about("order.deleted", "{}")).await, Disposition::ABANDON);
}

/// A broker that does not answer.
struct Silent;

impl Sender for Silent {
    type Send = std::future::Pending<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        std::future::pending()
    }

    fn send_batch(&self, _: consign::transport::Batch) -> Self::Send {
        std::future::pending()
    }
}

/// Rules: J-07.
#[tokio::test(start_paused = true)]
async fn a_forward_that_is_not_answered_ends() {
    let router =
        Router::with_state(codecs(), Seen::default()).types(keep).fallback(Forward::to(Silent)).build().unwrap();
    let began = tokio::time::Instant::now();
    let answer = call(&router, about("order.deleted", "{}")).await;
    assert!(matches!(answer, Disposition::Abandon(_)), "{answer:?}");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[derive(Debug, PartialEq, MessageTypes)]
#[message(property = "message-type", version_property = "v")]
enum ByProperty {
    #[message("urn:acme:opened", version = 2, from(1 = u8))]
    Opened(u64),
}

/// What a legacy queue has; and one struct that is a type by itself.
#[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize, MessageTypes)]
#[message("door.closed", version = 1)]
struct Closed {
    door: String,
}

/// Rules: J-08.
#[tokio::test]
async fn the_type_may_stand_in_a_property() {
    async fn open(opened: Typed<ByProperty>, State(seen): State<Arc<Mutex<Vec<String>>>>) {
        seen.lock().unwrap().push(format!("{:?} {} {:?}", opened.value, opened.name, opened.version));
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let router = Router::with_state(Codecs::json(), Arc::clone(&seen)).types(open).build().unwrap();
    let message = |name: PropertyValue, version: i64| {
        Message::builder().subject("ignored").property("message-type", name).property("v", version).build("7").unwrap()
    };
    assert_eq!(call(&router, message("urn:acme:opened".into(), 2)).await, Disposition::Complete);
    assert_eq!(call(&router, message("urn:acme:opened".into(), 1)).await, Disposition::Complete);
    let expected = ["Opened(7) urn:acme:opened Some(2)".to_owned(), "Opened(7) urn:acme:opened Some(1)".to_owned()];
    assert_eq!(*seen.lock().unwrap(), expected);
    let (reason, text) = dead(call(&router, message("other".into(), 2)).await);
    assert_eq!(reason, DeadLetterReason::UnknownMessageType);
    assert_eq!(text, r#"no handler takes the type "other" of the property message-type, or the subject "ignored""#);
    // What is no text is no type.
    let (_, text) = dead(call(&router, message(7.into(), 2)).await);
    assert_eq!(
        text,
        r#"the message has no type in the property message-type, and no handler takes the subject "ignored""#
    );
}

/// Rules: J-09.
#[tokio::test]
async fn handlers_of_two_enums_and_of_a_subject_stand_beside_each_other() {
    let (seen, doors) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&doors);
    let closed = move |closed: Closed| {
        kept.lock().unwrap().push(closed.door);
        async {}
    };
    let router = Router::with_state(codecs(), Arc::clone(&seen)).types(keep).route("raw", Ignore).types(closed);
    let router = router.build().unwrap();
    assert_eq!(call(&router, about("order.shipped", r#"{"id":1}"#)).await, Disposition::Complete);
    assert_eq!(call(&router, about("door.closed", r#"{"door":"front"}"#)).await, Disposition::Complete);
    assert_eq!(call(&router, about("raw", "anything")).await, Disposition::Complete);
    assert_eq!((taken(&seen).len(), &**doors.lock().unwrap()), (1, &["front".to_owned()][..]));
}

/// Rules: J-20.
#[tokio::test]
async fn bodies_of_old_versions_go_through_every_step() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let (v1, v2) = (r#"{"id":1,"cents":250}"#, r#"{"id":2,"cents":70,"currency":"CHF"}"#);
    let v3 = r#"{"id":3,"total":[9,"USD"]}"#;
    for (body, version) in [(v1, 1), (v2, 2), (v3, 3)] {
        assert_eq!(call(&shop, versioned(body, version)).await, Disposition::Complete, "{version}");
    }
    assert_eq!(taken(&seen), [created(1, 250, "EUR"), created(2, 70, "CHF"), created(3, 9, "USD")]);
    // A body is read as what it says it is, and as nothing else.
    for (body, version) in [(v1, 2), (v2, 1), (v3, 2), (v1, 3)] {
        let (reason, _) = dead(call(&shop, versioned(body, version)).await);
        assert_eq!(reason, DeadLetterReason::DeserializationFailed, "{body} as {version}");
    }
}

/// Rules: J-21.
#[tokio::test]
async fn a_version_is_a_whole_number_of_any_width_and_without_one_the_first() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let v2 = r#"{"id":2,"cents":70,"currency":"CHF"}"#;
    let numbers: [PropertyValue; 9] = [
        2_u8.into(),
        2_u16.into(),
        2_u32.into(),
        2_u64.into(),
        2_i8.into(),
        2_i16.into(),
        2_i32.into(),
        2_i64.into(),
        "2".into(),
    ];
    for number in numbers {
        assert_eq!(call(&shop, versioned(v2, number.clone())).await, Disposition::Complete, "{number:?}");
    }
    assert_eq!(taken(&seen), vec![created(2, 70, "CHF"); 9]);
    let v1 = r#"{"id":1,"cents":250}"#;
    assert_eq!(call(&shop, about("OrderCreated", v1)).await, Disposition::Complete);
    assert_eq!(call(&shop, versioned(v1, PropertyValue::Null)).await, Disposition::Complete);
    assert_eq!(taken(&seen), vec![created(1, 250, "EUR"); 2]);
}

/// Rules: J-22.
#[tokio::test]
async fn an_unknown_version_is_a_dead_letter_that_names_those_that_are_known() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let unknown: [(PropertyValue, &str); 6] = [
        (4.into(), "unknown version 4"),
        (0.into(), "unknown version 0"),
        (u64::MAX.into(), "unknown version 18446744073709551615"),
        ((-1).into(), "invalid version"),
        ("two".into(), "invalid version"),
        (2.0.into(), "invalid version"),
    ];
    for (version, said) in unknown {
        let (reason, text) = dead(call(&shop, versioned(r#"{"id":1,"cents":250}"#, version)).await);
        assert_eq!(reason, DeadLetterReason::UnknownMessageType);
        assert_eq!(text, format!("{said} of order.created in the property x-message-version: expected 1 to 3"));
    }
    // A type without versions does not look.
    let mut shipped = about("order.shipped", r#"{"id":1}"#);
    shipped.properties_mut().application_properties_mut().insert(TypeTable::VERSION_PROPERTY, 9);
    assert_eq!(call(&shop, shipped).await, Disposition::Complete);
    assert_eq!(taken(&seen).len(), 1);
}

/// Rules: J-23.
#[tokio::test]
async fn a_step_that_refuses_or_panics_is_a_dead_letter_that_names_it() {
    let seen = Seen::default();
    let shop = shop(&seen);
    let negative = versioned(r#"{"id":1,"cents":-5}"#, 1);
    let refused = "the step to version 3 refused the value: a total is not negative".to_owned();
    assert_eq!(dead(call(&shop, negative).await), (DeadLetterReason::DeserializationFailed, refused));
    let panics = versioned(r#"{"id":666,"cents":5}"#, 1);
    let panicked = "the step to version 3 panicked".to_owned();
    assert_eq!(dead(call(&shop, panics).await), (DeadLetterReason::DeserializationFailed, panicked));
    assert!(taken(&seen).is_empty());
}

/// Until it is so, or long enough for all that does not wait.
async fn turns(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The consumer of last year: it knows the newest version only.
#[derive(MessageTypes)]
#[message(receive)]
#[expect(dead_code, reason = "nothing of it is handled")]
enum Before {
    #[message("order.created", alias = "OrderCreated", version = 3)]
    Created(Created),
}

/// Rules: J-24.
#[tokio::test]
async fn a_dead_letter_of_an_old_version_is_rescued_once_the_step_is_there() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let v1 = versioned(r#"{"id":1,"cents":250}"#, 1);
    // This one does not say its version: the consumer takes it for the newest, and cannot read it.
    let silent = about("OrderCreated", r#"{"id":2,"cents":70}"#);
    for message in [v1, silent] {
        queue.sender().unwrap().send(message).await.unwrap();
    }
    let before = Router::new(codecs()).types(async |_: Before| {}).build().unwrap();
    let dead_letter = queue.dead_letter();
    let both = turns(|| dead_letter.counts().active == 2);
    let stats = Consumer::new(queue.receiver(), before).run_until(both).await.unwrap();
    assert_eq!((stats.completed(), stats.dead_lettered()), (0, 2));

    // The step is added, and the dead letters are sent again as they are.
    let report = DeadLetters::new(queue.dead_letter())
        .resubmit(DeadLetterFilter::all(), queue.sender().unwrap())
        .run()
        .await
        .unwrap();
    assert_eq!((report.resubmitted, report.failures.len()), (2, 0));
    let seen = Seen::default();
    let both = turns(|| seen.lock().unwrap().len() == 2);
    Consumer::new(queue.receiver(), shop(&seen)).run_until(both).await.unwrap();
    assert_eq!(taken(&seen), [created(1, 250, "EUR"), created(2, 70, "EUR")]);
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (0, 0));
}

/// The same as [`Event`], by hand.
#[derive(Debug, PartialEq)]
enum ByHand {
    Created(Created),
    Other,
}

impl MessageTypes for ByHand {
    const TYPES: TypeTable = TypeTable::new(
        "ByHand",
        &[
            MessageType::new("order.created").versions(&[1, 2, 3]),
            MessageType::new("other"),
            MessageType::new("forgotten"),
        ],
    );
}

impl ReceiveTypes for ByHand {
    fn read<C: consign::codecs::CodecSet>(index: usize, incoming: &Incoming<'_, C>) -> Result<Self, TypeError> {
        match index {
            0 => {
                let tax = |old: CreatedV1| Ok(CreatedV2 { id: old.id, cents: old.cents + 1, currency: "EUR".into() });
                let steps = incoming.from_version::<CreatedV1>(1)?.then_with(2, tax)?;
                Ok(Self::Created(steps.then(3)?.finish()?))
            }
            1 => incoming.body::<()>().map(|()| Self::Other),
            _ => Err(incoming.unknown()),
        }
    }
}

/// Rules: J-25.
#[test]
fn the_traits_can_be_written_by_hand() {
    let codecs = Codecs::json();
    let found: ByHand = read(&versioned(r#"{"id":1,"cents":250}"#, 1), &codecs).unwrap();
    assert_eq!(found, ByHand::Created(Created { id: 1, total: (251, "EUR".into()) }));
    assert_eq!(read::<ByHand, _>(&about("other", ""), &codecs).unwrap(), ByHand::Other);
    let error = read::<ByHand, _>(&about("forgotten", ""), &codecs).unwrap_err();
    assert_eq!(error.kind(), TypeErrorKind::UnknownType);
    assert!(std::error::Error::source(&read::<ByHand, _>(&about("other", "7"), &codecs).unwrap_err()).is_some());
}
