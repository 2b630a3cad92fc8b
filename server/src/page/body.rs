//! Bodies as text for people, by their ContentType.

use consign::codecs::{ContentType, Losses};
use consign_core::{Message, message::MessageBody};

use super::{hex, pretty};

/// Most bytes of a body that are shown.
pub(super) const MAX_SHOWN: usize = 64 << 10;
/// Most bytes in the form of bytes, which takes more place.
const MAX_DUMPED: usize = 4 << 10;

/// A body as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// What the text is.
    pub(super) form: &'static str,
    pub(super) text: String,
    /// What the reader has to know about it.
    pub(super) note: Option<String>,
}

/// The formats that a body can be written in.
pub(super) const FORMATS: [&str; 3] = ["application/json", "application/msgpack", "application/cbor"];

/// Makes a set of the codecs of [`FORMATS`].
macro_rules! codecs {
    () => {
        consign::codecs::Codecs::builder()
            .with(consign::codecs::Json::default())
            .with(consign::codecs::MessagePack)
            .with(consign::codecs::Cbor)
            .build()
    };
}

pub(super) use codecs;

/// Shows the body of a message.
pub(super) fn show(message: &Message) -> Shown {
    let MessageBody::Data(_) = message.body() else {
        let text = format!("{:#?}", message.body());
        let (text, note) = cut(&text);
        return Shown { form: "AMQP value", text, note };
    };
    let bytes = message.payload().unwrap_or_default();
    if bytes.is_empty() {
        return Shown { form: "empty", text: String::new(), note: None };
    }
    let content_type = message.content_type();
    let parsed = ContentType::parse(content_type.unwrap_or_default());
    let essence = parsed.essence().map(ToString::to_string).unwrap_or_default();
    if let Some(text) = as_text(bytes) {
        let is_json = essence.is_empty() || essence.ends_with("/json") || essence.ends_with("+json");
        if is_json && let Some(pretty) = pretty::json(text) {
            let (text, note) = cut(&pretty);
            return Shown { form: "JSON", text, note };
        }
    }
    if let Some(shown) = transcoded(content_type, &essence, bytes) {
        return shown;
    }
    if let Some(text) = as_text(bytes) {
        let (text, note) = cut(text);
        return Shown { form: "text", text, note };
    }
    let note = (bytes.len() > MAX_DUMPED).then(|| format!("the first {MAX_DUMPED} of {} bytes", bytes.len()));
    Shown { form: "Bytes", text: hex::dump(bytes, MAX_DUMPED), note }
}

/// A body of MessagePack or CBOR, as JSON.
fn transcoded(content_type: Option<&str>, essence: &str, bytes: &[u8]) -> Option<Shown> {
    let form = if essence.ends_with("msgpack") {
        "MessagePack, as JSON"
    } else if essence.ends_with("cbor") {
        "CBOR, as JSON"
    } else {
        return None;
    };
    let codecs = codecs!().ok()?;
    let (encoded, losses) = codecs.transcode_lossy(content_type, bytes, FORMATS[0]).ok()?;
    let text = pretty::json(std::str::from_utf8(&encoded.body).ok()?)?;
    let (text, note) = cut(&text);
    let lossy = (losses != Losses::default())
        .then(|| "some values have no form in JSON and are shown by the nearest".to_owned());
    Some(Shown { form, text, note: note.or(lossy) })
}

/// The text of bytes that are one: UTF-8 without control characters other than white space.
pub(super) fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_text = text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\r' | '\t'));
    is_text.then_some(text)
}

/// The beginning of a text, and whether that is not all.
fn cut(text: &str) -> (String, Option<String>) {
    if text.len() <= MAX_SHOWN {
        return (text.to_owned(), None);
    }
    let end = (0..=MAX_SHOWN).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    (text[..end].to_owned(), Some(format!("the first {end} of {} bytes", text.len())))
}

/// One line of a body, for a list.
pub(super) fn excerpt(message: &Message) -> String {
    const MOST: usize = 80;
    let Some(bytes) = message.payload() else { return format!("({})", "AMQP value") };
    let start = &bytes[..bytes.len().min(MOST * 4)];
    let valid = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The cut may be within a character.
        Err(error) if start.len() < bytes.len() && error.valid_up_to() + 4 > start.len() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return format!("({} bytes)", bytes.len()),
    };
    let mut chars = valid.chars();
    let line: String = chars.by_ref().take(MOST).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if chars.next().is_some() { line + "…" } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content_type: Option<&str>, body: &[u8]) -> (&'static str, String) {
        let mut message = Message::builder();
        if let Some(content_type) = content_type {
            message = message.content_type(content_type.to_owned());
        }
        let shown = show(&message.build(body.to_vec()).unwrap());
        (shown.form, shown.text)
    }

    #[test]
    fn a_body_is_shown_by_its_content_type() {
        let pretty = "{\n  \"a\": 1\n}";
        for (content_type, body, form, text) in [
            (Some("application/json"), &b"{\"a\":1}"[..], "JSON", pretty),
            (Some("application/vnd.acme+json; charset=utf-8"), b"{\"a\":1}", "JSON", pretty),
            (None, b"{\"a\":1}", "JSON", pretty),
            (Some("application/msgpack"), b"\x81\xa1a\x01", "MessagePack, as JSON", pretty),
            (Some("application/cbor"), b"\xa1\x61a\x01", "CBOR, as JSON", pretty),
            (Some("text/plain"), b"<script>", "text", "<script>"),
            (Some("application/json"), b"{\"a\":", "text", "{\"a\":"),
            (Some("application/json"), b"", "empty", ""),
        ] {
            assert_eq!(shown(content_type, body), (form, text.to_owned()), "{content_type:?}");
        }
        let (form, text) = shown(Some("application/msgpack"), b"\xc1\xff");
        assert!(form == "Bytes" && text.starts_with("00000000  c1 ff"), "{form} {text}");
        assert_eq!(shown(None, b"a\x00b").0, "Bytes");
    }

    #[test]
    fn a_large_body_is_cut() {
        let message = Message::builder().content_type("text/plain").build("é".repeat(MAX_SHOWN)).unwrap();
        let shown = show(&message);
        assert!(shown.text.len() <= MAX_SHOWN && shown.note.is_some());
        assert_eq!(excerpt(&message).chars().count(), 81);
    }
}
