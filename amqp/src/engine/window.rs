//! The windows of a session, in transfer frames. Numbers wrap around, as RFC 1982 has it.

use crate::types::{Begin, Flow};

/// The window of transfers that this end announces to send. It is not a limit.
const OUTGOING_WINDOW: u32 = u32::MAX / 2;

/// Both windows of a session.
#[derive(Debug)]
pub(super) struct Windows {
    initial_outgoing_id: u32,
    /// The number of the next transfer that this end sends.
    next_outgoing_id: u32,
    /// How many transfers the peer accepts. 0 before its begin.
    remote_incoming_window: u32,
    /// The number of the next transfer of the peer. None before its begin.
    next_incoming_id: Option<u32>,
    /// How many transfers the peer may send before the next flow, and after it.
    incoming_window: u32,
    largest: u32,
}

impl Windows {
    pub(super) const fn new(next_outgoing_id: u32, incoming_window: u32) -> Self {
        Self {
            initial_outgoing_id: next_outgoing_id,
            next_outgoing_id,
            remote_incoming_window: 0,
            next_incoming_id: None,
            incoming_window,
            largest: incoming_window,
        }
    }

    pub(super) const fn incoming_window(&self) -> u32 {
        self.incoming_window
    }

    #[allow(clippy::unused_self, reason = "the counterpart of the incoming window")]
    pub(super) const fn outgoing_window(&self) -> u32 {
        OUTGOING_WINDOW
    }

    /// Takes the peer's begin.
    pub(super) const fn begun(&mut self, begin: &Begin) {
        self.next_incoming_id = Some(begin.next_outgoing_id);
        self.remote_incoming_window = begin.incoming_window;
    }

    /// How many transfers may be sent.
    pub(super) const fn sendable(&self) -> u32 {
        self.remote_incoming_window
    }

    pub(super) const fn sent(&mut self) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
        self.remote_incoming_window = self.remote_incoming_window.saturating_sub(1);
    }

    /// Takes a transfer of the peer. False if the window is closed.
    pub(super) const fn received(&mut self) -> bool {
        let Some(left) = self.incoming_window.checked_sub(1) else { return false };
        self.incoming_window = left;
        if let Some(id) = self.next_incoming_id {
            self.next_incoming_id = Some(id.wrapping_add(1));
        }
        true
    }

    /// Whether half of the window is used up, so that a flow is due.
    pub(super) const fn is_low(&self) -> bool {
        self.incoming_window <= self.largest / 2
    }

    /// Takes the peer's flow.
    pub(super) fn flow(&mut self, flow: &Flow) {
        // Before the peer has our begin, it counts from our first transfer.
        let next = flow.next_incoming_id.unwrap_or(self.initial_outgoing_id);
        let in_flight = self.next_outgoing_id.wrapping_sub(next);
        // A peer that counts ahead has nothing in flight.
        let in_flight = if in_flight > u32::MAX / 2 { 0 } else { in_flight };
        self.remote_incoming_window = flow.incoming_window.saturating_sub(in_flight);
    }

    /// Returns a flow that opens the incoming window.
    pub(super) fn open(&mut self) -> Flow {
        self.incoming_window = self.largest;
        Flow {
            next_incoming_id: self.next_incoming_id,
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(next_outgoing_id: u32) -> Windows {
        let mut windows = Windows::new(next_outgoing_id, 4);
        windows.begun(&Begin { incoming_window: 10, next_outgoing_id: u32::MAX, ..Begin::default() });
        windows
    }

    #[test]
    fn the_remote_window_counts_transfers_in_flight_across_the_wrap_around() {
        let mut windows = windows(u32::MAX - 1);
        for _ in 0..4 {
            windows.sent();
        }
        assert_eq!(windows.sendable(), 6);
        // The peer had received two of four when it announced 10.
        windows.flow(&Flow { next_incoming_id: Some(0), incoming_window: 10, ..Flow::default() });
        assert_eq!(windows.sendable(), 8);
        windows.flow(&Flow { next_incoming_id: None, incoming_window: 10, ..Flow::default() });
        assert_eq!(windows.sendable(), 6);
        windows.flow(&Flow { next_incoming_id: Some(0), incoming_window: 1, ..Flow::default() });
        assert_eq!(windows.sendable(), 0);
    }

    #[test]
    fn the_incoming_window_closes_and_opens() {
        let mut windows = windows(0);
        for expected in [true, true, true, true, false] {
            assert_eq!(windows.received(), expected);
        }
        assert!(windows.is_low());
        let flow = windows.open();
        assert_eq!((flow.next_incoming_id, flow.incoming_window), (Some(3), 4));
        assert!(windows.received());
    }
}
