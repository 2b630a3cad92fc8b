use bytes::Bytes;

/// The bytes of a value, and the ContentType for reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// The ContentType, in canonical form.
    pub content_type: &'static str,
    /// The bytes.
    pub body: Bytes,
}
