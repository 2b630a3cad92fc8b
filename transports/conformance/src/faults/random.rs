use std::{cell::Cell, future::Future, time::Duration};

use consign::{
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode, Transport},
};
use fastrand::Rng;
use futures_util::future::{join, join_all};
use tokio::{
    select,
    sync::RwLock,
    time::{sleep, timeout},
};

use super::{Account, Direction, How, Server, Trip, report::FaultReport, steps::drain, worker::Worker};
use crate::Failure;

/// Producers and consumers on connections that fail at random.
pub(super) struct Random<'r, S: Server> {
    pub(super) server: &'r S,
    pub(super) queue: &'r EntityPath,
    pub(super) seed: u64,
    pub(super) faults: u64,
    pub(super) workers: usize,
    pub(super) restarts: u64,
}

/// State that the tasks of a run share.
struct Shared {
    faults: Cell<u64>,
    restarts: Cell<u64>,
    /// Messages that were accepted, less those that were handled.
    waiting: Cell<i64>,
    /// A restart is a fault of every connection, and excludes others.
    restarting: RwLock<()>,
    /// The last fault is over.
    is_faultless: Cell<bool>,
    is_over: tokio::sync::watch::Sender<bool>,
}

impl<S: Server> Random<'_, S> {
    /// Producers wait above this number of waiting messages.
    const WAITING: i64 = 200;
    const IS_BACK: Duration = Duration::from_secs(60);
    /// How long accepted messages may be missing.
    const ARRIVES: Duration = Duration::from_secs(45);

    pub(super) async fn run(&self, report: &mut FaultReport) -> Result<(), Failure> {
        let account = Account::default();
        let shared = Shared {
            faults: Cell::new(0),
            restarts: Cell::new(0),
            waiting: Cell::new(0),
            restarting: RwLock::new(()),
            is_faultless: Cell::new(false),
            is_over: tokio::sync::watch::Sender::new(false),
        };
        let mut workers = Vec::new();
        for _ in 0..self.workers {
            workers.push(Worker::new(self.server, self.queue, &account).await?);
        }
        let working = join_all(workers.iter().enumerate().map(|(number, worker)| self.work(number, worker, &shared)));
        let (worked, ()) = join(working, self.break_all(&workers, &account, &shared)).await;
        report.faults += shared.faults.get();
        report.restarts += shared.restarts.get();
        report.may_forget = shared.restarts.get() > 0 && !self.server.keeps_settlements();
        if shared.restarts.get() == 0 {
            report.left_out.push("server restart");
        }
        let direct = self.server.connect(self.server.address()).await?;
        let mut receiver = direct.receiver(self.queue, ReceiveMode::PeekLock).await?;
        drain(self.server, &account, &mut receiver).await;
        report.take(&account);
        worked.into_iter().collect()
    }

    /// Runs a worker. A third of them send, and stop when there are no more faults. The others receive until all messages have
    /// arrived.
    async fn work(&self, number: usize, worker: &Worker<'_, S>, shared: &Shared) -> Result<(), Failure> {
        let mut is_over = shared.is_over.subscribe();
        let transport = worker.connect().await;
        if !number.is_multiple_of(3) {
            let mut receiver = worker.receiver(&transport).await;
            let receiving = async {
                loop {
                    if worker.handle(&mut receiver).await {
                        shared.waiting.set(shared.waiting.get() - 1);
                    }
                }
            };
            return until(&mut is_over, receiving).await;
        }
        for message in 0_u64.. {
            while shared.waiting.get() > Self::WAITING && !shared.is_faultless.get() {
                sleep(Duration::from_millis(5)).await;
            }
            if shared.is_faultless.get() {
                break;
            }
            worker.send(&transport, &format!("{number}-{message}")).await?;
            shared.waiting.set(shared.waiting.get() + 1);
        }
        Ok(())
    }

    /// Breaks each worker's connection by itself, and all of them by restarts.
    async fn break_all(&self, workers: &[Worker<'_, S>], account: &Account, shared: &Shared) {
        let breaking = workers.iter().enumerate().map(|(number, worker)| {
            let random = Rng::with_seed(self.seed.wrapping_add(number as u64));
            self.break_one(number, worker, account, shared, random)
        });
        join(join_all(breaking), self.restart(workers, account, shared)).await;
        shared.is_faultless.set(true);
        let arrives = timeout(Self::ARRIVES, async {
            while account.missing() > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        });
        // Messages that are missing then are lost, which the account reports.
        let _ = arrives.await;
        shared.is_over.send_replace(true);
    }

    async fn break_one(
        &self,
        number: usize,
        worker: &Worker<'_, S>,
        account: &Account,
        shared: &Shared,
        mut random: Rng,
    ) {
        while shared.faults.get() < self.faults {
            sleep(Duration::from_millis(random.u64(0..100))).await;
            let alone = shared.restarting.read().await;
            let has_broken = self.break_once(worker, &mut random).await;
            worker.fault_is_over();
            shared.faults.set(shared.faults.get() + u64::from(has_broken));
            let successes = worker.successes();
            // The first one may have been in flight.
            let is_back = async {
                while worker.successes() < successes + 2 && shared.faults.get() < self.faults {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            if timeout(Self::IS_BACK, is_back).await.is_err() {
                account.failed(format!("worker {number} was not back within {:?}", Self::IS_BACK));
            }
            drop(alone);
        }
    }

    /// Returns whether something was broken.
    async fn break_once(&self, worker: &Worker<'_, S>, random: &mut Rng) -> bool {
        let proxy = &worker.proxy;
        let how = [How::Before, How::After, How::Torn][random.usize(0..3)];
        match random.u8(0..10) {
            direction @ 0..8 => {
                let direction = if direction < 4 { Direction::ToServer } else { Direction::ToClient };
                proxy.arm(Trip { direction, steps: random.u64(0..8), how });
                for _ in 0..50 {
                    if !proxy.is_armed() {
                        return true;
                    }
                    sleep(Duration::from_millis(10)).await;
                }
                !proxy.disarm()
            }
            8 => {
                proxy.freeze(true);
                sleep(self.server.deadline().mul_f64(0.2 + random.f64() * 1.3)).await;
                proxy.freeze(false);
                true
            }
            _ => {
                proxy.refuse(true);
                proxy.cut();
                sleep(Duration::from_millis(random.u64(100..1_000))).await;
                proxy.refuse(false);
                true
            }
        }
    }

    /// Restarts the server, evenly between the other faults.
    async fn restart(&self, workers: &[Worker<'_, S>], account: &Account, shared: &Shared) {
        for restart in 1..=self.restarts {
            while shared.faults.get() < self.faults * restart / (self.restarts + 1) {
                sleep(Duration::from_millis(10)).await;
            }
            let _alone = shared.restarting.write().await;
            workers.iter().for_each(Worker::restarts);
            match self.server.restart().await {
                Ok(()) => {
                    shared.restarts.set(shared.restarts.get() + 1);
                    shared.faults.set(shared.faults.get() + workers.len() as u64);
                }
                Err(failure) if failure.kind() == Some(ErrorKind::NotSupported) => return,
                Err(failure) => account.failed(format!("restart: {failure}")),
            }
            workers.iter().for_each(Worker::restarts);
        }
    }
}

/// Runs until it is over.
async fn until(
    is_over: &mut tokio::sync::watch::Receiver<bool>,
    receiving: impl Future<Output = ()>,
) -> Result<(), Failure> {
    select! {
        () = receiving => {}
        _ = is_over.wait_for(|is_over| *is_over) => {}
    }
    Ok(())
}
