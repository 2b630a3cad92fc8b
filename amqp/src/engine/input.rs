use std::time::Duration;

use bytes::BytesMut;

use super::{Connection, LinkId, SessionId, Violation, phase::Phase, session::Channel};
use crate::{
    frame::{Frame, FrameHeader},
    types::{Performative, SaslFrame},
};

/// The largest frame before the peer has opened the connection.
const MAX_FRAME_BEFORE_OPEN: u32 = 4_096;

/// What [`Connection::receive`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// Every complete frame was taken from the input. What is left is the start of a frame, or nothing: append more bytes to it.
    NeedsInput,
    /// The application has to act first: poll the events, write the output, decide about the client's credentials, open the
    /// connection. Then call again with the same input, before more is read.
    Blocked,
    /// The connection is closed. The input was discarded.
    Closed,
}

/// A violation, and what it ends.
#[derive(Debug)]
pub(super) enum Fault {
    Connection(Violation),
    Session(SessionId, Violation),
    Link(LinkId, Violation),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Connection(violation)
    }
}

impl Connection {
    /// Takes the complete frames from the front of the input. Payloads are slices of the input.
    ///
    /// The start of a further frame stays in the input. The size of a frame is checked as soon as its first 8 bytes are there, so that
    /// an input never needs more than [`Options::max_frame_size`](super::Options::max_frame_size) bytes. A violation of the protocol is
    /// reported by an event, and to the peer.
    pub fn receive(&mut self, now: Duration, input: &mut BytesMut) -> Received {
        self.timers.received(now, input.len(), self.out.queue.taken());
        let received = self.steps(input);
        self.timers.leave(input.len());
        self.open_windows();
        received
    }

    fn steps(&mut self, input: &mut BytesMut) -> Received {
        loop {
            if self.is_closed() {
                input.clear();
                return Received::Closed;
            }
            if self.is_blocked() {
                return Received::Blocked;
            }
            match self.step(input) {
                Ok(true) => {}
                Ok(false) => return Received::NeedsInput,
                Err(fault) => self.report(fault),
            }
        }
    }

    /// Whether the application has to act before input is taken.
    ///
    /// The limit of the output is above that of [`Connection::send`], so that two ends that send do not wait for each other.
    pub(crate) fn is_blocked(&self) -> bool {
        let waits = match self.phase {
            Phase::Sasl(state) => state.is_blocked(),
            Phase::Frames => self.opened_by_peer && !self.opened,
            Phase::Header { .. } | Phase::Closed => false,
        };
        waits || self.events.len() >= self.options.event_limit || self.is_output_blocked()
    }

    /// Whether no input is taken before output is written.
    pub(super) const fn is_output_blocked(&self) -> bool {
        self.out.queue.len() >= self.options.output_limit.saturating_mul(2)
    }

    /// Takes a protocol header or a frame. False if it is not complete.
    fn step(&mut self, input: &mut BytesMut) -> Result<bool, Fault> {
        if let Phase::Header { authenticated } = self.phase {
            let Some(bytes) = input.first_chunk().copied() else { return Ok(false) };
            drop(input.split_to(8));
            self.on_protocol_header(bytes, authenticated)?;
            return Ok(true);
        }
        let max = if self.opened_by_peer { u32::MAX } else { MAX_FRAME_BEFORE_OPEN };
        let header = FrameHeader::decode(input, max.min(self.options.max_frame_size)).map_err(Violation::from)?;
        let Some(header) = header else { return Ok(false) };
        let size = header.size as usize;
        if input.len() < size {
            return Ok(false);
        }
        let bytes = input.split_to(size).freeze();
        if let Phase::Sasl(state) = self.phase {
            let frame = SaslFrame::decode_frame(header, &bytes, self.options.codec).map_err(Violation::from)?;
            self.on_sasl(state, frame)?;
        } else {
            let frame = Frame::decode(header, &bytes, self.options.codec).map_err(Violation::from)?;
            self.on_frame(frame)?;
        }
        Ok(true)
    }

    fn on_frame(&mut self, frame: Frame) -> Result<(), Fault> {
        let Some(performative) = frame.performative else { return Ok(()) };
        if self.closing {
            if let Performative::Close(close) = performative {
                self.on_close(*close);
            }
            return Ok(());
        }
        let channel = frame.channel;
        match performative {
            Performative::Open(_) if self.opened_by_peer => {
                Err(Violation::UnexpectedFrame { frame: "open", expected: "one open" }.into())
            }
            Performative::Open(open) => Ok(self.on_open(open)?),
            Performative::Close(close) => {
                self.on_close(*close);
                Ok(())
            }
            other if !self.opened_by_peer => {
                Err(Violation::UnexpectedFrame { frame: name(&other), expected: "open" }.into())
            }
            Performative::Begin(begin) => Ok(self.on_begin(channel, begin)?),
            other => self.on_session_frame(channel, other, frame.payload),
        }
    }

    /// Handles a frame of a session. Frames of an ended session are ignored.
    fn on_session_frame(
        &mut self,
        channel: u16,
        performative: Performative,
        payload: bytes::Bytes,
    ) -> Result<(), Fault> {
        let local = match self.channels.get(usize::from(channel)) {
            Some(Channel::Live(local)) => *local,
            Some(Channel::Ended) => return Ok(()),
            Some(Channel::Unused) | None => {
                let max = self.options.channel_max();
                return Err(if channel > max {
                    Violation::Channel { channel, max }.into()
                } else {
                    Violation::ChannelWithoutSession { channel }.into()
                });
            }
        };
        let ending =
            self.sessions.get(usize::from(local)).and_then(Option::as_ref).is_none_or(|session| session.ending);
        match performative {
            Performative::End(end) => self.on_end(channel, local, *end),
            _ if ending => {}
            Performative::Attach(attach) => self.on_attach(local, attach)?,
            Performative::Detach(detach) => self.on_detach(local, *detach)?,
            Performative::Flow(flow) => self.on_flow(local, flow)?,
            Performative::Transfer(transfer) => self.on_transfer(local, transfer, payload)?,
            Performative::Disposition(disposition) => self.on_disposition(local, disposition)?,
            // These were handled before.
            Performative::Open(_) | Performative::Begin(_) | Performative::Close(_) => {}
        }
        Ok(())
    }

    fn report(&mut self, fault: Fault) {
        match fault {
            Fault::Connection(violation) => self.fail(violation),
            Fault::Session(session, violation) => self.end_for(session, violation),
            Fault::Link(link, violation) => self.detach_for(link, violation),
        }
    }
}

const fn name(performative: &Performative) -> &'static str {
    match performative {
        Performative::Open(_) => "open",
        Performative::Begin(_) => "begin",
        Performative::Attach(_) => "attach",
        Performative::Flow(_) => "flow",
        Performative::Transfer(_) => "transfer",
        Performative::Disposition(_) => "disposition",
        Performative::Detach(_) => "detach",
        Performative::End(_) => "end",
        Performative::Close(_) => "close",
    }
}
