//! However many destinations, ids and texts come, the series stay as few as they are set to.

use consign::{
    Disposition, Message,
    codecs::{Codecs, Json, MessagePack},
    routing::{Body, Router},
    settlement::DeadLetterReason,
    transport::{ErrorKind, SendError},
};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::bench::{Bench, attributes};

const MANY: usize = 10_000;

/// Rules: O-13.
#[tokio::test(start_paused = true)]
async fn ten_thousand_destinations_and_ids_leave_a_bounded_number_of_series() {
    const LABELLED: usize = 8;
    let bench = Bench::with(|builder| builder.max_destinations(LABELLED).destinations(["ours"]));
    let telemetry = &bench.telemetry;
    for number in 0..MANY {
        let (id, destination) = (format!("id-{number}"), format!("replies.{number}"));
        let message = || {
            let message = Message::builder().message_id(id.clone()).correlation_id(id.clone()).subject(id.clone());
            let message = message.session_id(id.clone()).property("traceparent", id.clone()).content_type(id.clone());
            message.build("body").unwrap()
        };
        let transport = service_fn(|_: Message| async move {
            let kinds = [ErrorKind::ServiceBusy, ErrorKind::QuotaExceeded];
            let failed = SendError::new(kinds[number % 2]).with_detail(format!("{number}"));
            if number % 3 == 0 { Err(failed) } else { Ok(()) }
        });
        let _ = telemetry.send(&destination).layer(transport).oneshot(message()).await;
        let handler = service_fn(|_: Message| async move {
            let code = DeadLetterReason::Application(format!("Mine{number}").into());
            match number % 4 {
                0 => Ok(Disposition::dead_letter(code, format!("{number}"))),
                1 => Err(BoxError::from(format!("{number}"))),
                2 => Ok(Disposition::dead_letter(DeadLetterReason::ReplyAddressNotAllowed, format!("{number}"))),
                _ => Ok(Disposition::Complete),
            }
        });
        let _ = telemetry.process(&destination).layer(handler).oneshot(message()).await;
    }
    let ours = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    telemetry.process("ours").layer(ours).oneshot(Message::new("")).await.unwrap();

    let series = bench.series();
    let of = |metric: &str| series.keys().filter(|series| series.starts_with(metric)).count();
    let destinations = LABELLED + 1;
    // No error and two; no error, an application's code, the error and the refused address.
    let bounds = [
        ("messaging.client.sent.messages", 3 * destinations),
        ("messaging.client.operation.duration", 3 * destinations),
        ("messaging.client.consumed.messages", 3 * destinations),
        ("messaging.process.duration", 3 * destinations),
        ("consign.security.refused.messages", destinations),
        ("consign.trace.not_propagated", 1),
    ];
    for (metric, most) in bounds {
        assert!((1..=most).contains(&of(metric)), "{metric}: {} of {most}", of(metric));
    }
    assert_eq!(series.len(), bounds.iter().map(|(metric, _)| of(metric)).sum::<usize>());
    assert!(series.keys().all(|series| !series.contains("id-") && !series.contains("Mine")), "{series:?}");
    let without = |series: &String| series.starts_with("messaging.") && !series.contains("messaging.destination.name");
    assert!(series.keys().any(without), "{series:?}");
    assert!(series.keys().any(|series| series.contains("messaging.destination.name=ours")), "{series:?}");
    // Nor do the names of spans grow.
    let names: std::collections::BTreeSet<_> = bench.spans().0.into_iter().map(|span| span.name).collect();
    assert!(names.len() <= 2 * destinations, "{names:?}");
}

/// Rules: O-36.
#[tokio::test(start_paused = true)]
async fn reply_addresses_leave_the_labels_to_others() {
    let bench = Bench::with(|builder| builder.max_destinations(1));
    let send = async |destination: String| {
        let transport = service_fn(async |_: Message| Ok::<_, SendError>(()));
        bench.telemetry.send(&destination).layer(transport).oneshot(Message::new("")).await.unwrap();
    };
    for number in 0..200 {
        send(format!("_INBOX/caller/{number}")).await;
    }
    send("orders".into()).await;
    let series = bench.series();
    let sent: Vec<_> = series.iter().filter(|(series, _)| series.starts_with("messaging.client.sent")).collect();
    let [(orders, 1), (replies, 200)] = sent[..] else { panic!("{series:?}") };
    assert!(orders.contains("messaging.destination.name=orders") && !replies.contains("destination"), "{series:?}");
    let spans = bench.spans();
    let temporary = |span: &&opentelemetry_sdk::trace::SpanData| {
        attributes(span).contains(&"messaging.destination.temporary=true".into())
    };
    assert_eq!(spans.named("send").into_iter().filter(temporary).count(), 200);
    assert_eq!(spans.named("send orders").into_iter().filter(temporary).count(), 0);
}

/// Rules: O-22.
#[tokio::test(start_paused = true)]
async fn a_declared_content_type_is_not_a_label() {
    let bench = Bench::new();
    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .fallback(["json", "msgpack"])
        .observe(bench.telemetry.decodes())
        .build()
        .unwrap();
    let router = Router::new(codecs).fallback(async |Body(_): Body<u32>| {}).build().unwrap();
    let mut stack = bench.telemetry.process("orders").layer(router);
    for number in 0..MANY {
        let declared = match number % 3 {
            0 => format!("application/x-{number}"),
            1 => format!("x{number}\u{1b}"),
            _ => format!("application/json;v={number}"),
        };
        let message = Message::builder().content_type(declared).build(format!("{number}\u{1b}")).unwrap();
        stack.ready().await.unwrap().call(message).await.unwrap();
    }
    let series = bench.series();
    let decodes = series.keys().filter(|series| series.starts_with("consign.decode")).count();
    assert!(decodes <= 8, "{series:?}");
}
