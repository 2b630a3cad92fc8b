//! W3C trace context in application properties.

mod traceparent;
mod tracestate;

use std::fmt;

use super::{Field, InvalidArgument, Problem, Properties, PropertyValue};

/// The trace context of a message: that of the span that sent it, by [W3C Trace
/// Context](https://www.w3.org/TR/trace-context/). It needs no library of tracing.
///
/// ```
/// use consign::message::{Properties, TraceContext};
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let mut properties = Properties::new();
/// TraceContext::parse(parent)?.with_state("vendor=value").write(&mut properties)?;
///
/// let read = TraceContext::of(&properties)?.expect("it was written just now");
/// assert_eq!((read.to_string().as_str(), read.state()), (parent, Some("vendor=value")));
/// assert!(read.is_sampled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: Option<Box<str>>,
}

impl TraceContext {
    /// The property that holds trace, span and flags.
    pub const TRACEPARENT: &'static str = "traceparent";
    /// The property that holds what vendors add.
    pub const TRACESTATE: &'static str = "tracestate";
    /// The property that older clients of Azure Service Bus read and write in place of `traceparent`.
    pub const DIAGNOSTIC_ID: &'static str = "Diagnostic-Id";
    /// The names of these properties, which are copied to a copy of a message, and to its reply, so that the trace
    /// continues.
    pub const PROPERTIES: [&'static str; 3] = [Self::TRACEPARENT, Self::TRACESTATE, Self::DIAGNOSTIC_ID];

    /// The property of MassTransit: what `traceparent` holds, or an id of an older form.
    const ACTIVITY_ID: &'static str = "MT-Activity-Id";

    /// Longest `tracestate` that is kept: bytes. Of a longer one the last entries are left out.
    pub const MAX_STATE: usize = 512;

    const SAMPLED: u8 = 1;

    /// The context of a span. `None` if one of the ids is zero, which stands for none.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, flags: u8::from(is_sampled), state: None })
    }

    /// Reads a `traceparent`. Of a version after 00 the part is read that version 00 has. Error: not two hexadecimal digits
    /// in lower case, 32, 16 and two more with `-` between; a version ff; an id that is zero; anything after that in
    /// version 00.
    pub fn parse(traceparent: &str) -> Result<Self, InvalidArgument> {
        Self::read(traceparent).ok_or_else(|| malformed(Self::TRACEPARENT))
    }

    fn read(traceparent: &str) -> Option<Self> {
        let (trace_id, span_id, flags) = traceparent::parse(traceparent.as_bytes())?;
        // What other bits mean a later version says.
        Self::new(trace_id, span_id, flags & Self::SAMPLED != 0)
    }

    /// Adds what vendors add, a list of `key=value`. A state that breaks the grammar, names a key twice or has more
    /// than 32 entries is not added, for the rest is sufficient.
    #[must_use]
    pub fn with_state(mut self, tracestate: &str) -> Self {
        self.state = tracestate::normalized(tracestate, Self::MAX_STATE);
        self
    }

    /// Reads what a message carries: `traceparent`, or without one `Diagnostic-Id`, and `tracestate`. `None` if it has
    /// neither. The value is text, or the bytes of text, as some AMQP 0-9-1 clients write it. Without either,
    /// `MT-Activity-Id` of MassTransit is read where it has the form of a `traceparent`. Error: the first of them is
    /// malformed, or not text. A malformed `tracestate` is left out.
    pub fn of(properties: &Properties) -> Result<Option<Self>, InvalidArgument> {
        let application = properties.application_properties();
        if application.is_empty() {
            return Ok(None);
        }
        let names = [Self::TRACEPARENT, Self::DIAGNOSTIC_ID];
        let Some((name, parent)) = names.into_iter().find_map(|name| Some((name, application.get(name)?))) else {
            return Ok(application.get(Self::ACTIVITY_ID).and_then(text).and_then(Self::read));
        };
        let read = text(parent).and_then(Self::read).ok_or_else(|| malformed(name))?;
        Ok(Some(match application.get(Self::TRACESTATE).and_then(text) {
            Some(tracestate) => read.with_state(tracestate),
            None => read,
        }))
    }

    /// Writes it into the properties of a message, and replaces the present one. `Diagnostic-Id` is replaced where
    /// there is one, and not added. Error: the properties would exceed their limits, see [`Properties::check`]; they
    /// are then unchanged.
    pub fn write(&self, properties: &mut Properties) -> Result<(), InvalidArgument> {
        let before = Self::PROPERTIES.map(|name| properties.application_properties_mut().remove(name));
        let application = properties.application_properties_mut();
        let parent = self.to_string();
        if before[2].is_some() {
            application.insert(Self::DIAGNOSTIC_ID, parent.clone());
        }
        application.insert(Self::TRACEPARENT, parent);
        if let Some(state) = self.state() {
            application.insert(Self::TRACESTATE, state.to_owned());
        }
        properties.check().inspect_err(|_| {
            let application = properties.application_properties_mut();
            for (name, value) in Self::PROPERTIES.into_iter().zip(before) {
                match value {
                    Some(value) => drop(application.insert(name, value)),
                    None => drop(application.remove(name)),
                }
            }
        })
    }

    /// The `traceparent`, in version 00. A message that is sent has one, so it is not formatted piece by piece.
    fn traceparent(&self) -> [u8; traceparent::LENGTH] {
        traceparent::written(&self.trace_id, self.span_id, self.flags)
    }

    /// Copies these properties from `from` to `to`, unchanged.
    #[doc(hidden)]
    pub fn carry(from: &Properties, to: &mut Properties) {
        for name in Self::PROPERTIES {
            if let Some(value) = from.application_properties().get(name) {
                to.application_properties_mut().insert(name, value.clone());
            }
        }
    }

    /// Returns the id of the trace, never zero.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the id of the span that sent the message, never zero.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Returns whether the sender of the message records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// Returns the `tracestate` of vendors, in its grammar, at most [`TraceContext::MAX_STATE`]
    /// bytes.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// The `traceparent`, in version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.traceparent()).unwrap_or_default())
    }
}

#[cold]
fn malformed(property: &str) -> InvalidArgument {
    InvalidArgument::new(Field::application_property(property), Problem::Malformed)
}

fn text(value: &PropertyValue) -> Option<&str> {
    match value {
        PropertyValue::Bytes(bytes) => str::from_utf8(bytes).ok(),
        _ => value.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::limits;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn properties(entries: &[(&str, &str)]) -> Properties {
        let mut properties = Properties::new();
        for (name, value) in entries {
            properties.application_properties_mut().insert(*name, (*value).to_owned());
        }
        properties
    }

    /// Rules: O-01.
    #[test]
    fn a_written_value_is_read_back() {
        let context = TraceContext::parse(PARENT).unwrap();
        assert_eq!((context.trace_id()[0], context.span_id()[1], context.is_sampled()), (0x4b, 0xf0, true));
        assert_eq!(context.to_string(), PARENT);
        let not_sampled = PARENT.replace("-01", "-00");
        assert!(!TraceContext::parse(&not_sampled).unwrap().is_sampled());
        // Only the bit that is known is taken over.
        assert_eq!(TraceContext::parse(&PARENT.replace("-01", "-ff")).unwrap().to_string(), PARENT);
    }

    /// Rules: O-02.
    #[test]
    fn text_outside_of_the_grammar_is_malformed() {
        let zero_trace = PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = PARENT.replace("00f067aa0ba902b7", &"0".repeat(16));
        let upper = PARENT.to_uppercase();
        for bad in [
            "",
            "00",
            &PARENT[..54],
            &format!("{PARENT}-"),
            &format!("{PARENT}-00"),
            &format!(" {PARENT}"),
            &format!("{PARENT}\n"),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replacen("00", "0G", 1),
            &format!("cc{}x", &PARENT[2..]),
            &PARENT.replace('-', "_"),
            &PARENT.replace("01", "é"),
            &zero_trace,
            &zero_span,
            &upper,
        ] {
            assert!(TraceContext::parse(bad).is_err(), "{bad}");
        }
        for later in [&format!("cc{}", &PARENT[2..]), &format!("cc{}-what the future brings", &PARENT[2..])] {
            assert_eq!(TraceContext::parse(later).unwrap().to_string(), PARENT, "{later}");
        }
    }

    /// Rules: O-02.
    #[test]
    fn a_list_that_breaks_the_grammar_is_left_out() {
        let kept = |text: &str| TraceContext::parse(PARENT).unwrap().with_state(text).state().map(String::from);
        for (text, expected) in [("a=1", "a=1"), (" a=1 ,\t, b@c= 2", "a=1,b@c= 2"), ("1a_-*/=~!", "1a_-*/=~!")] {
            assert_eq!(kept(text).as_deref(), Some(expected), "{text}");
        }
        let many = |count: usize| (0..count).map(|n| format!("k{n}=1")).collect::<Vec<_>>().join(",");
        assert!(kept(&many(32)).is_some());
        let long = "k".repeat(257);
        for bad in ["", ",", "a", "A=1", "a=", "a=1,a=2", "a=1=2", "a=\u{1b}", "@a=1", "a=1\nb=2", "=1", "a b=1"] {
            assert_eq!(kept(bad), None, "{bad:?}");
        }
        assert_eq!((kept(&many(33)), kept(&format!("{long}=1")), kept(&format!("a={long}"))), (None, None, None));
        let two = format!("a={0},b={0},c=1", "v".repeat(254));
        assert_eq!(kept(&two).unwrap().len(), 256);
        assert_eq!(kept(&",".repeat(1 << 20)), None);
    }

    /// Rules: O-01.
    #[test]
    fn an_older_clients_property_is_read_where_there_is_no_other() {
        let read = |entries: &[_]| TraceContext::of(&properties(entries)).map(|read| read.map(|read| read.to_string()));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("x", PARENT)]), Ok(None));
        assert_eq!(read(&[("Diagnostic-Id", PARENT)]), Ok(Some(PARENT.into())));
        assert_eq!(read(&[("traceparent", PARENT), ("Diagnostic-Id", "|old.1.")]), Ok(Some(PARENT.into())));
        assert_eq!(read(&[("Diagnostic-Id", "|old.1.")]), Err(malformed("Diagnostic-Id")));
        assert_eq!(read(&[("traceparent", ""), ("Diagnostic-Id", PARENT)]), Err(malformed("traceparent")));
        assert_eq!(read(&[("MT-Activity-Id", PARENT)]), Ok(Some(PARENT.into())));
        assert_eq!(read(&[("MT-Activity-Id", "|old.1.")]), Ok(None));
        assert_eq!(read(&[("MT-Activity-Id", PARENT), ("Diagnostic-Id", "x")]), Err(malformed("Diagnostic-Id")));
        let mut number = Properties::new();
        number.application_properties_mut().insert("traceparent", 7_i32);
        assert_eq!(TraceContext::of(&number), Err(malformed("traceparent")));
    }

    /// Rules: O-01.
    #[test]
    fn bytes_of_text_are_read_as_the_text() {
        let mut bytes = Properties::new();
        bytes.application_properties_mut().insert("traceparent", bytes::Bytes::from_static(PARENT.as_bytes()));
        bytes.application_properties_mut().insert("tracestate", bytes::Bytes::from_static(b"a=1"));
        let read = TraceContext::of(&bytes).unwrap().unwrap();
        assert_eq!((read.to_string().as_str(), read.state()), (PARENT, Some("a=1")));
        bytes.application_properties_mut().insert("traceparent", bytes::Bytes::from_static(b"\xff"));
        assert_eq!(TraceContext::of(&bytes), Err(malformed("traceparent")));
    }

    /// Rules: O-01.
    #[test]
    fn a_context_replaces_the_one_before() {
        let mut before = properties(&[("traceparent", "x"), ("tracestate", "a=1"), ("Diagnostic-Id", "x"), ("k", "v")]);
        let context = TraceContext::parse(PARENT).unwrap();
        context.write(&mut before).unwrap();
        assert_eq!(before, properties(&[("traceparent", PARENT), ("Diagnostic-Id", PARENT), ("k", "v")]));
        let mut none = Properties::new();
        context.with_state("a=1").write(&mut none).unwrap();
        assert_eq!(none, properties(&[("traceparent", PARENT), ("tracestate", "a=1")]));
    }

    /// Rules: O-03.
    #[test]
    fn properties_without_space_stay_unchanged() {
        let context = TraceContext::parse(PARENT).unwrap().with_state("a=1");
        let mut many = Properties::new();
        *many.application_properties_mut() = (0..limits::PROPERTIES - 1).map(|n| (n.to_string(), true)).collect();
        let mut large = properties(&[("tracestate", "b=2"), ("a", &"x".repeat(32_000)), ("b", &"x".repeat(32_000))]);
        large.set_subject("x".repeat(limits::ALL_PROPERTIES_BYTES - large.size()));
        for full in [many, large] {
            let mut written = full.clone();
            full.check().unwrap();
            context.write(&mut written).unwrap_err();
            assert_eq!(written, full);
        }
    }
}
