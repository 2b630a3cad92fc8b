use super::*;

/// Rules: T-82.
#[test]
fn a_batch_of_which_a_message_may_be_stored_is_not_refused() {
    use ErrorKind::{EntityNotFound, General, QuotaExceeded, ServiceTimeout};
    let of = |is_any_stored, kinds: &[ErrorKind]| {
        let result = of_all(is_any_stored, kinds.iter().map(|kind| SendError::new(*kind)));
        result.map_err(|error| error.kind())
    };
    assert_eq!(of(true, &[]), Ok(()));
    assert_eq!(of(false, &[EntityNotFound, EntityNotFound]), Err(EntityNotFound));
    assert_eq!(of(false, &[QuotaExceeded]), Err(QuotaExceeded));
    assert_eq!(of(false, &[EntityNotFound, ServiceTimeout]), Err(General));
    assert_eq!(of(false, &[ServiceTimeout, EntityNotFound]), Err(ServiceTimeout));
    assert_eq!(of(true, &[QuotaExceeded]), Err(General));
    let error = of_all(true, std::iter::once(SendError::new(EntityNotFound))).unwrap_err();
    assert_eq!(error.is_retryable(), SendError::new(EntityNotFound).is_retryable());
}
