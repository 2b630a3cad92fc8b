//! Dispositions, batches and answers.

use super::*;

/// Rules: K-136.
#[test]
fn a_disposition_is_what_a_loop_requests() {
    let message = with_attributes_of(&[]);
    let settled = |disposition| settlement(&message, disposition, Queue::Standard).unwrap();
    assert_eq!(settled(Disposition::Complete), Settlement::Complete);
    for (delay, visibility_timeout) in
        [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (39_600_000, 39_600), (43_200_000, 39_600), (1 << 40, 39_600)]
    {
        let changes = Changes::NONE.after(Duration::from_millis(delay));
        assert_eq!(settled(Disposition::Abandon(changes)), Settlement::Abandon { visibility_timeout });
    }
    assert_eq!(settled(Disposition::DEFER), Settlement::Abandon { visibility_timeout: 0 });
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let copy = dead_letter(&message, letter.clone(), Queue::Standard).unwrap();
    assert_eq!(settled(Disposition::DeadLetter(Box::new(letter))), Settlement::DeadLetter(Box::new(copy)));
}

#[test]
fn an_entry_of_a_batch_is_the_request() {
    let message = Message::builder().session_id("s").message_id("m").property("tenant", "acme").build("body").unwrap();
    let request = to_sqs(&message, Queue::Fifo, NOW).unwrap().delay_seconds(5);
    let entry = batch_entry("1", &request).unwrap();
    assert_eq!((entry.id(), entry.message_body(), entry.delay_seconds()), ("1", "body", Some(5)));
    assert_eq!((entry.message_group_id(), entry.message_deduplication_id()), (Some("s"), Some("m")));
    assert_eq!(entry.message_attributes(), request.get_message_attributes().as_ref());
}

#[test]
fn an_answer_is_the_result_of_a_send() {
    let result = |error: SdkError<SendMessageError, ()>| -> SendError { confirmed(Err(error)).unwrap_err() };
    let stored: Result<_, SdkError<_, ()>> = Ok(SendMessageOutput::builder().build());
    assert!(confirmed(stored).is_ok());
    let coded = |code: &str| {
        let meta = ErrorMetadata::builder().code(code).message("what is wrong").build();
        result(SdkError::service_error(SendMessageError::generic(meta), ()))
    };
    for (code, kind, is_retryable) in [
        ("InvalidParameterValue", ErrorKind::InvalidArgument, false),
        ("AccessDenied", ErrorKind::Unauthorized, false),
        ("AWS.SimpleQueueService.NonExistentQueue", ErrorKind::EntityNotFound, false),
        ("ThrottlingException", ErrorKind::ServiceBusy, true),
        ("Other", ErrorKind::General, true),
    ] {
        let error = coded(code);
        assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{code}");
        assert!(error.to_string().contains("what is wrong") && std::error::Error::source(&error).is_some(), "{error}");
    }
    let missing = SendMessageError::QueueDoesNotExist(QueueDoesNotExist::builder().build());
    assert_eq!(result(SdkError::service_error(missing, ())).kind(), ErrorKind::EntityNotFound);
    assert_eq!(result(SdkError::timeout_error("late")).kind(), ErrorKind::ServiceTimeout);
    assert_eq!(result(SdkError::response_error("cut", ())).kind(), ErrorKind::CommunicationProblem);
    assert_eq!(result(SdkError::construction_failure("no region")).kind(), ErrorKind::InvalidOperation);
}
