use consign::{
    Message,
    middleware::in_flight::{InFlight, InFlightLayer},
    transport::{Batch, ErrorKind, SendError, SendService},
};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, assert_ready_ok, task, task::Spawn};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::support::{Broker, message};

type Send = Spawn<<InFlight<SendService<Broker>> as Service<Message>>::Future>;

/// Starts `count` sends to a broker that withholds its answers.
fn started(stack: &mut InFlight<SendService<Broker>>, count: usize) -> Vec<Send> {
    (0..count)
        .map(|_| {
            let mut send = task::spawn(stack.call(message("m")));
            assert_pending!(send.poll());
            send
        })
        .collect()
}

fn window(limit: usize) -> (Broker, InFlight<SendService<Broker>>) {
    let broker = Broker::default();
    (broker.clone(), InFlightLayer::new(limit).layer(SendService::new(broker)))
}

/// Rules.
#[test]
fn the_eleventh_of_ten_waits_for_one_to_settle() {
    let (broker, mut stack) = window(10);
    let mut sends = started(&mut stack, 12);
    assert_eq!((broker.transfers(), stack.available()), (10, 0));

    broker.answer(3, Ok(()));
    assert_ready_ok!(sends[3].poll());
    assert!(sends[10].is_woken() && !sends[11].is_woken());
    assert_pending!(sends[10].poll());
    assert_pending!(sends[11].poll());
    assert_eq!(broker.transfers(), 11);
}

/// Rules: X-08.
#[test]
fn a_failed_send_returns_its_permit() {
    let (broker, mut stack) = window(1);
    let mut sends = started(&mut stack, 2);
    broker.answer(0, Err(SendError::new(ErrorKind::QuotaExceeded)));
    assert_eq!(assert_ready_err!(sends[0].poll()).kind(), ErrorKind::QuotaExceeded);
    assert_pending!(sends[1].poll());
    assert_eq!(broker.transfers(), 2);
}

/// Rules: X-09.
#[test]
fn there_is_a_bound_by_default() {
    assert_eq!(InFlightLayer::default().available(), 100);
    assert_eq!(InFlightLayer::new(0).available(), 1);
    assert!(InFlightLayer::new(usize::MAX).available() > 1 << 20);
}

/// Rules: X-10.
#[test]
fn dropping_a_send_frees_its_permit_and_recalls_nothing() {
    let (broker, mut stack) = window(1);
    let mut sends = started(&mut stack, 3);
    drop(sends.remove(0));
    // One that waits may be dropped too, and the one behind it still gets the permit.
    drop(sends.remove(0));
    assert_pending!(sends[0].poll());
    assert_eq!(broker.transfers(), 2, "the dropped send had reached the broker");
    broker.answer(0, Ok(()));
    broker.answer(1, Ok(()));
    assert_ready_ok!(sends[0].poll());
    assert_eq!(stack.available(), 1);
}

/// Rules: X-21.
#[test]
fn one_rejection_of_ten_is_that_sends_alone() {
    let (broker, mut stack) = window(10);
    let mut sends = started(&mut stack, 10);
    for transfer in 0..10 {
        broker.answer(
            transfer,
            match transfer {
                2 => Err(SendError::new(ErrorKind::InvalidArgument).with_detail("TrackingId:t-3")),
                _ => Ok(()),
            },
        );
    }
    for (number, send) in sends.iter_mut().enumerate() {
        match assert_ready!(send.poll()) {
            Ok(()) => assert_ne!(number, 2),
            Err(error) => {
                assert_eq!((number, error.kind()), (2, ErrorKind::InvalidArgument));
                assert!(error.to_string().contains("tracking id t-3"));
            }
        }
    }
    assert_eq!(stack.available(), 10, "permits return with the answer, not with the drop of the future");
}

/// Rules: X-23.
#[test]
fn answers_in_reverse_order_find_their_sends() {
    let (broker, mut stack) = window(10);
    let mut sends = started(&mut stack, 10);
    for transfer in (0..10).rev() {
        let detail = transfer.to_string();
        broker.answer(transfer, Err(SendError::new(ErrorKind::ServiceBusy).with_detail(detail)));
        let error = assert_ready_err!(sends[transfer].poll());
        assert!(error.to_string().ends_with(&format!("({transfer})")), "{error}");
    }
}

/// Rules: I-36.
#[test]
fn an_idle_ready_clone_and_an_unpolled_call_hold_nothing() {
    let (broker, mut stack) = window(1);
    let mut idle: Vec<_> = (0..4).map(|_| task::spawn(stack.clone())).collect();
    for clone in &mut idle {
        assert_ready_ok!(clone.enter(|cx, mut service| Service::<Message>::poll_ready(&mut *service, cx)));
    }
    let _unpolled = stack.call(message("unpolled"));
    let mut send = task::spawn(stack.call(message("m")));
    assert_pending!(send.poll());
    assert_eq!(broker.transfers(), 1);
}

#[test]
fn services_of_one_layer_share_its_bound() {
    let layer = InFlightLayer::new(1);
    let broker = Broker::default();
    let (mut one, mut two) =
        (layer.layer(SendService::new(broker.clone())), layer.layer(SendService::new(broker.clone())));
    let _held = started(&mut one, 1);
    let _waits = started(&mut two, 1);
    assert_eq!((broker.transfers(), layer.available()), (1, 0));
}

#[test]
fn a_batch_is_one_transfer_and_takes_one_permit() {
    let (broker, mut stack) = window(2);
    let mut send = task::spawn(stack.call(Batch::from([message("a"), message("b")])));
    assert_pending!(send.poll());
    assert_eq!((broker.transfers(), stack.available()), (1, 1));
    let subjects: Vec<_> = broker.messages(0).iter().map(|message| message.subject().map(ToOwned::to_owned)).collect();
    assert_eq!(subjects, [Some("a".to_owned()), Some("b".to_owned())]);
}

#[tokio::test]
async fn an_inner_service_that_is_not_ready_is_waited_for_inside_the_call() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(InFlightLayer::new(1));
    handle.allow(0);
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut send = task::spawn(stack.call(message("m")));
    assert_pending!(send.poll());
    assert_pending!(handle.poll_request());
    handle.allow(1);
    assert_pending!(send.poll());
    let (seen, answer) = handle.next_request().await.unwrap();
    assert_eq!(seen.subject(), Some("m"));
    answer.send_response(());
    assert_ready_ok!(send.poll());
}

/// Rules: X-35.
#[tokio::test(start_paused = true)]
async fn a_window_of_ten_takes_ten_round_trips_for_a_hundred() {
    let start = tokio::time::Instant::now();
    let stack = InFlightLayer::new(10).layer(service_fn(|_: Message| async {
        tokio::time::sleep(std::time::Duration::from_millis(80)).await;
        Ok::<_, SendError>(())
    }));
    let sends: Vec<_> = (0..100).map(|_| tokio::spawn(stack.clone().oneshot(message("m")))).collect();
    for send in sends {
        send.await.unwrap().unwrap();
    }
    assert_eq!(start.elapsed().as_millis(), 800);
}
