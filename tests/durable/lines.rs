//! Messages as lines of JSON.

use consign::{Message, administration::QueueSettings, broker::Broker, message::SequenceNumber, transport::Sender};

#[tokio::test]
async fn exported_messages_can_be_imported() {
    let broker = Broker::new();
    let [from, to] = ["from", "to"].map(|path| broker.create_queue(path, QueueSettings::default()).unwrap());
    for number in 0..1_000_u64 {
        let message =
            Message::builder().message_id(number.to_string()).property("number", number).build(vec![0xff; 10]);
        from.sender().unwrap().send(message.unwrap()).await.unwrap();
    }
    let mut lines = Vec::new();
    assert_eq!(from.export(&mut lines).unwrap(), 1_000);
    assert_eq!(lines.split_inclusive(|&byte| byte == b'\n').count(), 1_000);
    assert_eq!(to.sender().unwrap().import(&lines[..]).unwrap(), 1_000);
    let all = |queue: &consign::broker::Queue| queue.peek(SequenceNumber::new(0), 2_000);
    for (before, after) in all(&from).iter().zip(&all(&to)) {
        assert_eq!(before.properties(), after.properties());
        assert_eq!(before.payload(), after.payload());
    }
    let broken = b"{\"no\":\"message\"}\n";
    let error = to.sender().unwrap().import(&broken[..]).unwrap_err();
    assert!(error.to_string().starts_with("line 1"), "{error}");
    let small = broker.create_queue("small", QueueSettings::default().max_message_size(5)).unwrap();
    let error = small.sender().unwrap().import(&lines[..]).unwrap_err();
    assert_eq!(error.to_string(), "message 1 was refused");
}

#[tokio::test]
async fn an_import_ends_at_the_first_line_that_is_refused_or_malformed() {
    let broker = Broker::new();
    let from = broker.create_queue("from", QueueSettings::default()).unwrap();
    for body in ["a", "b", "larger", "d"] {
        from.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    let mut lines = Vec::new();
    from.export(&mut lines).unwrap();
    lines.extend(b"no message\n");
    let small = broker.create_queue("small", QueueSettings::default().max_message_size(36)).unwrap();
    let error = small.sender().unwrap().import(&lines[..]).unwrap_err();
    assert_eq!(error.to_string(), "message 3 was refused");
    assert_eq!(small.counts().active, 2);
}
