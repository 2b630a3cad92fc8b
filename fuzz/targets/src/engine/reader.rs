use bytes::BytesMut;
use consign_amqp::{
    codec::Limits,
    frame::{Frame, FrameHeader, FrameType, ProtocolHeader},
    types::{Performative, SaslFrame},
};

/// Reads what an engine has written, and checks the order of its frames.
#[derive(Default)]
pub(super) struct Reader {
    bytes: BytesMut,
    opened: bool,
    closed: bool,
}

impl Reader {
    pub(super) fn read(&mut self, written: &[u8]) {
        self.bytes.extend_from_slice(written);
        loop {
            if self.bytes.starts_with(b"AMQP") {
                let Some(header) = self.bytes.first_chunk() else { return };
                assert!(ProtocolHeader::from_bytes(*header).is_some());
                drop(self.bytes.split_to(8));
                continue;
            }
            let header = FrameHeader::decode(&self.bytes, u32::MAX).expect("an engine writes frames");
            let Some(header) = header.filter(|header| header.size as usize <= self.bytes.len()) else { return };
            let frame = self.bytes.split_to(header.size as usize).freeze();
            if header.frame_type == FrameType::Sasl {
                SaslFrame::decode_frame(header, &frame, Limits::default()).expect("an engine writes SASL frames");
                assert!(!self.opened, "a SASL frame comes before the open frame");
                continue;
            }
            let limits = Limits::default().depth(Limits::MAX_DEPTH).elements(u32::MAX);
            let frame = Frame::decode(header, &frame, limits).expect("an engine writes performatives");
            assert!(!self.closed, "{frame:?} after the close frame");
            match frame.performative {
                Some(Performative::Open(_)) => assert!(!std::mem::replace(&mut self.opened, true), "one open frame"),
                Some(Performative::Close(_)) => self.closed = true,
                _ => {}
            }
            assert!(self.opened, "the first frame is an open frame");
        }
    }

    /// Whether the last byte is the end of a frame.
    pub(super) fn is_complete(&self) -> bool {
        self.bytes.is_empty()
    }
}
