use consign_core::message::{Body, PassThrough, Stored, Value};

/// The maximum depth of nested values. Reading recurses as deep on the stack, and as JSON they can be read as well.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value that is in no other one has a level too.
pub(super) const LEVELS: usize = MAX_DEPTH + 1;

/// Whether a message can be read again once it is written: no value in it is deeper than [`MAX_DEPTH`].
pub(crate) fn can_be_stored(message: &Stored) -> bool {
    let fits = |value: &Value| value.is_within(LEVELS);
    let body = match message.body() {
        Body::Data(_) => true,
        Body::Value(value) => fits(value),
        Body::Sequence(sections) => sections.iter().flatten().all(fits),
    };
    let annotated = |rest: &PassThrough| rest.annotations.iter().chain(&rest.footer).all(|(_, value)| fits(value));
    body && message.properties().pass_through().is_none_or(annotated)
}
