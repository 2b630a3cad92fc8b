use super::{CommandError, chunks::Chunks, output::OutputQueue};
use crate::{
    codec::EncodeError,
    frame::{Frame, MIN_MAX_FRAME_SIZE, ProtocolHeader},
    types::{DeliveryState, Disposition, Performative, Role, SaslFrame, Transfer},
};

/// Appends frames to the output, and combines dispositions that follow one another.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) queue: OutputQueue,
    /// The last disposition, with its channel, as long as nothing follows it.
    pub(super) pending: Option<(u16, Disposition)>,
    /// The largest frame of the peer. None before its open.
    max_frame_size: Option<u32>,
    /// The bytes of output from which on no delivery is sent.
    limit: usize,
    /// Whether the rest of a delivery waits for output to be written, on any link.
    pub(super) rest_waits: bool,
}

impl Writer {
    pub(super) fn new(limit: usize) -> Self {
        Self { queue: OutputQueue::default(), pending: None, max_frame_size: None, limit, rest_waits: false }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.queue.len() >= self.limit
    }

    pub(super) const fn set_max_frame_size(&mut self, size: u32) {
        self.max_frame_size = Some(size);
    }

    pub(super) fn protocol_header(&mut self, header: ProtocolHeader) {
        self.queue.boundary();
        let _: Result<(), EncodeError> = self.queue.head(|out| {
            out.extend_from_slice(&header.to_bytes());
            Ok(())
        });
        self.queue.boundary();
    }

    pub(super) fn sasl(&mut self, frame: &SaslFrame) -> Result<(), CommandError> {
        Ok(self.queue.head(|out| frame.encode_frame(out))?)
    }

    pub(super) fn empty(&mut self) {
        self.flush();
        let _: Result<(), EncodeError> = self.queue.head(|out| {
            Frame::encode_empty(out);
            Ok(())
        });
    }

    /// Appends a frame without a payload.
    pub(super) fn frame(&mut self, channel: u16, performative: &Performative) -> Result<(), CommandError> {
        self.flush();
        self.write(channel, performative)
    }

    fn write(&mut self, channel: u16, performative: &Performative) -> Result<(), CommandError> {
        // Without the peer's limit, a client that does not wait for the peer's open sends attaches of over 512 bytes.
        let max = self.max_frame_size.unwrap_or(u32::MAX);
        self.queue.head(|out| {
            let before = out.len();
            Frame::encode_head(channel, performative, 0, out)?;
            if out.len() - before > max as usize { Err(CommandError::FrameTooLarge { max }) } else { Ok(()) }
        })
    }

    /// Appends a transfer with as much of the payload as fits into the frame, and takes that from the payload.
    pub(super) fn transfer(
        &mut self,
        channel: u16,
        mut transfer: Transfer,
        payload: &mut Chunks<'_>,
    ) -> Result<(), CommandError> {
        self.flush();
        let max = self.max_frame_size.unwrap_or(MIN_MAX_FRAME_SIZE);
        let size = max as usize;
        let mut part = payload.len().min(size);
        self.queue.head(|out| {
            let before = out.len();
            transfer.more = part < payload.len();
            let mut transfer = Performative::Transfer(transfer);
            Frame::encode_head(channel, &transfer, part, out)?;
            let head = out.len() - before;
            if head + part > size {
                part = size.checked_sub(head).filter(|part| *part > 0).ok_or(CommandError::FrameTooLarge { max })?;
                if let Performative::Transfer(transfer) = &mut transfer {
                    transfer.more = true;
                }
                out.truncate(before);
                Frame::encode_head(channel, &transfer, part, out)?;
            }
            Ok::<_, CommandError>(())
        })?;
        payload.take(part, |chunk, part| self.queue.payload(chunk, part));
        Ok(())
    }

    /// Adds a delivery to the disposition that is not written yet, or begins another one.
    pub(super) fn disposition(
        &mut self,
        channel: u16,
        role: Role,
        number: u32,
        state: Option<&DeliveryState>,
        settled: bool,
    ) -> Result<(), CommandError> {
        if let Some((pending_channel, pending)) = &mut self.pending {
            let last = pending.last.unwrap_or(pending.first);
            if *pending_channel == channel
                && pending.role == role
                && pending.settled == settled
                && pending.state.as_ref() == state
                && (number == last || number == last.wrapping_add(1))
            {
                if number != pending.first {
                    pending.last = Some(number);
                }
                return Ok(());
            }
            self.flush();
        }
        let disposition =
            Disposition { role, first: number, last: None, settled, state: state.cloned(), batchable: false };
        // A simple state is known to fit.
        if matches!(state, None | Some(DeliveryState::Accepted(_) | DeliveryState::Released(_))) {
            self.pending = Some((channel, disposition));
            return Ok(());
        }
        let ranged = Disposition { last: Some(u32::MAX), first: u32::MAX, ..disposition.clone() };
        self.queue_fits(channel, &ranged.into())?;
        self.pending = Some((channel, disposition));
        Ok(())
    }

    /// Whether a frame can be encoded, and is not larger than the peer accepts.
    fn queue_fits(&self, channel: u16, performative: &Performative) -> Result<(), CommandError> {
        let mut frame = Vec::new();
        Frame::encode_head(channel, performative, 0, &mut frame)?;
        let max = self.max_frame_size.unwrap_or(u32::MAX);
        if frame.len() > max as usize { Err(CommandError::FrameTooLarge { max }) } else { Ok(()) }
    }

    /// Writes the disposition that is not written yet.
    pub(super) fn flush(&mut self) {
        if let Some((channel, disposition)) = self.pending.take() {
            // It was checked when it was begun.
            let _ = self.write(channel, &disposition.into());
        }
    }
}
