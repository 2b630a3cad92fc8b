//! Progress on the standard error.

use std::{io::IsTerminal, time::Duration};

use consign::time::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that appears after a second, if the standard error is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    clock: SystemClock,
    /// `None` when it is shown, or never will be.
    hidden_since: Option<Duration>,
}

impl Progress {
    const HIDDEN: Duration = Duration::from_secs(1);

    /// Creates a bar. Without a total it counts.
    pub(crate) fn new(label: &'static str, total: Option<u64>, json: bool) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let template = match total {
            Some(_) => "{msg} [{bar:40}] {pos}/{len} ({per_sec}, {eta})",
            None => "{msg} {spinner} {pos} ({per_sec})",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label);
        let clock = SystemClock::new();
        let may_be_shown = !json && std::io::stderr().is_terminal();
        let hidden_since = may_be_shown.then(|| clock.now().elapsed);
        Self { bar, clock, hidden_since }
    }

    /// Sets how many are done.
    pub(crate) fn set(&mut self, done: u64) {
        if let Some(since) = self.hidden_since
            && self.clock.now().elapsed.saturating_sub(since) >= Self::HIDDEN
        {
            self.hidden_since = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }

    /// Sets how many there will be.
    pub(crate) fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
