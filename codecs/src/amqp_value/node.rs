/// A value without other values in it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Scalar<'v> {
    /// No value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// Unsigned, 8 bits.
    Ubyte(u8),
    /// Unsigned, 16 bits.
    Ushort(u16),
    /// Unsigned, 32 bits.
    Uint(u32),
    /// Unsigned, 64 bits.
    Ulong(u64),
    /// Signed, 8 bits.
    Byte(i8),
    /// Signed, 16 bits.
    Short(i16),
    /// Signed, 32 bits.
    Int(i32),
    /// Signed, 64 bits.
    Long(i64),
    /// IEEE 754, 32 bits.
    Float(f32),
    /// IEEE 754, 64 bits.
    Double(f64),
    /// One Unicode scalar.
    Char(char),
    /// Text.
    String(&'v str),
    /// ASCII text from a set of names.
    Symbol(&'v str),
    /// Bytes.
    Binary(&'v [u8]),
    /// A UUID, 16 bytes in the order of its text.
    Uuid([u8; 16]),
    /// Milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// An IEEE 754 decimal: 4, 8 or 16 bytes.
    Decimal(&'v [u8]),
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum View<'v, N: Node<'v>> {
    /// A value without other values in it.
    Scalar(Scalar<'v>),
    /// A list or an array. The elements of a described array are without their descriptors.
    List(N::List),
    /// A map.
    Map(N::Map),
    /// A value with a descriptor: the value.
    Described(N),
}

/// A reference to a value of AMQP 1.0.
pub trait Node<'v>: Copy {
    /// The elements of a list. The lower bound of its size is reserved, within the limits.
    type List: Iterator<Item = Self>;
    /// The pairs of a map.
    type Map: Iterator<Item = (Self, Self)>;

    /// Returns what the value is.
    fn view(self) -> View<'v, Self>;
}

/// A type of values that can be built.
pub trait Build: Sized {
    /// Builds a value without other values in it. `None` if the type has no such value.
    fn scalar(scalar: Scalar<'_>) -> Option<Self>;

    /// Builds a list.
    fn list(values: Vec<Self>) -> Self;

    /// Builds a map.
    fn map(pairs: Vec<(Self, Self)>) -> Self;
}

/// Names of newtype structs that stand for a type of AMQP 1.0 which serde does not have. [`Serializer`](super::Serializer) writes
/// them; other formats write what is inside.
#[derive(Debug)]
pub struct Name;

impl Name {
    /// 16 bytes that are a UUID.
    pub const UUID: &'static str = "$amqp::Uuid";
    /// An `i64` that is a timestamp.
    pub const TIMESTAMP: &'static str = "$amqp::Timestamp";
    /// A text that is a symbol.
    pub const SYMBOL: &'static str = "$amqp::Symbol";
    /// 4, 8 or 16 bytes that are a decimal.
    pub const DECIMAL: &'static str = "$amqp::Decimal";
}
