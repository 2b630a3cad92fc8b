use std::io;

use bytes::BytesMut;

/// `io::Write` over the buffer that a codec appends to. It never fails.
pub(crate) struct Sink<'a>(pub(crate) &'a mut BytesMut);

impl io::Write for Sink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
