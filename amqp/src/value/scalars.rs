use std::fmt;

/// An instant: milliseconds since 1970-01-01 UTC, negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// An IEEE 754 decimal32, as its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal32(pub [u8; 4]);

/// An IEEE 754 decimal64, as its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal64(pub [u8; 8]);

/// An IEEE 754 decimal128, as its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal128(pub [u8; 16]);

/// A UUID: 16 bytes in the order of its text.
///
/// ```
/// use consign_amqp::value::Uuid;
///
/// let tag = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
/// let token = Uuid::from_guid_bytes(tag);
/// assert_eq!(token.to_string(), "33221100-5544-7766-8899-aabbccddeeff");
/// assert_eq!(token.to_guid_bytes(), tag);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Creates a UUID from the bytes of a .NET GUID, whose first three fields are little-endian. Service Bus has the lock token
    /// in this form as the delivery tag.
    #[must_use]
    pub const fn from_guid_bytes(mut guid: [u8; 16]) -> Self {
        guid.swap(0, 3);
        guid.swap(1, 2);
        guid.swap(4, 5);
        guid.swap(6, 7);
        Self(guid)
    }

    /// Returns the bytes of the .NET GUID, whose first three fields are little-endian.
    #[must_use]
    pub const fn to_guid_bytes(self) -> [u8; 16] {
        Self::from_guid_bytes(self.0).0
    }
}

/// Hyphenated, in lower case.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}
