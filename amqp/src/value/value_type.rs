use std::fmt;

use crate::codec::codes;

macro_rules! value_types {
    ($($(#[$doc:meta])* $variant:ident $name:literal $widest:ident [$($code:ident)*];)*) => {
        /// The type of a value. An array has one for all of its elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ValueType {
            $($(#[$doc])* $variant,)*
            /// A value with a descriptor.
            Described,
        }

        impl ValueType {
            /// Returns the name that AMQP 1.0 has for the type.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Described => "described value",
                }
            }

            pub(crate) const fn variant(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                    Self::Described => "Described",
                }
            }

            /// The type of this name; none for a described value, which is no primitive type.
            #[cfg(feature = "message")]
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The type of a format code; none for that of described values, which are no primitive type.
            pub(crate) const fn of_code(code: u8) -> Option<Self> {
                match code {
                    $($(codes::$code)|* => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The format code that holds every value of the type.
            pub(crate) const fn widest_code(self) -> u8 {
                match self {
                    $(Self::$variant => codes::$widest,)*
                    Self::Described => codes::DESCRIBED,
                }
            }
        }
    };
}

value_types! {
    /// No value.
    Null "null" NULL [NULL];
    /// A truth value.
    Boolean "boolean" BOOLEAN [BOOLEAN TRUE FALSE];
    /// Unsigned, 8 bits.
    Ubyte "ubyte" UBYTE [UBYTE];
    /// Unsigned, 16 bits.
    Ushort "ushort" USHORT [USHORT];
    /// Unsigned, 32 bits.
    Uint "uint" UINT [UINT SMALL_UINT UINT_0];
    /// Unsigned, 64 bits.
    Ulong "ulong" ULONG [ULONG SMALL_ULONG ULONG_0];
    /// Signed, 8 bits.
    Byte "byte" BYTE [BYTE];
    /// Signed, 16 bits.
    Short "short" SHORT [SHORT];
    /// Signed, 32 bits.
    Int "int" INT [INT SMALL_INT];
    /// Signed, 64 bits.
    Long "long" LONG [LONG SMALL_LONG];
    /// IEEE 754, 32 bits.
    Float "float" FLOAT [FLOAT];
    /// IEEE 754, 64 bits.
    Double "double" DOUBLE [DOUBLE];
    /// IEEE 754 decimal32.
    Decimal32 "decimal32" DECIMAL32 [DECIMAL32];
    /// IEEE 754 decimal64.
    Decimal64 "decimal64" DECIMAL64 [DECIMAL64];
    /// IEEE 754 decimal128.
    Decimal128 "decimal128" DECIMAL128 [DECIMAL128];
    /// One Unicode scalar.
    Char "char" CHAR [CHAR];
    /// An instant.
    Timestamp "timestamp" TIMESTAMP [TIMESTAMP];
    /// A UUID.
    Uuid "uuid" UUID [UUID];
    /// Bytes.
    Binary "binary" BINARY_32 [BINARY_8 BINARY_32];
    /// Text.
    String "string" STRING_32 [STRING_8 STRING_32];
    /// ASCII text from a set of names.
    Symbol "symbol" SYMBOL_32 [SYMBOL_8 SYMBOL_32];
    /// Values of any types.
    List "list" LIST_32 [LIST_0 LIST_8 LIST_32];
    /// Pairs of values.
    Map "map" MAP_32 [MAP_8 MAP_32];
    /// Values of one type.
    Array "array" ARRAY_32 [ARRAY_8 ARRAY_32];
}

impl ValueType {
    pub(crate) const fn is_compound(self) -> bool {
        matches!(self, Self::List | Self::Map | Self::Array)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
