//! Routers that are composed of several: merged, nested, with layers, parts of the state and extensions.

use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    BuildErrorKind, Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::{CodecSet, Codecs},
    middleware::from_fn::{Next, from_fn},
    routing::{Body, Extension, FromRef, Handler as _, Router, Routes, State, Subject},
    settlement::{DeadLetterReason, Undecodable},
    transport::{ReceiverExt, Sender},
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

use crate::support::{Order, Seen, call, codecs, dead, note, taken};

fn about(subject: &str) -> Message {
    Message::builder().subject(subject.to_owned()).build("{}").unwrap()
}

/// A handler that notes its name and the subject.
fn noting(name: &'static str) -> impl Noting {
    move |State(seen): State<Seen>, subject: Option<Subject>| {
        note(&seen, format!("{name} {}", subject.as_deref().unwrap_or("-")));
        ready(())
    }
}

trait Noting: Fn(State<Seen>, Option<Subject>) -> Ready<()> + Clone + Send + Sync + 'static {}

impl<F: Fn(State<Seen>, Option<Subject>) -> Ready<()> + Clone + Send + Sync + 'static> Noting for F {}

fn routes<C: CodecSet>() -> Routes<Seen, C> {
    Routes::new().route("created", noting("created")).route("cancelled", noting("cancelled"))
}

#[tokio::test]
async fn merged_and_nested_routes_take_their_subjects() {
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen))
        .route("static", noting("static"))
        .merge(routes())
        .nest("order.", routes().nest("line.", routes()))
        .route("later", noting("later"))
        .fallback(noting("fallback"))
        .build()
        .unwrap();
    let subjects = [
        "static",
        "created",
        "order.cancelled",
        "order.line.created",
        "later",
        "order.static",
        "line.created",
        "static",
    ];
    for subject in subjects {
        assert_eq!(call(&router, about(subject)).await, Disposition::Complete);
    }
    let expected = [
        "static static",
        "created created",
        "cancelled order.cancelled",
        "created order.line.created",
        "later later",
        "fallback order.static",
        "fallback line.created",
        "static static",
    ];
    assert_eq!(taken(&seen), expected);
    let mut subjects = router.describe().subjects;
    subjects.sort_unstable();
    let all = ["cancelled", "created", "later", "order.cancelled", "order.created"];
    assert_eq!(subjects, [&all[..], &["order.line.cancelled", "order.line.created", "static"]].concat());
}

#[tokio::test]
async fn one_instance_of_a_router_takes_any_order_of_subjects() {
    let seen = Seen::default();
    let mut router = Router::with_state(codecs(), Arc::clone(&seen))
        .nest("order.", routes())
        .route("a", noting("a"))
        .build()
        .unwrap();
    for subject in ["a", "a", "order.created", "a", "order.cancelled", "order.cancelled", "order.created"] {
        assert_eq!(router.ready().await.unwrap().call(about(subject)).await, Ok(Disposition::Complete));
    }
    let unknown = router.ready().await.unwrap().call(about("order")).await.unwrap();
    assert_eq!(dead(unknown).0, DeadLetterReason::UnknownMessageType);
    let took: Vec<_> = taken(&seen).iter().map(|it| it.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(took, ["a", "a", "created", "a", "cancelled", "cancelled", "created"]);
}

#[tokio::test]
async fn the_fallback_of_the_longest_prefix_takes_a_message_without_a_route() {
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen))
        .fallback(noting("root"))
        .nest("order.", routes().fallback(noting("order")).nest("line.", routes().fallback(noting("line"))))
        .build()
        .unwrap();
    for subject in ["order.line.created", "order.line.x", "order.x", "order", "x"] {
        call(&router, about(subject)).await;
    }
    call(&router, Message::new("")).await;
    let expected =
        ["created order.line.created", "line order.line.x", "order order.x", "root order", "root x", "root -"];
    assert_eq!(taken(&seen), expected);
    assert!(router.describe().has_otherwise);
    assert_eq!(router.describe().nested_fallbacks, ["order.", "order.line."]);
    let nested = Router::new(Codecs::json()).nest("order.", Routes::new().fallback(|| async {})).build().unwrap();
    let text = nested.describe().to_string();
    assert!(text.contains("others of \"order.\": a handler\n  others: dead letter"), "{text}");
}

#[test]
fn routes_that_collide_are_refused() {
    let kind = |routes: Routes<(), _>| Router::new(Codecs::json()).merge(routes).build().unwrap_err().kind();
    let one = || Routes::new().route("order.created", || async {});
    assert_eq!(kind(one().merge(one())), BuildErrorKind::DuplicateRoute);
    assert_eq!(kind(one().nest("order.", Routes::new().route("created", || async {}))), BuildErrorKind::DuplicateRoute);
    let fallback = || Routes::new().fallback(|| async {});
    assert_eq!(kind(fallback().merge(fallback())), BuildErrorKind::SeveralFallbacks);
    let error = Router::new(Codecs::json()).fallback(|| async {}).merge(fallback()).build().unwrap_err();
    assert_eq!(error.to_string(), "two handlers are the fallback: remove one of them");
    let nested = || Routes::new().nest("a.", fallback());
    assert_eq!(kind(nested().merge(nested())), BuildErrorKind::SeveralFallbacks);
    Router::new(Codecs::json()).fallback(|| async {}).merge(nested()).build().unwrap();
}

#[derive(Debug, consign::message_types::MessageTypes)]
enum Event {
    #[message("order.shipped")]
    Shipped(u64),
}

#[tokio::test]
async fn types_can_be_merged_and_not_nested() {
    fn shipping<C: CodecSet>() -> Routes<Seen, C> {
        Routes::new().types(async |State(seen): State<Seen>, event: Event| note(&seen, format!("{event:?}")))
    }
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen)).merge(shipping()).merge(routes()).build().unwrap();
    let shipped = Message::builder().subject("order.shipped").build("7").unwrap();
    assert_eq!(call(&router, shipped).await, Disposition::Complete);
    call(&router, about("created")).await;
    assert_eq!(taken(&seen), ["Shipped(7)", "created created"]);
    let error = Router::with_state(codecs(), seen).nest("a.", shipping()).build().unwrap_err();
    assert_eq!(error.kind(), BuildErrorKind::NestedTypes);
    let text = r#"a handler of types is nested below "a.", and types have names of their own: add it by `merge`"#;
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn the_route_that_was_added_last_takes_a_message_with_a_subject_and_a_type() {
    #[derive(consign::message_types::MessageTypes)]
    #[message(property = "type")]
    enum ByProperty {
        #[message("x")]
        X(u64),
    }
    let typed = async |State(seen): State<Seen>, ByProperty::X(_): ByProperty| note(&seen, "typed");
    let both = || Message::builder().subject("a").property("type", "x").build("7").unwrap();
    let seen = Seen::default();
    let first =
        Router::with_state(codecs(), Arc::clone(&seen)).types(typed).route("a", noting("subject")).build().unwrap();
    call(&first, both()).await;
    let last =
        Router::with_state(codecs(), Arc::clone(&seen)).route("a", noting("subject")).types(typed).build().unwrap();
    call(&last, both()).await;
    call(&last, about("a")).await;
    assert_eq!(taken(&seen), ["subject a", "typed", "subject a"]);
}

#[tokio::test]
async fn five_hundred_routes() {
    let seen = Seen::default();
    let mut routes = Routes::new();
    for number in 0..500 {
        let handler = move |State(seen): State<Seen>| async move { note(&seen, number.to_string()) };
        routes = routes.route(format!("order.{number}"), handler);
    }
    let router = Router::with_state(codecs(), Arc::clone(&seen)).merge(routes).build().unwrap();
    for number in 0..500 {
        call(&router, about(&format!("order.{number}"))).await;
    }
    assert_eq!(taken(&seen), (0..500).map(|number: u32| number.to_string()).collect::<Vec<_>>());
    assert_eq!(dead(call(&router, about("order.500")).await).0, DeadLetterReason::UnknownMessageType);
}

#[derive(Clone)]
struct App {
    seen: Seen,
}

impl FromRef<App> for Seen {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.seen)
    }
}

#[tokio::test]
async fn a_handler_takes_a_part_of_the_state() {
    let app = App { seen: Seen::default() };
    let both = async |State(app): State<App>, State(seen): State<Seen>| {
        assert!(Arc::ptr_eq(&app.seen, &seen));
        note(&seen, "both");
    };
    let router = Router::with_state(codecs(), app.clone()).route("a", both).build().unwrap();
    assert_eq!(call(&router, about("a")).await, Disposition::Complete);
    assert_eq!(taken(&app.seen), ["both"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_layers_of_its_own() {
    let slow = || async { tokio::time::sleep(Duration::from_secs(60)).await };
    let second = TimeoutLayer::new(Duration::from_secs(1));
    let router = Router::new(codecs()).route("limited", slow.layer(second)).route("free", slow).build().unwrap();
    match call(&router, about("limited")).await {
        Disposition::Abandon(changes) => assert_eq!(changes.cause(), Some("request timed out")),
        other => panic!("{other:?}"),
    }
    assert_eq!(call(&router, about("free")).await, Disposition::Complete);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_layer_counts_all_messages_of_its_handler() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        move || {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    let erased = Routes::new().route("b", counting.clone()).route_layer(ConcurrencyLimitLayer::new(2));
    let router =
        Router::new(codecs()).route("a", counting.layer(ConcurrencyLimitLayer::new(2))).merge(erased).build().unwrap();
    for subject in ["a", "b"] {
        futures_util::future::join_all((0..8).map(|_| call(&router, about(subject)))).await;
        assert_eq!(most.swap(0, Ordering::SeqCst), 2, "{subject}");
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tenant(u32);

async fn add_tenant<S>(mut message: Message, next: Next<S>) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition, Error: Into<BoxError>>,
{
    message.extensions_mut().insert(Tenant(7));
    next.run(message).await
}

#[tokio::test]
async fn a_route_layer_is_passed_by_its_routes_and_not_by_fallbacks() {
    async fn tenant(State(seen): State<Seen>, tenant: Option<Extension<Tenant>>, _: Message) {
        note(&seen, format!("{tenant:?}"));
    }
    let seen = Seen::default();
    let routes = Routes::new().route("a", tenant).fallback(tenant).route_layer(from_fn(add_tenant)).route("b", tenant);
    let router = Router::with_state(codecs(), Arc::clone(&seen)).merge(routes).build().unwrap();
    for subject in ["a", "b", "c"] {
        assert_eq!(call(&router, about(subject)).await, Disposition::Complete);
    }
    assert_eq!(taken(&seen), ["Some(Extension(Tenant(7)))", "None", "None"]);
}

#[tokio::test]
async fn a_layer_reads_an_error_of_its_handler() {
    // The error of the handler is a disposition; that of a layer inside is an error.
    async fn refusing<S>(message: Message, next: Next<S>) -> Result<Disposition, BoxError>
    where
        S: Service<Message, Response = Disposition, Error: Into<BoxError>>,
    {
        let disposition = next.run(message).await?;
        if disposition == Disposition::Complete { Err("refused".into()) } else { Ok(disposition) }
    }
    let unreadable = |Body(_): Body<Order>| async {};
    let router = Router::new(codecs())
        .route("a", (|| async {}).layer(from_fn(refusing)))
        .route("b", unreadable.layer(from_fn(refusing)))
        .build()
        .unwrap();
    match call(&router, about("a")).await {
        Disposition::Abandon(changes) => assert_eq!(changes.cause(), Some("refused")),
        other => panic!("{other:?}"),
    }
    assert_eq!(dead(call(&router, about("b")).await).0, DeadLetterReason::DeserializationFailed);
}

#[tokio::test]
async fn an_undecodable_that_a_layer_returns_is_a_dead_letter() {
    let decoding = from_fn(async |message: Message, _: Next<_>| -> Result<Disposition, BoxError> {
        use consign::MessageExt;
        message.decode::<u64, _>(&Codecs::json()).map_err(|error: Undecodable| BoxError::from(error))?;
        Ok(Disposition::Complete)
    });
    let router = Router::new(codecs()).route("a", (|| async {}).layer(decoding)).build().unwrap();
    assert_eq!(dead(call(&router, about("a")).await).0, DeadLetterReason::DeserializationFailed);
}

#[tokio::test]
async fn an_extension_that_no_layer_has_added_abandons() {
    let router = Router::new(codecs()).route("a", |_: Extension<Tenant>| async {}).build().unwrap();
    match call(&router, about("a")).await {
        Disposition::Abandon(changes) => {
            let cause = changes.cause().unwrap();
            assert!(cause.starts_with("no layer has added the extension") && cause.ends_with("Tenant`"), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    let stack = ServiceBuilder::new().layer(from_fn(add_tenant)).service(router);
    assert_eq!(stack.oneshot(about("a")).await.unwrap(), Disposition::Complete);
}

#[tokio::test]
async fn extensions_are_not_sent() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let mut message = about("a");
    message.extensions_mut().insert(Tenant(7));
    queue.sender().unwrap().send(message).await.unwrap();
    let delivery = queue.receiver().receive().await.unwrap();
    assert_eq!(delivery.message.extensions().get::<Tenant>(), None);
    let mut message = delivery.message.clone();
    message.extensions_mut().insert(Tenant(8));
    delivery.abandon().await.unwrap();
    let again = queue.receiver().receive().await.unwrap();
    assert_eq!(again.message.extensions().get::<Tenant>(), None);
}
