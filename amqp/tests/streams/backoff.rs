use std::time::Duration;

use consign_amqp::client::Backoff;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Rules: A-71.
#[test]
fn pauses_double_up_to_the_longest_and_are_random() {
    for seed in 0..200 {
        let mut backoff = Backoff::new(FIRST, LONGEST).seed(seed);
        for failures in 0_u32..100 {
            assert_eq!(backoff.failures(), failures);
            let whole = FIRST.saturating_mul(1 << failures.min(20)).min(LONGEST);
            let pause = backoff.next_pause();
            assert!(pause >= whole / 2 && pause <= whole, "seed {seed}, {failures} failures: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause() <= FIRST);
    }
    let pauses = |seed| Backoff::new(FIRST, LONGEST).seed(seed).next_pause();
    assert_eq!(pauses(1), pauses(1));
    assert!((0..50).any(|seed| pauses(seed) != pauses(50)), "they are random");
}

/// Rules: A-71.
#[test]
fn no_duration_overflows() {
    let mut backoff = Backoff::new(Duration::MAX, Duration::ZERO);
    for _ in 0..100 {
        assert!(backoff.next_pause() >= Duration::MAX / 2);
    }
    let mut none = Backoff::new(Duration::ZERO, Duration::ZERO);
    assert_eq!(none.next_pause(), Duration::ZERO);
}
