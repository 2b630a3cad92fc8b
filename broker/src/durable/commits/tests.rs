use std::sync::atomic::AtomicUsize;

use futures_util::{FutureExt, task::noop_waker};

use super::*;

#[derive(Default)]
struct Counted(AtomicUsize);

impl std::task::Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counted(commits: &Arc<Commits>) -> (Commit, Arc<Counted>) {
    let (mut commit, woken) = (commits.pending().expect("a change"), Arc::<Counted>::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(commit.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    (commit, woken)
}

fn has_work(commits: &Commits) -> bool {
    std::mem::take(&mut commits.work.lock().is_there)
}

/// Rules: D-290.
#[test]
fn the_writer_is_notified_when_the_first_call_is_waited_for() {
    let commits = Arc::new(Commits::default());
    assert!(commits.begin(1));
    let mut calls: Vec<Commit> = (0..3).map(|_| commits.pending().unwrap()).collect();
    assert!(!commits.begin(1) && !has_work(&commits), "they are still being made");
    let waker = noop_waker();
    for (nth, call) in calls.iter_mut().enumerate() {
        assert!(call.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(has_work(&commits), nth == 0, "it is requested once");
    }
}

/// Rules: D-290.
#[test]
fn the_writer_is_notified_when_a_call_is_dropped() {
    let commits = Arc::new(Commits::default());
    commits.begin(1);
    let calls = [(); 2].map(|()| commits.pending().unwrap());
    assert!(!has_work(&commits));
    drop(calls);
    assert!(has_work(&commits));
    commits.finish(1);
    commits.begin(2);
    let call = commits.pending().unwrap();
    commits.finish(2);
    drop(call);
    assert!(!has_work(&commits), "it is on the disk already");
}

#[test]
fn a_commit_wakes_its_own_batches_only() {
    let commits = Arc::new(Commits::default());
    commits.begin(1);
    let (first, second) = (counted(&commits), counted(&commits));
    commits.begin(2);
    let later = counted(&commits);
    commits.finish(1);
    let woken = || [&first, &second, &later].map(|(_, woken)| woken.0.load(Ordering::Relaxed));
    assert_eq!(woken(), [1, 1, 0]);
    commits.fail(StorageError::new(crate::StorageErrorKind::Failed, ""));
    assert_eq!(woken(), [1, 1, 1]);
    assert!(first.0.now_or_never().unwrap().is_ok() && later.0.now_or_never().unwrap().is_err());
    assert!(commits.waiting.lock().is_empty());
}

#[test]
fn a_call_that_is_dropped_leaves_no_waker() {
    let commits = Arc::new(Commits::default());
    commits.begin(1);
    let calls = [(); 3].map(|()| counted(&commits));
    for (call, woken) in calls {
        drop(call);
        assert_eq!(Arc::strong_count(&woken), 1);
    }
    assert!(commits.waiting.lock().is_empty());
}

#[test]
fn the_last_task_that_polls_is_woken() {
    let commits = Arc::new(Commits::default());
    commits.begin(1);
    let (mut call, before) = counted(&commits);
    let after = Arc::<Counted>::default();
    let waker = Waker::from(Arc::clone(&after));
    assert!(call.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    commits.finish(1);
    assert_eq!([before, after].map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
}
