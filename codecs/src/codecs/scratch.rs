//! The buffer in which bodies are written before their length is known.

use std::cell::Cell;

use bytes::{Bytes, BytesMut};

/// The size of the buffer that a thread keeps between two bodies.
const KEPT: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// Returns the bytes that `write` appends, as one allocation of their length. A buffer that grew with the body would be
/// allocated several times, and the body would keep the unused rest for as long as it is stored.
#[inline]
pub(super) fn written<E>(write: impl FnOnce(&mut BytesMut) -> Result<(), E>) -> Result<Bytes, E> {
    // Taken, because `write` may write another body in between. It does not exist while a thread ends.
    let mut out = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = write(&mut out);
    if out.capacity() > KEPT {
        return result.map(|()| out.freeze());
    }
    let body = result.map(|()| Bytes::copy_from_slice(&out));
    out.clear();
    let _ = SCRATCH.try_with(|scratch| scratch.set(out));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &[u8]) -> Bytes {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(text);
            Ok::<(), ()>(())
        };
        written(write).unwrap()
    }

    #[test]
    fn a_body_has_nothing_of_the_one_before() {
        assert_eq!(body(b"a longer one"), "a longer one");
        let failed = written(|out| {
            out.extend_from_slice(b"half a bo");
            Err(())
        });
        assert_eq!(failed, Err(()));
        assert_eq!(body(b"short"), "short");
    }

    #[test]
    fn a_body_may_be_written_while_another_is() {
        let outer = written(|out| {
            out.extend_from_slice(&body(b"inner"));
            out.extend_from_slice(&body(b" and inner"));
            Ok::<(), ()>(())
        });
        assert_eq!(outer.unwrap(), "inner and inner");
        assert_eq!(body(b"next"), "next");
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        assert_eq!(body(&vec![7; 2 * KEPT]).len(), 2 * KEPT);
        assert!(SCRATCH.take().capacity() <= KEPT);
    }
}
