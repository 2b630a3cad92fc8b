/// The type and subtype of the text of a ContentType, without its parameters, also if it is malformed.
#[doc(hidden)]
#[must_use]
pub fn essence_of(content_type: &str) -> &str {
    content_type.split_once(';').map_or(content_type, |(essence, _)| essence).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_white_space_are_left_out() {
        for (text, essence) in [("a/b", "a/b"), (" a/B ; c=d; e", "a/B"), ("json", "json"), (";", ""), ("", "")] {
            assert_eq!(essence_of(text), essence, "{text}");
        }
    }
}
