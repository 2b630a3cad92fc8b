//! The locks of what shuttle explores: the standard library's, or shuttle's where the order of threads is what is tested.

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

#[cfg(all(test, shuttle))]
pub(crate) mod explored {
    use shuttle::{Config, Runner, scheduler::RandomScheduler};
    use tokio::runtime::{self, Runtime};

    thread_local! {
        /// Has the timers. All of shuttle's threads are one to the operating system. It is never dropped: that would wake those
        /// that still wait after a failure.
        static RUNTIME: &'static Runtime = Box::leak(Box::new(
            runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap(),
        ));
    }

    /// Runs a property under random schedules, in tokio's virtual time. The name is that of the test.
    pub(crate) fn explore(name: &str, property: fn()) {
        let schedules = std::env::var("CONSIGN_SCHEDULES").map_or(5_000, |number| number.parse().unwrap());
        RUNTIME.with(|runtime| {
            let _entered = runtime.enter();
            let mut config = Config::new();
            config.silence_warnings = true;
            Runner::new(RandomScheduler::new(schedules), config).run(property);
        });
        println!("shuttle: {name} random {schedules} schedules 0 violations");
    }
}
