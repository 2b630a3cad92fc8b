//! The tracking id in a broker's text.

const MARK: &str = "TrackingId:";

/// What follows `TrackingId:` up to a comma or white space. It is what the broker's operators find the failure by.
pub(super) fn tracking_id(description: &str) -> Option<&str> {
    let (_, rest) = description.split_once(MARK)?;
    let end = rest.find(|char: char| char == ',' || char.is_whitespace()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|id| !id.is_empty())
}

/// The text without what a hosted service adds for its own operators, from `Reference:` or `TrackingId:` on.
pub(super) fn readable(description: &str) -> &str {
    let end = ["Reference:", MARK].iter().filter_map(|mark| description.find(mark)).min().unwrap_or(description.len());
    description[..end].trim_end_matches(|char: char| char.is_whitespace() || matches!(char, ',' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: O-278.
    #[test]
    fn text_that_a_hosted_service_adds_is_removed() {
        for (description, text) in [
            ("Slow down. TrackingId:1f_orders, SystemTracker:ns:Queue:orders, Timestamp:2024", "Slow down"),
            ("Gone. Reference:4b, TrackingId:1f, SystemTracker:x", "Gone"),
            ("TrackingId:1f", ""),
            ("a plain text.", "a plain text"),
        ] {
            assert_eq!(readable(description), text);
        }
    }

    /// Rules: X-03.
    #[test]
    fn a_tracking_id_ends_at_a_comma_or_white_space() {
        for (description, id) in [
            (
                "The queue is full. TrackingId:1f-2_orders, SystemTracker:ns:Queue:orders, Timestamp:2024",
                Some("1f-2_orders"),
            ),
            ("TrackingId:a b", Some("a")),
            ("TrackingId:a\u{3000}b", Some("a")),
            ("TrackingId:a\r\nTimestamp:1", Some("a")),
            ("… TrackingId:語_ü", Some("語_ü")),
            ("TrackingId:first, TrackingId:second", Some("first")),
            ("TrackingId:", None),
            ("TrackingId:, SystemTracker:x", None),
            ("TrackingId: a", None),
            ("trackingid:a", None),
            ("TrackingId", None),
            ("", None),
        ] {
            assert_eq!(tracking_id(description), id, "{description:?}");
        }
    }
}
