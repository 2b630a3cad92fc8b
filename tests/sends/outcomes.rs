//! What a sender learns, and when.

use consign::{
    Message,
    administration::QueueSettings,
    middleware::in_flight::InFlightLayer,
    testing::{Faults, Link, LinkSettings, SendFault, TestBroker},
    transport::{Batch, ErrorKind, PresettledSender, PresettledService, SendExt, SendService, Sender},
};
use tokio::time::{Instant, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, assert_ready_ok, task};
use tower::{Layer, Service};

use crate::support::{ROUND_TRIP, STORE, far, linked, numbered, pipelined, settle_down, subjects};

/// Rules: X-01.
#[tokio::test(start_paused = true)]
async fn a_send_ends_with_the_answer_and_not_with_the_effect() {
    let (queue, _, sender) = linked(far());
    let mut send = task::spawn(sender.send(numbered(0)));
    assert_pending!(send.poll());
    sleep(ROUND_TRIP / 2).await;
    assert_eq!(queue.counts().active, 0, "it is on its way");
    sleep(STORE).await;
    settle_down().await;
    assert_eq!(queue.counts().active, 1, "it is stored");
    assert_pending!(send.poll());
    sleep(ROUND_TRIP / 2).await;
    settle_down().await;
    assert_ready_ok!(send.poll());
}

/// Rules: X-02.
#[tokio::test(start_paused = true)]
async fn success_says_nothing_and_a_rejection_everything() {
    let (queue, _, sender) = linked(far().faults(Faults::none().on_send(2, SendFault::Reject(ErrorKind::ServiceBusy))));
    let () = sender.send(numbered(0)).await.unwrap();
    let error = sender.send(numbered(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.condition()), (ErrorKind::ServiceBusy, Some("com.microsoft:server-busy")));
    assert_eq!((error.tracking_id(), error.is_retryable()), (Some("2_link"), true));
    assert_eq!(subjects(&queue.messages()), [0]);
}

/// Rules: X-06.
#[tokio::test(start_paused = true)]
async fn pipelined_sends_may_end_out_of_order() {
    let (_, link, sender) = linked(far());
    link.withhold_answers();
    let mut sends: Vec<_> = (0..3).map(|number| task::spawn(sender.send(numbered(number)))).collect();
    for send in &mut sends {
        assert_pending!(send.poll());
    }
    sleep(ROUND_TRIP + 3 * STORE).await;
    settle_down().await;
    assert_eq!(link.withheld(), [1, 2, 3]);
    assert!(link.answer(2) && !link.answer(2));
    assert_pending!(sends[0].poll());
    assert_ready_ok!(sends[1].poll());
    assert_pending!(sends[2].poll());
    link.answer_all();
    assert_ready_ok!(sends[0].poll());
    assert_ready_ok!(sends[2].poll());
}

/// Rules: X-07.
#[tokio::test(start_paused = true)]
async fn numbers_ascend_in_the_order_of_sending() {
    let (queue, _, sender) = linked(far());
    for number in 0..20 {
        sender.send(numbered(number)).await.unwrap();
    }
    assert_eq!(subjects(&queue.messages()), (0..20).collect::<Vec<_>>());

    for settings in [far(), LinkSettings::default()] {
        let (queue, _, sender) = linked(settings);
        pipelined(&sender, 200).await;
        let messages = queue.messages();
        assert_eq!(subjects(&messages), (0..200).collect::<Vec<_>>());
        let numbers = messages.iter().map(|message| message.received().unwrap().sequence_number.get());
        assert!(numbers.eq(1..=200));
    }
}

/// Rules: X-09.
#[tokio::test(start_paused = true)]
async fn no_more_is_under_way_than_the_bound() {
    let (queue, link, sender) = linked(far());
    link.withhold_answers();
    let mut stack = InFlightLayer::default().layer(SendService::new(sender));
    let mut sends: Vec<_> = (0..150).map(|number| task::spawn(stack.call(numbered(number)))).collect();
    for send in &mut sends {
        assert_pending!(send.poll());
    }
    sleep(2 * ROUND_TRIP + 200 * STORE).await;
    assert_eq!((link.transfers(), queue.counts().active), (100, 100));
}

/// Rules: X-10.
#[tokio::test(start_paused = true)]
async fn a_send_that_is_dropped_may_have_happened() {
    let (queue, _, sender) = linked(far());
    let mut stack = InFlightLayer::new(1).layer(SendService::new(sender));
    let mut dropped = task::spawn(stack.call(numbered(0)));
    assert_pending!(dropped.poll());
    drop(dropped);
    assert_eq!(stack.available(), 1);
    stack.send(numbered(1)).await.unwrap();
    assert_eq!(subjects(&queue.messages()), [0, 1]);
}

/// Rules: X-20.
#[tokio::test(start_paused = true)]
async fn with_ten_answers_withheld_the_eleventh_is_not_written() {
    let (_, link, sender) = linked(far());
    link.withhold_answers();
    let mut stack = InFlightLayer::new(10).layer(SendService::new(sender));
    let mut sends: Vec<_> = (0..12).map(|number| task::spawn(stack.call(numbered(number)))).collect();
    for send in &mut sends {
        assert_pending!(send.poll());
    }
    sleep(ROUND_TRIP + 12 * STORE).await;
    settle_down().await;
    assert_eq!((link.transfers(), link.withheld().len()), (10, 10));
    assert!(link.answer(4));
    assert_ready_ok!(sends[3].poll());
    assert_pending!(sends[10].poll());
    assert_pending!(sends[11].poll());
    assert_eq!(link.transfers(), 11);
}

/// Rules: X-21.
#[tokio::test(start_paused = true)]
async fn of_ten_sends_the_third_is_refused_and_nine_are_there() {
    let faults = Faults::none().on_send(3, SendFault::Reject(ErrorKind::QuotaExceeded));
    let (queue, _, sender) = linked(far().faults(faults));
    let answers = pipelined(&sender, 10).await;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), number == 2, "{number}: {answer:?}");
    }
    let refused = answers[2].as_ref().unwrap_err();
    assert_eq!((refused.kind(), refused.tracking_id()), (ErrorKind::QuotaExceeded, Some("3_link")));
    assert_eq!(subjects(&queue.messages()), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
}

/// Rules: X-23.
#[tokio::test(start_paused = true)]
async fn answers_in_reverse_order_reach_their_own_sends() {
    let kinds = [ErrorKind::QuotaExceeded, ErrorKind::ServiceBusy, ErrorKind::EntityDisabled];
    let faults = (1..).zip(kinds).fold(Faults::none(), |faults, (n, kind)| faults.on_send(n, SendFault::Reject(kind)));
    let (_, link, sender) = linked(far().faults(faults));
    link.withhold_answers();
    let mut sends: Vec<_> = (0..4).map(|number| task::spawn(sender.send(numbered(number)))).collect();
    sleep(ROUND_TRIP + 4 * STORE).await;
    settle_down().await;
    for number in link.withheld().into_iter().rev() {
        link.answer(number);
        let answer = assert_ready!(sends[usize::try_from(number).unwrap() - 1].poll());
        let expected = kinds.get(usize::try_from(number).unwrap() - 1);
        assert_eq!(answer.err().map(|error| error.kind()).as_ref(), expected);
    }
}

/// Rules: X-12.
#[tokio::test(start_paused = true)]
async fn a_presettled_send_returns_when_it_is_written() {
    let (queue, _, sender) = linked(far());
    let mut stack = PresettledService::new(sender);
    let start = Instant::now();
    for number in 0..10 {
        stack.send(numbered(number)).await.unwrap();
    }
    assert_eq!((start.elapsed().as_millis(), queue.counts().active), (0, 0));
    sleep(ROUND_TRIP / 2 + 10 * STORE).await;
    settle_down().await;
    assert_eq!(subjects(&queue.messages()), (0..10).collect::<Vec<_>>());
}

/// Rules: X-24.
#[tokio::test(start_paused = true)]
async fn a_presettled_send_to_a_full_queue_looks_like_success() {
    let queue = TestBroker::new().queue_with("orders", QueueSettings::default().max_size(1 << 10));
    while queue.try_send(Message::new(vec![0; 100])).is_ok() {}
    let before = queue.counts().active;
    let link = Link::new(far());
    link.sender(queue.sender().unwrap()).send_presettled(Message::new(vec![0; 100])).await;
    sleep(2 * ROUND_TRIP).await;
    assert_eq!((queue.counts().active, link.transfers()), (before, 1));
    // The same send with an outcome is refused.
    let refused = link.sender(queue.sender().unwrap()).send(Message::new(vec![0; 100])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
}

/// Rules: X-13.
#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_message_is_there_and_after_a_lost_message_it_is_not() {
    let faults = Faults::none()
        .on_send(1, SendFault::LoseAnswer(ErrorKind::ServiceTimeout))
        .on_send(2, SendFault::LoseMessage(ErrorKind::ServiceTimeout));
    let (queue, _, sender) = linked(far().faults(faults));
    for answer in pipelined(&sender, 2).await {
        let error = answer.unwrap_err();
        assert_eq!(
            (error.kind(), error.is_outcome_unknown(), error.is_retryable()),
            (ErrorKind::ServiceTimeout, true, true)
        );
    }
    assert_eq!(subjects(&queue.messages()), [0], "a sender cannot tell the two apart");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_transfer_and_stored_whole_or_not_at_all() {
    let (queue, link, sender) = linked(far());
    sender.send_batch((0..3).map(numbered).collect()).await.unwrap();
    assert_eq!((link.transfers(), subjects(&queue.messages())), (1, vec![0, 1, 2]));
    let too_large = Message::new(vec![0; 300 << 10]);
    let mut refused = task::spawn(sender.send_batch(Batch::from([numbered(3), too_large])));
    assert_pending!(refused.poll());
    sleep(ROUND_TRIP + STORE).await;
    settle_down().await;
    assert_eq!(assert_ready_err!(refused.poll()).kind(), ErrorKind::MessageSizeExceeded);
    assert_eq!(queue.counts().active, 3);
}
