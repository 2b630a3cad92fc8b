use consign_codecs::ContentType;

/// Parses a text as a ContentType. The `mime` crate has to agree where it accepts the text.
///
/// # Panics
/// What is accepted is parsed again as something else, or means another media type to `mime`.
pub fn content_type(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let parsed = ContentType::parse(text);
    assert_eq!(parsed.as_str(), text);
    assert!(!format!("{parsed} {parsed:?}").is_empty());
    if parsed.is_malformed() {
        assert_eq!(parsed.essence(), None);
        return;
    }
    assert_eq!(parsed.malformed(), None);
    let essence = parsed.essence().expect("what is not malformed has an essence");
    assert!(parsed.parameters().count() <= ContentType::MAX_PARAMETERS);
    for (name, _) in parsed.parameters() {
        assert!(parsed.parameter(name).is_some());
        assert_eq!(parsed.parameter(name), parsed.parameter(&name.to_ascii_uppercase()));
    }
    // `mime` refuses a few media types.
    if let Some(mime) = parsed.mime() {
        assert!(mime.essence_str().eq_ignore_ascii_case(essence), "{mime} and {essence}");
    }
    assert_eq!(ContentType::parse(&parsed.to_string()), parsed);
}
