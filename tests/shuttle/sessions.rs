//! A session that is given up, or lost, while others want it.

use std::sync::Arc;

use consign::{Message, broker::SessionReceiver, transport::ErrorKind};
use shuttle::{
    future::block_on,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    explore::{random, random_and_pct},
    support::{Bench, LOCK, MS, settings, wait_briefly},
};

fn bench() -> Bench {
    let bench = Bench::new(settings().requires_session(true));
    bench.send_message(Message::builder().session_id("s").build("a").unwrap());
    bench
}

/// Waits for the session, without an end.
fn accept_next(bench: &Bench) -> SessionReceiver {
    block_on(bench.queue.session_acceptor().unwrap().accept_next()).unwrap()
}

/// Whether the session has a holder.
#[derive(Clone, Default)]
struct Holder(Arc<AtomicBool>);

impl Holder {
    fn begin(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "a session has two holders");
    }

    fn close(&self, session: SessionReceiver) {
        self.0.store(false, Ordering::SeqCst);
        session.close().unwrap();
    }
}

/// Rules: I-24.
#[test]
fn accept_against_close() {
    random_and_pct("accept_against_close", || {
        let (bench, holder) = (bench(), Holder::default());
        let first = accept_next(&bench);
        holder.begin();
        let others = [(); 2].map(|()| {
            let holder = holder.clone();
            bench.spawn(move |bench| {
                let session = accept_next(bench);
                holder.begin();
                holder.close(session);
            })
        });
        let by_id = bench.spawn({
            let holder = holder.clone();
            move |bench| match bench.queue.accept_session("s") {
                Ok(session) => {
                    holder.begin();
                    holder.close(session);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked),
            }
        });
        holder.close(first);
        others.into_iter().for_each(|other| other.join().unwrap());
        by_id.join().unwrap();
    });
}

/// Rules: I-24.
#[test]
fn accept_against_expiry() {
    random_and_pct("accept_against_expiry", || {
        let bench = bench();
        let mut first = accept_next(&bench);
        bench.advance(LOCK - MS);
        let second = bench.spawn(accept_next);
        let clock = bench.spawn(|bench| bench.advance(MS));
        let renewed = first.renew();
        clock.join().unwrap();
        let is_renewed = renewed.is_ok();
        if is_renewed {
            assert!(first.renew().is_ok(), "renewed, and lost");
            assert_eq!(bench.queue.accept_session("s").unwrap_err().kind(), ErrorKind::SessionCannotBeLocked);
            bench.advance(LOCK);
        }
        let second = second.join().unwrap();
        assert_eq!(first.renew().unwrap_err().kind(), ErrorKind::SessionLockLost);
        assert!(first.close().is_err());
        match second.close() {
            // Its lock counts from the time that it read before it came to the broker. The last step may lie in between.
            Err(error) if is_renewed => assert_eq!(error.kind(), ErrorKind::SessionLockLost),
            closed => closed.unwrap(),
        }
    });
}

/// Rules: I-24.
#[test]
fn an_acceptor_that_is_dropped_as_it_is_woken() {
    random("an_acceptor_that_is_dropped_as_it_is_woken", || {
        let bench = bench();
        let first = accept_next(&bench);
        let gone = bench.spawn(|bench| {
            if let Some(session) = wait_briefly(bench.queue.session_acceptor().unwrap().accept_next()) {
                session.unwrap().close().unwrap();
            }
        });
        let stays = bench.spawn(|bench| drop(accept_next(bench)));
        first.close().unwrap();
        gone.join().unwrap();
        stays.join().unwrap();
    });
}
