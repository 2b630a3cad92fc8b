//! Counts of the entities over time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    fmt::Write,
    sync::Arc,
    time::Duration,
};

use consign_core::{
    administration::{Administration, Counts, EntityKind},
    message::EntityPath,
    time::Timestamp,
    transport::{ErrorKind, Escaped},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Shared;

/// How often messages are counted.
const EVERY: Duration = Duration::from_secs(2);
/// How long after the last look the messages of an external broker are still counted.
const WATCHED: Duration = Duration::from_secs(60);
/// Samples that are kept for a plot: two minutes.
pub(super) const SAMPLES: usize = 60;
/// Most entities of an external broker, each of which is a request.
const MAX_REMOTE: usize = 200;
/// Most entities of the embedded broker.
const MAX_LOCAL: usize = 2_000;

/// The counts of all entities, and who watches them.
#[derive(Default)]
pub(super) struct Live {
    now: watch::Sender<Arc<View>>,
    watched: Mutex<Option<Timestamp>>,
    /// The entities whose last count has failed, which was logged.
    uncounted: Mutex<BTreeSet<String>>,
}

/// The counts at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) entities: BTreeMap<String, EntityView>,
    /// Entities that are not counted.
    pub(super) omitted: usize,
    /// Why the transport cannot list its entities.
    pub(super) failure: Option<String>,
    taken_at: Option<Timestamp>,
}

/// One entity at one time, with its past.
#[derive(Clone, Debug)]
pub(super) struct EntityView {
    pub(super) kind: EntityKind,
    /// `None` where they are not counted.
    pub(super) counts: Option<Counts>,
    /// Arrived and delivered messages, where the transport counts them.
    totals: Option<(u64, u64)>,
    /// Arrived and delivered messages in a second.
    pub(super) rates: Option<(f64, f64)>,
    pub(super) depth: VecDeque<f64>,
    pub(super) arrivals: VecDeque<f64>,
}

impl Live {
    /// The last counts, and those that follow.
    pub(super) fn watch(&self, shared: &Shared) -> watch::Receiver<Arc<View>> {
        *self.watched.lock() = Some(shared.now());
        self.now.subscribe()
    }

    /// The counts now.
    pub(super) async fn view(&self, shared: &Shared) -> Arc<View> {
        *self.watched.lock() = Some(shared.now());
        let last = self.now.borrow().clone();
        // The page after an action shows its effect.
        let view = Arc::new(next(shared, &last, false).await);
        self.now.send_if_modified(|kept| {
            let is_first = kept.taken_at.is_none();
            if is_first {
                *kept = Arc::clone(&view);
            }
            is_first
        });
        view
    }

    /// The counts of an entity. The first failure of an entity is logged.
    pub(super) async fn counts(&self, shared: &Shared, path: &EntityPath) -> Option<Counts> {
        let error = match shared.transport.counts(path).await {
            Ok(counts) => {
                self.uncounted.lock().remove(path.as_str());
                return Some(counts);
            }
            Err(error) => error,
        };
        // An entity may be gone by now, or be of a kind that the broker does not count.
        if !matches!(error.kind(), ErrorKind::NotSupported | ErrorKind::EntityNotFound) {
            let mut uncounted = self.uncounted.lock();
            if uncounted.len() < MAX_REMOTE && uncounted.insert(path.to_string()) {
                drop(uncounted);
                tracing::warn!(entity = %Escaped(path.as_str()), error = %Escaped(&error.to_string()), "messages are not counted");
            }
        }
        None
    }

    /// Counts again and again.
    pub(super) async fn run(&self, shared: &Shared) -> Infallible {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let is_watched = |at: Timestamp| shared.now().saturating_since(at) < WATCHED;
            if shared.broker().is_none()
                && !self.watched.lock().is_some_and(is_watched)
                && self.now.receiver_count() == 0
            {
                continue;
            }
            let last = self.now.borrow().clone();
            let view = next(shared, &last, true).await;
            self.now.send_replace(Arc::new(view));
        }
    }
}

/// Counts once more. A sample is added to the past if it is that of a tick.
async fn next(shared: &Shared, last: &View, is_sample: bool) -> View {
    let now = shared.now();
    let mut view = View { taken_at: Some(now), ..View::default() };
    let counted = match shared.broker() {
        Some(broker) => {
            let statistics = broker.statistics();
            view.omitted = statistics.len().saturating_sub(MAX_LOCAL);
            let counted = statistics.into_iter().take(MAX_LOCAL).map(|entity| {
                let totals = (entity.totals.arrived, entity.totals.delivered);
                (entity.path.to_string(), entity.kind, Some(entity.counts), Some(totals))
            });
            counted.collect()
        }
        None => match remote(shared, &mut view).await {
            Ok(counted) => counted,
            Err(failure) => {
                view.failure = Some(failure);
                Vec::new()
            }
        },
    };
    let seconds = last.taken_at.map(|at| now.saturating_since(at).as_secs_f64()).filter(|seconds| *seconds > 0.0);
    for (path, kind, counts, totals) in counted {
        let past = last.entities.get(&path);
        let entity = EntityView::after(past, kind, counts, totals, seconds, is_sample);
        view.entities.insert(path, entity);
    }
    if !is_sample {
        view.taken_at = last.taken_at.or(view.taken_at);
    }
    view
}

type Counted = (String, EntityKind, Option<Counts>, Option<(u64, u64)>);

/// The counts of an external broker.
async fn remote(shared: &Shared, view: &mut View) -> Result<Vec<Counted>, String> {
    let entities = shared.transport.list().await.map_err(|error| error.to_string())?;
    view.omitted = entities.len().saturating_sub(MAX_REMOTE);
    let mut counted = Vec::new();
    for entity in entities.into_iter().take(MAX_REMOTE) {
        let counts = shared.live.counts(shared, &entity.path).await;
        counted.push((entity.path.to_string(), entity.kind, counts, None));
    }
    Ok(counted)
}

impl EntityView {
    /// An entity without a past.
    pub(super) fn first(kind: EntityKind, counts: Option<Counts>) -> Self {
        Self::after(None, kind, counts, None, None, false)
    }

    #[expect(clippy::cast_precision_loss, reason = "a plot has fewer digits")]
    fn after(
        past: Option<&Self>,
        kind: EntityKind,
        counts: Option<Counts>,
        totals: Option<(u64, u64)>,
        seconds: Option<f64>,
        is_sample: bool,
    ) -> Self {
        let rate = |before: u64, now: u64, seconds: f64| now.saturating_sub(before) as f64 / seconds;
        let measured = match (past.and_then(|past| past.totals), totals, seconds) {
            (Some(before), Some(now), Some(seconds)) => {
                Some((rate(before.0, now.0, seconds), rate(before.1, now.1, seconds)))
            }
            _ => None,
        };
        let (mut depth, mut arrivals) =
            past.map(|past| (past.depth.clone(), past.arrivals.clone())).unwrap_or_default();
        if is_sample {
            if let Some(counts) = &counts {
                push(&mut depth, (counts.active + counts.locked) as f64);
            }
            push(&mut arrivals, measured.map_or(0.0, |(arrived, _)| arrived));
        }
        let (totals, rates) = if is_sample || past.is_none() {
            (totals, measured)
        } else {
            (past.and_then(|past| past.totals), past.and_then(|past| past.rates))
        };
        Self { kind, counts, totals, rates, depth, arrivals }
    }
}

fn push(samples: &mut VecDeque<f64>, sample: f64) {
    if samples.len() == SAMPLES {
        samples.pop_front();
    }
    samples.push_back(sample);
}

/// The width and the height of a plot, in units of its own.
pub(super) const PLOT: (f64, f64) = (120.0, 24.0);

/// The points of a line over samples, the last one at the right.
#[expect(clippy::cast_precision_loss, reason = "there are few samples")]
pub(super) fn points(samples: &VecDeque<f64>) -> String {
    let (width, height) = PLOT;
    let most = samples.iter().copied().fold(1.0, f64::max);
    let step = width / (SAMPLES - 1) as f64;
    let mut points = String::new();
    for (at, sample) in samples.iter().enumerate() {
        let x = width - (samples.len() - 1 - at) as f64 * step;
        let y = height - 1.0 - sample / most * (height - 2.0);
        let _ = write!(points, "{}{x:.1},{y:.1}", if at == 0 { "" } else { " " });
    }
    points
}

/// Whether an entity can be received from.
pub(super) fn is_received_from(kind: EntityKind) -> bool {
    kind != EntityKind::Topic
}

/// The path of an entity to which copies of its dead letters are sent: for a subscription, its topic.
pub(super) fn target_of(path: &EntityPath) -> EntityPath {
    let entity = path.parent();
    match entity.subscription() {
        Some((topic, _)) => EntityPath::new(topic).unwrap_or(entity),
        None => entity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_ends_at_the_right_and_fits() {
        let samples = VecDeque::from([0.0, 5.0, 10.0]);
        assert_eq!(points(&samples), "115.9,23.0 118.0,12.0 120.0,1.0");
        assert_eq!(points(&VecDeque::new()), "");
        assert_eq!(points(&VecDeque::from([0.0])), "120.0,23.0");
    }

    #[test]
    fn rates_are_of_the_time_since_the_last_sample() {
        let counts = Some(Counts::default());
        let first = EntityView::after(None, EntityKind::Queue, counts, Some((10, 4)), None, true);
        assert_eq!(first.rates, None);
        let second = EntityView::after(Some(&first), EntityKind::Queue, counts, Some((30, 8)), Some(2.0), true);
        assert_eq!(second.rates, Some((10.0, 2.0)));
        let between = EntityView::after(Some(&second), EntityKind::Queue, counts, Some((31, 9)), Some(0.1), false);
        assert_eq!((between.rates, between.depth.len(), between.totals), (Some((10.0, 2.0)), 2, Some((30, 8))));
    }
}
