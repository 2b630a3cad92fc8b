use std::{collections::BTreeSet, time::Duration};

use axum::http::StatusCode;
use bytes::Bytes;
use consign_broker::{Broker, Queue};
use consign_core::{
    Message,
    administration::QueueSettings,
    message::{MessageBody, PropertyValue, SequenceNumber, Value},
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};
use consign_server::page::Page;

use crate::support::{Answer, Browser, bury, queue};

const DEAD: &str = "orders/$deadletterqueue";

fn letters(count: usize, reason: &'static str) -> impl Iterator<Item = (&'static str, String, Message)> {
    (0..count).map(move |number| (reason, "it failed".to_owned(), Message::new(format!("{{\"order\":{number}}}"))))
}

/// Waits for the end of a job.
async fn ended(browser: &mut Browser, begun: &Answer) -> Answer {
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text());
    loop {
        let job = browser.get(&begun.location()).await;
        if !["waiting: ", "running"].iter().any(|state| job.text().contains(&format!("aria-live=\"polite\">{state}"))) {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn bodies(queue: &Queue) -> Vec<String> {
    let count = queue.counts().active;
    let deliveries = queue.receiver().receive_batch(count).await.unwrap();
    let mut bodies = Vec::new();
    for delivery in deliveries {
        bodies.push(String::from_utf8(delivery.message.payload().unwrap().to_vec()).unwrap());
        delivery.complete().await.unwrap();
    }
    bodies
}

fn running(page: &Page) -> tokio::task::JoinHandle<()> {
    let page = page.clone();
    tokio::spawn(async move { page.run().await })
}

/// Rules: HT-46.
#[tokio::test(start_paused = true)]
async fn a_group_is_resubmitted_and_the_others_stay() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(3, "Stays")).await;
    bury(&queue, letters(45, "Goes")).await;
    bury(&queue, letters(3, "Stays")).await;
    let page = Page::builder(broker).build();
    let run = running(&page);
    let mut browser = Browser::new(&page);
    let groups = browser.get("/$page/dead-letters?path=orders").await;
    let group = groups.text().split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    let confirm = format!("/$page/confirm?action=resubmit&path=orders&group={group}");
    browser.get(&confirm).await.has("Resubmit 45 dead letters");
    let fields = [("action", "resubmit"), ("path", "orders"), ("group", &group)];
    let begun = browser.submit(&confirm, "/$page/jobs", &fields).await;
    let job = ended(&mut browser, &begun).await;
    job.has("<span data-job-done>45</span> of 45 done");
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (45, 6));
    assert_eq!(queue.dead_letter().counts().locked, 0);
    let sent: BTreeSet<_> = bodies(&queue).await.into_iter().collect();
    assert_eq!(sent.len(), 45);
    page.shutdown();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn copies_are_written_in_another_format_and_what_cannot_be_stays() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let json = Message::builder().content_type("application/json").build(br#"{"a":1}"#.to_vec()).unwrap();
    let text = Message::builder().content_type("application/json").build("{").unwrap();
    bury(&queue, [("R", String::new(), json), ("R", String::new(), text)]).await;
    let page = Page::builder(broker).build();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    let fields = [("action", "resubmit"), ("path", "orders"), ("content_type", "application/cbor")];
    let begun = browser.submit("/$page/confirm?action=resubmit&path=orders", "/$page/jobs", &fields).await;
    let job = ended(&mut browser, &begun).await;
    job.has("<span data-job-failed>1</span> failed");
    let copy = queue.receiver().receive().await.unwrap();
    assert_eq!(
        (copy.message.content_type(), copy.message.payload()),
        (Some("application/cbor"), Some(&b"\xa1\x61a\x01"[..]))
    );
    assert_eq!(queue.counts().dead_lettered, 1);
}

/// Rules: HT-49.
#[tokio::test]
async fn one_is_edited_and_its_copy_arrives() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(3, "R")).await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let form = format!("/$page/edit?path={DEAD}&number=2");
    browser.get(&form).await.has("{&#34;order&#34;:1}</textarea>");
    let fields = [
        ("path", DEAD),
        ("number", "2"),
        ("target", "orders"),
        ("content_type", "application/json"),
        ("subject", "fixed"),
        ("form", "text"),
        ("body", "{\r\n\"order\":100}"),
    ];
    let done = browser.submit(&form, "/$page/edit", &fields).await;
    done.has("A copy of dead letter 2 was sent");
    let copy = queue.receiver().receive().await.unwrap().message;
    assert_eq!(copy.payload(), Some(&b"{\n\"order\":100}"[..]));
    assert_eq!((copy.subject(), copy.content_type()), (Some("fixed"), Some("application/json")));
    assert_eq!(queue.dead_letter().peek(SequenceNumber::new(0), 10).len(), 2);
    let again = browser.submit(&form.replace("=2", "=3"), "/$page/edit", &fields).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
}

/// Rules: HT-49.
#[tokio::test]
async fn application_properties_are_edited_with_their_types() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let letter = Message::builder().property("count", 5_i32).property("tenant", "north").property("gone", true);
    bury(&queue, [("R", String::new(), letter.build("body").unwrap())]).await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let form = format!("/$page/edit?path={DEAD}&number=1");
    let shown = browser.get(&form).await;
    shown.has("&#34;i32&#34;: 5");
    assert!(!shown.text().contains("DeadLetterReason&#34;:"), "{}", shown.text());
    let mut fields = [
        ("path", DEAD),
        ("number", "1"),
        ("target", "orders"),
        ("content_type", ""),
        ("subject", ""),
        ("form", "text"),
        ("body", "body"),
        ("properties", "{\"count\":300}}"),
    ];
    let refused = browser.submit(&form, "/$page/edit", &fields).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    fields[7].1 = "{\"count\": {\"u8\": 6},\r\n\"tenant\": \"south\"}";
    browser.submit(&form, "/$page/edit", &fields).await.has("A copy of dead letter 1 was sent");
    let copy = queue.receiver().receive().await.unwrap().message;
    let properties = copy.application_properties();
    assert_eq!(properties.get("count"), Some(&6_u8.into()));
    assert_eq!(properties.get("tenant"), Some(&"south".into()));
    assert_eq!((properties.get("gone"), copy.dead_letter_reason()), (None, None));
}

/// Rules: HT-46.
#[tokio::test]
async fn a_job_that_does_not_handle_all_says_so() {
    const LOOKED_AT: usize = 200_000;
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(LOOKED_AT + 1, "R")).await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let confirm = "/$page/confirm?action=remove&path=orders";
    browser.get(confirm).await.has("Remove the first 200000 dead letters");
    let begun = browser.submit(confirm, "/$page/jobs", &[("action", "remove"), ("path", "orders")]).await;
    let job = browser.get(&begun.location()).await;
    job.has("Remove the first 200000 dead letters of orders");
    job.has("of 200000 done");
}

/// Rules: HT-46, HT-49.
#[tokio::test]
async fn dead_letters_behind_many_others_are_handled() {
    const OTHERS: usize = 16_500;
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(OTHERS, "Stays")).await;
    bury(&queue, letters(2, "Goes")).await;
    let page = Page::builder(broker).undo_window(Duration::ZERO).build();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    let number = (OTHERS + 1).to_string();
    let form = format!("/$page/edit?path={DEAD}&number={number}");
    let fields = [("path", DEAD), ("number", &number), ("target", "orders"), ("content_type", ""), ("subject", "")];
    let fields = [&fields[..], &[("form", "text"), ("body", "edited")]].concat();
    browser.submit(&form, "/$page/edit", &fields).await.has("was sent");
    let groups = browser.get("/$page/dead-letters?path=orders").await;
    let goes = groups.text().split("<tr>").find(|row| row.contains("<bdi>Goes</bdi>")).unwrap();
    let group = goes.split_once("group=").unwrap().1.split('"').next().unwrap().to_owned();
    let confirm = format!("/$page/confirm?action=remove&path=orders&group={group}");
    let fields = [("action", "remove"), ("path", "orders"), ("group", &group)];
    let begun = browser.submit(&confirm, "/$page/jobs", &fields).await;
    ended(&mut browser, &begun).await.has("<span data-job-done>1</span> of 1 done");
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (1, OTHERS));
}

/// Rules: HT-49.
#[tokio::test]
async fn a_large_body_is_kept() {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default().max_message_size(8 << 20)).unwrap();
    let body = "x".repeat((1 << 20) + 1);
    bury(
        &queue,
        [("R", String::new(), Message::new(body.clone())), ("R", String::new(), Message::new("x".repeat(1 << 20)))],
    )
    .await;
    let mut browser = Browser::new(&Page::builder(broker).build());
    let form = format!("/$page/edit?path={DEAD}&number=1");
    let shown = browser.get(&form).await;
    shown.has("The body is larger than 1 MiB, and is not edited here. It is kept.");
    shown.has_not("xxx");
    shown.has("<input type=\"hidden\" name=\"keep_body\" value=\"true\">");
    let fields = [("path", DEAD), ("number", "1"), ("target", "orders"), ("content_type", ""), ("subject", "fixed")];
    let fields = [&fields[..], &[("form", "text"), ("body", ""), ("keep_body", "true")]].concat();
    browser.submit(&form, "/$page/edit", &fields).await.has("was sent");
    let copy = queue.receiver().receive().await.unwrap().message;
    assert!(copy.subject() == Some("fixed") && copy.payload() == Some(body.as_bytes()));
    browser.get(&form.replace("=1", "=2")).await.has("xxx</textarea>");
}

/// Rules: HT-49.
#[tokio::test]
async fn a_body_keeps_its_kind() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let text = |text: &str| MessageBody::from(Value::from(text));
    let binary = |bytes: &'static [u8]| MessageBody::from(Value::Simple(Bytes::from_static(bytes).into()));
    let sections = MessageBody::sections(vec!["te".into(), "xt".into()]);
    let mut browser = Browser::new(&Page::builder(broker).build());
    for (number, (form, before, edited, after)) in [
        ("text", text("text"), "text", text("text")),
        ("text", text("text"), "other", text("other")),
        ("hex", text("text"), "ff", b"\xff".into()),
        ("hex", binary(b"\xff"), "ff", binary(b"\xff")),
        ("hex", binary(b"\xff"), "fe", binary(b"\xfe")),
        ("text", sections.clone(), "text", sections),
        ("text", Value::Simple(PropertyValue::Null).into(), "", Value::Simple(PropertyValue::Null).into()),
        ("text", Value::Simple(PropertyValue::Null).into(), "text", "text".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let letter = Message::builder().build(before).unwrap();
        bury(&queue, [("R", String::new(), letter)]).await;
        // The copies have numbers too.
        let number = (2 * number + 1).to_string();
        let fields = [
            ("path", DEAD),
            ("number", &number),
            ("target", "orders"),
            ("content_type", ""),
            ("subject", "edited"),
            ("form", form),
            ("body", edited),
        ];
        let form = format!("/$page/edit?path={DEAD}&number={number}");
        browser.submit(&form, "/$page/edit", &fields).await.has("was sent");
        let copy = queue.receiver().receive().await.unwrap();
        assert_eq!((copy.message.body(), copy.message.subject()), (&after, Some("edited")), "{number}");
        copy.complete().await.unwrap();
    }
}

/// Rules: HT-47.
#[tokio::test(start_paused = true)]
async fn a_job_can_be_undone_until_it_begins() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(4, "R")).await;
    let page = Page::builder(broker).build();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    for action in ["resubmit", "remove"] {
        let confirm = format!("/$page/confirm?action={action}&path=orders");
        browser.get(&confirm).await.has("The job waits 10 s before it begins; until then it can be undone.");
        let begun = browser.submit(&confirm, "/$page/jobs", &[("action", action), ("path", "orders")]).await;
        let job = browser.get(&begun.location()).await;
        job.has("Undo");
        let id = begun.location().split_once("id=").unwrap().1.to_owned();
        let stopped = browser.post("/$page/job/stop", &job.csrf().unwrap(), &[("id", &id)]).await;
        assert_eq!(stopped.status, StatusCode::SEE_OTHER, "{action}");
        browser.get(&begun.location()).await.has("stopped");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((queue.counts().dead_lettered, queue.counts().active), (4, 0), "{action}");
    }
}

/// Rules: HT-47, HT-48.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_undone_behind_another_one_does_not_begin_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.json");
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(4, "R")).await;
    let page = Page::builder(broker.clone()).undo_window(Duration::from_secs(3_600)).open(&file).unwrap();
    let run = running(&page);
    let mut browser = Browser::new(&page);
    let mut begun = Vec::new();
    for number in ["1", "2", "3"] {
        let fields = [("action", "remove"), ("path", "orders"), ("number", number)];
        begun.push(browser.submit("/$page/confirm?action=remove&path=orders", "/$page/jobs", &fields).await.location());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let job = browser.get(&begun[1]).await;
    let id = begun[1].split_once("id=").unwrap().1;
    browser.post("/$page/job/stop", &job.csrf().unwrap(), &[("id", id)]).await;
    browser.get(&begun[1]).await.has("aria-live=\"polite\">stopped");
    // The process is killed.
    run.abort();
    drop((page, browser));

    let page = Page::builder(broker).open(&file).unwrap();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    assert_eq!(browser.get(&begun[1]).await.status, StatusCode::NOT_FOUND);
    while file.exists() {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let left = queue.dead_letter().peek(SequenceNumber::new(0), 10);
    let left: Vec<_> = left.iter().map(|message| message.received().unwrap().sequence_number.get()).collect();
    assert_eq!(left, [2, 4]);
}

/// They may have been resubmitted since the list was shown.
#[tokio::test]
async fn dead_letters_that_are_not_there_have_no_form_and_no_job() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let page = Page::builder(broker).build();
    let mut browser = Browser::new(&page);
    let token = browser.get("/$page/confirm?action=purge&path=orders").await.csrf().unwrap();
    for action in ["resubmit", "remove"] {
        for (found, number) in [("", ""), ("", "7"), ("0011223344556677", "")] {
            if !found.is_empty() {
                bury(&queue, letters(1, "R")).await;
            }
            let confirm = format!("/$page/confirm?action={action}&path=orders&group={found}");
            let number_of = if number.is_empty() { String::new() } else { format!("&number={number}") };
            let shown = browser.get(&(confirm + &number_of)).await;
            shown.has("There is nothing to do");
            shown.has_not("action=\"/$page/jobs\"");
            let fields = [("action", action), ("path", "orders"), ("group", found), ("number", number)];
            let begun = browser.post("/$page/jobs", &token, &fields).await;
            assert_eq!(begun.status, StatusCode::CONFLICT, "{action} {number}");
        }
        queue.dead_letter().delete_messages(10, None).await.unwrap();
    }
}

/// Rules: HT-46.
#[tokio::test]
async fn messages_and_dead_letters_are_removed() {
    let broker = Broker::new();
    let queue = queue(&broker);
    bury(&queue, letters(4, "R")).await;
    queue.sender().unwrap().send(Message::new("1")).await.unwrap();
    let page = Page::builder(broker).undo_window(Duration::ZERO).build();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    for (action, number, active, dead) in [("remove", "2", 1, 3), ("remove", "", 1, 0), ("purge", "", 0, 0)] {
        // The purge removes what was accepted before it.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let confirm = format!("/$page/confirm?action={action}&path=orders");
        let fields = [("action", action), ("path", "orders"), ("number", number)];
        let begun = browser.submit(&confirm, "/$page/jobs", &fields).await;
        ended(&mut browser, &begun).await.has("done<");
        assert_eq!((queue.counts().active, queue.counts().dead_lettered), (active, dead), "{action} {number}");
    }
}

/// Rules: HT-48.
#[tokio::test]
async fn a_job_continues_after_a_restart_and_sends_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("store"), folder.path().join("jobs.json"));
    let broker = Broker::open(&store).unwrap();
    let queue = queue(&broker);
    bury(&queue, letters(60, "R")).await;
    let page = Page::builder(broker.clone()).open(&file).unwrap();
    let mut browser = Browser::new(&page);
    let confirm = "/$page/confirm?action=resubmit&path=orders";
    let fields = [("action", "resubmit"), ("path", "orders"), ("per_second", "100")];
    let begun = browser.submit(confirm, "/$page/jobs", &fields).await;
    // The process ends when some are done: the work of the page stops where it is.
    tokio::select! {
        () = page.run() => {}
        () = async { while queue.counts().active < 20 { tokio::time::sleep(Duration::from_millis(1)).await } } => {}
    }
    assert!(queue.counts().active < 60);
    drop((page, browser));
    broker.close().await.unwrap();
    drop((broker, queue));

    let broker = Broker::open(&store).unwrap();
    let page = Page::builder(broker.clone()).open(&file).unwrap();
    let _run = running(&page);
    let mut browser = Browser::new(&page);
    ended(&mut browser, &begun).await.has("<span data-job-done>60</span> of 60 done");
    let queue = broker.queue("orders").unwrap();
    assert_eq!((queue.counts().active, queue.counts().dead_lettered), (60, 0));
    let sent = bodies(&queue).await;
    assert_eq!((sent.len(), sent.iter().collect::<BTreeSet<_>>().len()), (60, 60));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_scheduled_message_is_cancelled() {
    let broker = Broker::new();
    let queue = queue(&broker);
    let sender = queue.sender().unwrap();
    sender.schedule(vec![Message::new("later")], Timestamp::MAX).await.unwrap();
    let mut browser = Browser::new(&Page::builder(broker).build());
    let address = "/$page/message?path=orders&number=1";
    let cancelled = browser.submit(address, "/$page/cancel", &[("path", "orders"), ("number", "1")]).await;
    assert_eq!(cancelled.location(), "/$page/messages?path=orders&state=scheduled");
    assert_eq!(queue.counts().scheduled, 0);
    assert_eq!(browser.get(address).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_file_that_is_not_one_of_jobs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.json");
    std::fs::write(&file, "{}").unwrap();
    assert!(Page::builder(Broker::new()).open(&file).is_err());
}
