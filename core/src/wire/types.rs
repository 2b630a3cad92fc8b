use crate::message::PropertyValue;

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident $number:literal $text:literal $short:literal,)*) => {
        /// The type of a simple value. The module has a table of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Type {
            $(#[doc = concat!("`", $text, "`.")] $name = $number,)*
        }

        impl Type {
            /// All types, by their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Returns the short name.
            #[must_use]
            pub const fn short_name(self) -> &'static str {
                match self {
                    $(Self::$name => $short,)*
                }
            }

            /// Returns the type of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns the type of this short name.
            #[must_use]
            pub fn from_short_name(name: &str) -> Option<Self> {
                match name {
                    $($short => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns the type of a value.
            #[must_use]
            pub const fn of(value: &PropertyValue) -> Self {
                match value {
                    $(PropertyValue::$name { .. } => Self::$name,)*
                }
            }
        }
    };
}

types! {
    Null 0 "null" "null",
    Bool 1 "bool" "bool",
    U8 2 "u8" "u8",
    U16 3 "u16" "u16",
    U32 4 "u32" "u32",
    U64 5 "u64" "u64",
    I8 6 "i8" "i8",
    I16 7 "i16" "i16",
    I32 8 "i32" "i32",
    I64 9 "i64" "i64",
    F32 10 "f32" "f32",
    F64 11 "f64" "f64",
    Char 12 "char" "char",
    String 13 "string" "s",
    Decimal 14 "decimal" "decimal",
    Uuid 15 "uuid" "uuid",
    DateTime 16 "date_time" "time",
    DateTimeOffset 17 "date_time_offset" "offset",
    TimeSpan 18 "time_span" "span",
    Uri 19 "uri" "uri",
    Bytes 20 "bytes" "bytes",
}

impl Type {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the type of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}
