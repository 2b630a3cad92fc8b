use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    dead_letters::{ActionErrorKind, DeadLetterFilter, DeadLetters, MAX_HOPS, RESUBMIT_COUNT},
    message::{MessageBody, Properties, PropertyValue, SequenceNumber, Value},
    middleware::{
        delivery_limit::{self, DeliveryLimitLayer},
        retry::RetryHistory,
    },
    settlement::DeadLetter,
    testing::Recorder,
    transport::{ReceiverExt, Sender},
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn a_copy_is_as_it_was_sent_with_another_id() {
    let bench = Bench::new();
    let mut message = Message::builder()
        .message_id("first")
        .correlation_id("c")
        .subject("s")
        .reply_to("r")
        .reply_to_session_id("rs")
        .session_id("session")
        .to("t")
        .time_to_live(Duration::from_secs(7))
        .property("mine", 7)
        .content_type("Application/JSON; Charset=utf-8")
        .build(MessageBody::sections(vec!["a".into(), "\u{0}b".into()]))
        .unwrap();
    message.properties_mut().pass_through_mut().priority = Some(3);
    bench.bury(message.clone(), OTHER).await;

    // What the broker strips itself is stripped before it gets there, for others do not.
    let copies = Recorder::new();
    let report = bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    assert_eq!((report.matching, report.resubmitted, report.missed), (1, 1, 0));
    let [copy] = &copies.sent()[..] else { panic!("one") };
    let (copy, new_id) = (copy.message.clone(), copy.message.message_id().unwrap().to_owned());
    assert!(new_id != "first" && copy.original_message_id() == Some("first"));
    assert_eq!(copy.application_properties().get(RESUBMIT_COUNT), Some(&PropertyValue::U32(1)));
    assert_eq!(copy.body(), message.body());
    let mut expected = message.properties().clone();
    expected.set_message_id(new_id).unwrap();
    expected.application_properties_mut().insert(RESUBMIT_COUNT, 1_u32);
    expected.application_properties_mut().insert(Properties::ORIGINAL_MESSAGE_ID, "first");
    assert_eq!(copy.properties(), &expected);
    assert!(bench.queue.dead_letters().is_empty());
}

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn a_thousand_messages_come_through_unchanged() {
    const MANY: usize = 1_000;
    let bench = Bench::new();
    let values: [PropertyValue; 8] = [
        PropertyValue::Null,
        true.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        f32::MIN_POSITIVE.into(),
        "\u{0}語".into(),
        bytes::Bytes::from_static(b"\xff\x00").into(),
        PropertyValue::Uuid([7; 16]),
    ];
    let message = |i: usize| {
        let bits = |bit: usize| i >> bit & 1 == 1;
        let body = match i % 4 {
            0 => MessageBody::from(vec![u8::try_from(i % 256).unwrap(); i]),
            1 => MessageBody::from(Value::Map(vec![(i.to_string().into(), values[i % 8].clone().into())])),
            2 => MessageBody::Sequence([vec![Value::Symbol("s".into()), Value::List(vec![])]].into()),
            _ => MessageBody::sections(vec!["".into(), vec![0xff; i % 7].into()]),
        };
        let mut message = Message::builder().message_id(i.to_string());
        for (at, value) in values.iter().enumerate().filter(|(at, _)| bits(*at)) {
            message = message.property(format!("key {at}"), value.clone());
        }
        if bits(0) {
            message = message.correlation_id(format!("c{i}")).content_type("Application/X ; a=\"b\"");
        }
        if bits(3) {
            message = message.session_id("").partition_key("").time_to_live(Duration::from_millis(1 + i as u64));
        }
        message.build(body).unwrap()
    };
    for i in 0..MANY {
        bench.bury(message(i), OTHER).await;
    }
    let copies = Recorder::new();
    bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    let copies = copies.sent();
    assert_eq!(copies.len(), MANY);
    for (i, copy) in copies.into_iter().enumerate() {
        let (mut copy, original) = (copy.message, message(i));
        assert_eq!(copy.body(), original.body());
        let application = copy.properties_mut().application_properties_mut();
        assert!(application.remove(RESUBMIT_COUNT).is_some());
        assert_eq!(application.remove(Properties::ORIGINAL_MESSAGE_ID), Some(i.to_string().into()));
        copy.properties_mut().set_message_id(i.to_string()).unwrap();
        assert_eq!(copy.properties(), original.properties());
    }
}

/// Rules: L-11.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_too_large_stays_until_an_edit_shrinks_it() {
    let bench = Bench::new();
    let mut message = Message::new("body");
    let full = message.properties_mut().application_properties_mut();
    (0..consign::message::limits::PROPERTIES).for_each(|i| drop(full.insert(i.to_string(), true)));
    bench.bury(message, OTHER).await;
    let (dead, sender) = (bench.dead(), || bench.queue.sender().unwrap());
    let report = dead.resubmit(DeadLetterFilter::all(), sender()).run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures[0].kind()), (0, ActionErrorKind::Send));
    let edited = dead.resubmit(DeadLetterFilter::all(), sender()).edit(|properties, _| {
        let application = properties.application_properties_mut();
        drop((application.remove("0"), application.remove("1")));
        Ok(())
    });
    assert_eq!(edited.run().await.unwrap().resubmitted, 1);
    assert_eq!(bench.queue.messages().len(), 1);
}

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn properties_of_other_transports_are_removed_from_a_dead_letter() {
    let bench = Bench::new();
    bench.bury(Message::new("body"), UNDECODABLE).await;
    let copies = Recorder::new();
    let trail = |properties: &mut Properties, _: &mut MessageBody| {
        let application = properties.application_properties();
        assert!(
            [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL]
                .iter()
                .all(|name| application.get(name).is_none())
        );
        Ok(())
    };
    bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).edit(trail).run().await.unwrap();
    let [copy] = &copies.sent()[..] else { panic!("one") };
    assert_eq!((copy.message.dead_letter_reason(), copy.message.dead_letter_description()), (None, None));
}

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn a_copy_starts_without_the_failures_of_its_retries() {
    let bench = Bench::new();
    let tried = Message::builder().property(RetryHistory::PROPERTY, "7;1700000000000;no stock").build("body").unwrap();
    bench.bury(tried, UNDECODABLE).await;
    let copies = Recorder::new();
    bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    let [copy] = &copies.sent()[..] else { panic!("one") };
    assert_eq!(copy.message.application_properties().get(RetryHistory::PROPERTY), None);
}

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn a_copy_of_what_the_delivery_limit_gave_up_is_not_given_up_at_its_first_failure() {
    let (bench, copies) = (Bench::new(), Recorder::new());
    let failing = || DeliveryLimitLayer::new(2).layer(service_fn(|_: Message| async { Err::<Disposition, _>("no") }));
    let counted = delivery_limit::count_delivery(&Message::new("body"));
    let given_up = failing().oneshot(counted.clone()).await.unwrap();
    assert!(matches!(given_up, Disposition::DeadLetter(_)));
    bench.bury(counted, OTHER).await;
    bench.dead().resubmit(DeadLetterFilter::all(), copies.accepting()).run().await.unwrap();
    let [copy] = &copies.sent()[..] else { panic!("one") };
    assert!(
        failing().oneshot(copy.message.clone()).await.is_err(),
        "its first delivery failed, and there is another one"
    );
}

/// Rules: L-10.
#[tokio::test(start_paused = true)]
async fn a_copy_passes_duplicate_detection() {
    let bench = Bench::with(QueueSettings::default().duplicate_detection(Duration::from_secs(600)));
    bench.bury(Message::builder().message_id("m-1").build("body").unwrap(), OTHER).await;
    let sender = bench.queue.sender().unwrap();
    bench.dead().resubmit(DeadLetterFilter::all(), sender).run().await.unwrap();
    let [again] = &bench.queue.messages()[..] else { panic!("one") };
    assert_eq!((again.original_message_id(), again.payload()), (Some("m-1"), Some(&b"body"[..])));
}

/// Rules: L-13.
/// Attacks: 97.
#[tokio::test(start_paused = true)]
async fn a_bomb_stops_at_its_fourth_hop() {
    let bench = Bench::new();
    bench.bury(Message::builder().message_id("bomb").build("bomb").unwrap(), OTHER).await;
    let (mut resubmitted, mut stopped) = (0, 0);
    for _ in 0..100 {
        let report = bench.dead().resubmit(DeadLetterFilter::all(), bench.queue.sender().unwrap()).run().await.unwrap();
        resubmitted += report.resubmitted;
        stopped += report.stopped_at_hop_limit;
        if report.resubmitted == 1 {
            bench.kill(OTHER).await;
        }
    }
    assert_eq!((resubmitted, stopped), (u64::from(MAX_HOPS), 96));
    let [bomb] = &bench.queue.dead_letters()[..] else { panic!("it stays") };
    assert_eq!((bomb.original_message_id(), bomb.dead_letter_reason()), (Some("bomb"), Some(OTHER.as_str())));
    bench.queue.assert_empty();
    assert_eq!(bench.queue.dead_letter().counts().locked, 0);
}

/// Rules: L-14.
#[tokio::test(start_paused = true)]
async fn a_run_leaves_alone_what_dies_while_it_runs() {
    let bench = Bench::new();
    bench.bury_many(0, 20, &OTHER).await;
    // Whatever is sent dies again before its answer is there.
    let (sender, queue) = (bench.queue.sender().unwrap(), bench.queue.clone());
    let bomb = sending(move |message| {
        let (sent, queue) = (sender.send(message), queue.clone());
        Box::pin(async move {
            sent.await?;
            let again = queue.receiver().receive().await.unwrap();
            again.dead_letter(DeadLetter::new(OTHER, "")).await.unwrap();
            Ok(())
        })
    });
    let report = bench.dead().resubmit(DeadLetterFilter::all(), bomb).run().await.unwrap();
    assert_eq!((report.resubmitted, report.missed), (20, 0));
    assert!(bench.queue.dead_letters().iter().all(|dead| dead.received().unwrap().sequence_number.get() > 20));
    assert_eq!(bench.queue.dead_letter().counts().active, 20);
}

/// Rules: L-15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_handle_each_dead_letter_once() {
    two_at_once().await;
}

/// Rules: L-15.
#[tokio::test(start_paused = true)]
async fn two_runs_in_turns_handle_each_dead_letter_once() {
    two_at_once().await;
}

async fn two_at_once() {
    const MANY: usize = 1_000;
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let bench = Bench::new();
    for id in 0..MANY {
        let message = Message::builder().message_id(id.to_string()).build("body").unwrap();
        bench.bury(message, UNDECODABLE).await;
    }
    bench.bury(Message::new("other"), OTHER).await;
    let run = || {
        let (dead, sender) = (bench.dead(), queue.sender().unwrap());
        tokio::spawn(async move {
            let filter = DeadLetterFilter::all().reason(UNDECODABLE.as_str());
            dead.resubmit(filter, sender).lock_wait(Duration::from_millis(50)).run().await.unwrap()
        })
    };
    let (one, two) = (run(), run());
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!(one.resubmitted + two.resubmitted, MANY as u64);
    assert!(one.failures.is_empty() && two.failures.is_empty());
    let copies = queue.peek(SequenceNumber::new(0), 2 * MANY);
    let first_ids: HashSet<_> = copies.iter().filter_map(|copy| copy.original_message_id()).collect();
    let ids: HashSet<_> = copies.iter().filter_map(|copy| copy.message_id()).collect();
    assert_eq!((copies.len(), first_ids.len(), ids.len()), (MANY, MANY, MANY));
    let [left] = &bench.queue.dead_letters()[..] else { panic!("one") };
    assert_eq!(left.payload(), Some(&b"other"[..]));
}

/// Rules: L-16.
#[tokio::test(start_paused = true)]
async fn an_edit_changes_the_copy_alone_and_a_failed_one_sends_nothing() {
    let bench = Bench::new();
    for subject in ["good", "bad"] {
        bench.bury(Message::builder().message_id(subject).subject(subject).build("old").unwrap(), OTHER).await;
    }
    let copies = Recorder::new();
    let run = bench.dead();
    let report = run
        .resubmit(DeadLetterFilter::all(), copies.accepting())
        .edit(|properties, body| {
            if properties.subject() == Some("bad") {
                return Err("no".into());
            }
            properties.set_subject("better").set_message_id("stolen")?;
            properties.application_properties_mut().insert(RESUBMIT_COUNT, 0);
            *body = MessageBody::from("new");
            Ok(())
        })
        .edit(|properties, body| {
            assert_eq!((properties.subject(), body.codec_view()), (Some("better"), Some(&b"new"[..])));
            Ok(())
        })
        .run()
        .await
        .unwrap();
    let [copy] = &copies.sent()[..] else { panic!("one") };
    let copy = &copy.message;
    assert_eq!(
        (copy.subject(), copy.payload(), copy.original_message_id()),
        (Some("better"), Some(&b"new"[..]), Some("good"))
    );
    assert_ne!(copy.message_id(), Some("stolen"));
    assert_eq!(copy.application_properties().get(RESUBMIT_COUNT), Some(&PropertyValue::U32(1)));
    let [failure] = &report.failures[..] else { panic!("one") };
    assert_eq!((failure.sequence_number().get(), failure.kind()), (2, ActionErrorKind::Change));
    let [left] = &bench.queue.dead_letters()[..] else { panic!("one") };
    assert_eq!((left.subject(), left.payload()), (Some("bad"), Some(&b"old"[..])));
}

/// Rules: L-18.
#[tokio::test(start_paused = true)]
async fn a_purge_removes_what_passes_and_nothing_else() {
    let bench = Bench::new();
    bench.bury_many(0, 3, &OTHER).await;
    bench.bury_many(3, 5, &UNDECODABLE).await;
    bench.queue.send("alive");
    let report = bench.dead().purge(DeadLetterFilter::all().reason(UNDECODABLE.as_str())).run().await.unwrap();
    assert_eq!((report.purged, report.resubmitted, report.skipped), (5, 0, 3));
    let ids: BTreeSet<_> =
        bench.queue.dead_letters().iter().filter_map(|dead| Some(dead.message_id()?.to_owned())).collect();
    assert_eq!(ids, ["0", "1", "2"].map(String::from).into());
    assert_eq!(bench.queue.messages().len(), 1);
    let one = DeadLetterFilter::number(SequenceNumber::new(2));
    assert_eq!(bench.dead().purge(one).run().await.unwrap().purged, 1);
    assert_eq!(bench.queue.dead_letters().len(), 2);
}

/// Rules: L-06.
#[tokio::test(start_paused = true)]
async fn a_run_touches_no_live_message() {
    let bench = Bench::new();
    bench.queue.send("alive");
    let live = DeadLetters::new(consign::broker::Queue::clone(&bench.queue));
    let error = live.purge(DeadLetterFilter::all()).run().await.unwrap_err();
    assert_eq!(error.receive_error().kind(), consign::transport::ErrorKind::InvalidOperation);
    assert_eq!((error.report().purged, bench.queue.messages().len()), (0, 1));
}

/// Rules: L-22.
#[tokio::test(start_paused = true)]
async fn progress_is_reported_and_ends_as_the_report() {
    let bench = Bench::new();
    bench.bury_many(0, 100, &OTHER).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let calls = AtomicUsize::new(0);
    let told = Arc::clone(&seen);
    let report = bench
        .dead()
        .purge(DeadLetterFilter::all())
        .concurrency(7)
        .on_progress(|so_far| {
            calls.fetch_add(1, Ordering::Relaxed);
            told.lock().unwrap().push((so_far.matching, so_far.purged));
        })
        .run()
        .await
        .unwrap();
    let seen = seen.lock().unwrap();
    assert!(calls.into_inner() >= 100 && seen.is_sorted() && seen[0] == (100, 0), "{seen:?}");
    assert_eq!((seen.last(), report.purged), (Some(&(100, 100)), 100));
    assert_eq!(
        report.to_string(),
        "100 matching, 100 examined: 0 resubmitted, 100 purged, 0 skipped, 0 at the hop limit, 0 missed, 0 failed; done"
    );
}
