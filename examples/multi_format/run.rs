//! The run: producers and consumers side by side, until every message is accounted for.

use std::{
    collections::BTreeMap,
    future::Future,
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    codecs::{CodecSet, Codecs},
    consumer::Consumer,
    time::{Clock, SystemClock},
    transport::Sender,
};
use tokio::{sync::watch, task::JoinSet};
use tower::{BoxError, service_fn};

use crate::{failure::Failure, format::Format, handlers, ledger::Ledger, place::Place, report::Report, store};

/// How often the run looks whether it is over.
const LOOK: Duration = Duration::from_millis(5);

/// Sends what is planned and handles it with `threads` consumers. When `interrupt` is ready the producers stop, and what
/// they have sent is still handled. It goes on `before`: behind what an earlier run in the same place has sent of each
/// format.
pub async fn run<P: Place, C: CodecSet>(
    place: P,
    before: BTreeMap<Format, usize>,
    ledger: Arc<Ledger>,
    codecs: Codecs<C>,
    threads: usize,
    interrupt: impl Future<Output = ()>,
) -> Result<Report, Failure> {
    let clock = SystemClock::new();
    let start = clock.now().elapsed;

    let (stop, stopped) = watch::channel(());
    let mut consumers = consume(&place, &codecs, &ledger, threads, &stopped).await?;
    drop(stopped);
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let mut producers = JoinSet::new();
    for format in ledger.plan().formats() {
        let (sender, codecs) = (place.sender().await?, codecs.clone());
        let before = before.get(&format).copied().unwrap_or(0);
        producers.spawn(produce(format, before, sender, codecs, Arc::clone(&ledger), Arc::clone(&is_interrupted)));
    }

    let mut sent = BTreeMap::new();
    let mut look = tokio::time::interval(LOOK);
    let mut progress = Progress::new(ledger.plan().messages());
    tokio::pin!(interrupt);
    while !(producers.is_empty() && place.is_drained(&ledger, sent.values().sum())) {
        tokio::select! {
            () = &mut interrupt, if !is_interrupted.load(Ordering::Relaxed) => is_interrupted.store(true, Ordering::Relaxed),
            Some(finished) = producers.join_next() => {
                let (format, messages) = finished??;
                sent.insert(format, messages);
            }
            Some(ended) = consumers.join_next() => ended??,
            _ = look.tick() => progress.show(&ledger),
        }
    }
    let seconds = clock.now().elapsed.saturating_sub(start).as_secs_f64();
    progress.clear();

    drop(stop);
    while let Some(ended) = consumers.join_next().await {
        ended??;
    }
    place.close().await?;
    let report = Report::new(ledger.plan(), &ledger.books(), &sent, seconds, threads);
    Ok(report)
}

/// One producer: the messages of one format, of which the first have been sent before.
async fn produce<S: Sender, C: CodecSet>(
    format: Format,
    before: usize,
    sender: S,
    codecs: Codecs<C>,
    ledger: Arc<Ledger>,
    is_interrupted: Arc<AtomicBool>,
) -> Result<(Format, u64), Failure> {
    let mut sent = before as u64;
    for number in ledger.plan().numbers(format).skip(before) {
        ledger.admit().await;
        if is_interrupted.load(Ordering::Relaxed) {
            break;
        }
        let line = ledger.plan().event(number).line;
        let message = ledger.plan().message(number, &codecs)?;
        sender.send(message).await.map_err(|source| Failure::Send { line, format, source })?;
        sent += 1;
    }
    Ok((format, sent))
}

/// The consumers of the queue, and one that reads the dead letters.
async fn consume<P: Place, C: CodecSet>(
    place: &P,
    codecs: &Codecs<C>,
    ledger: &Arc<Ledger>,
    consumers: usize,
    stopped: &watch::Receiver<()>,
) -> Result<JoinSet<Result<(), Failure>>, Failure> {
    let stop = || {
        let mut stopped = stopped.clone();
        async move { while stopped.changed().await.is_ok() {} }
    };
    let stack = handlers::stack(codecs.clone(), Arc::clone(ledger), place.books())?;
    let mut running = JoinSet::new();
    for _ in 0..consumers {
        let consumer = Consumer::new(place.receiver().await?, stack.clone()).run_until(stop());
        running.spawn(async move { Ok(consumer.await.map(drop)?) });
    }
    let (codecs, ledger) = (codecs.clone(), Arc::clone(ledger));
    let books = place.books();
    let dead_letters = service_fn(move |message: Message| {
        ledger.dead(&message, &codecs);
        let written = books.clone().zip(ledger.unwritten(&message));
        async move {
            if let Some((books, entry)) = written {
                store::write(&books, &entry).await?;
            }
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(place.dead_letters().await?, dead_letters).run_until(stop());
    running.spawn(async move { Ok(consumer.await.map(drop)?) });
    Ok(running)
}

/// The line that says how far the run is, where someone is looking.
struct Progress {
    messages: usize,
    looks: u32,
    is_shown: bool,
}

impl Progress {
    const EVERY: u32 = 20;

    fn new(messages: usize) -> Self {
        Self { messages, looks: 0, is_shown: io::stderr().is_terminal() }
    }

    fn show(&mut self, ledger: &Ledger) {
        self.looks += 1;
        if self.is_shown && self.looks.is_multiple_of(Self::EVERY) {
            let entered = ledger.books().entered();
            // A terminal that goes away is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[K{entered} of {} messages", self.messages);
        }
    }

    fn clear(&self) {
        if self.is_shown && self.looks >= Self::EVERY {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
