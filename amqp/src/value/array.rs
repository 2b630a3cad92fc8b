use std::{error, fmt, ops::Deref};

use super::{Value, ValueType};

/// Values of one type. The type is known for an empty array too.
///
/// All elements of an array share their descriptors, if they have any. The elements are then the described values without them.
///
/// ```
/// use consign_amqp::{codec, value::{Array, Value, ValueType}};
///
/// let array = Array::new(ValueType::Int, vec![Value::Int(1), Value::Int(-2)])?;
/// assert_eq!(array.len(), 2);
/// assert_eq!(codec::encode(&array).unwrap().as_ref(), [0xe0, 4, 2, 0x54, 1, 0xfe]);
/// assert!(Array::new(ValueType::Int, vec![Value::Null]).is_err());
/// # Ok::<(), consign_amqp::value::MixedTypes>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Array {
    /// Apart from the array, because they are rare, and an array has to be no larger than other values.
    descriptors: Option<Box<Descriptors>>,
    element: ValueType,
    values: Vec<Value>,
}

#[derive(Clone, PartialEq)]
struct Descriptors(Vec<Value>);

impl Array {
    /// Creates an array.
    ///
    /// # Errors
    /// An element is of another type, or the type is [`ValueType::Described`]: see [`Array::described`].
    pub fn new(element: ValueType, values: Vec<Value>) -> Result<Self, MixedTypes> {
        Self::described(Vec::new(), element, values)
    }

    /// Creates an array whose elements all have the descriptors, the outermost first.
    ///
    /// # Errors
    /// An element is of another type, or the type is [`ValueType::Described`].
    pub fn described(descriptors: Vec<Value>, element: ValueType, values: Vec<Value>) -> Result<Self, MixedTypes> {
        let other = values.iter().position(|value| value.value_type() != element);
        match other {
            None if element != ValueType::Described => Ok(Self::from_parts(descriptors, element, values)),
            _ => Err(MixedTypes { element, index: other.unwrap_or_default() }),
        }
    }

    /// An array whose elements are known to be of the type.
    pub(crate) fn from_parts(descriptors: Vec<Value>, element: ValueType, values: Vec<Value>) -> Self {
        let descriptors = if descriptors.is_empty() { None } else { Some(Box::new(Descriptors(descriptors))) };
        Self { descriptors, element, values }
    }

    /// Returns the type of the elements.
    #[must_use]
    pub const fn element_type(&self) -> ValueType {
        self.element
    }

    /// Returns the descriptors of every element, the outermost first.
    #[must_use]
    pub fn descriptors(&self) -> &[Value] {
        self.descriptors.as_ref().map_or(&[], |descriptors| &descriptors.0)
    }

    /// Returns the elements.
    #[must_use]
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }
}

impl Deref for Array {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.values
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for descriptor in self.descriptors() {
            write!(f, "{descriptor:?} ")?;
        }
        write!(f, "{} ", self.element)?;
        f.debug_list().entries(&self.values).finish()
    }
}

/// An element of an array is not of the array's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedTypes {
    element: ValueType,
    index: usize,
}

impl fmt::Display for MixedTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} is not of the array's type {}", self.index, self.element)
    }
}

impl error::Error for MixedTypes {}
