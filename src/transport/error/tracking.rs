//! The tracking id in a broker's text.

const MARK: &str = "TrackingId:";

/// What follows `TrackingId:` up to a comma or white space. It is what the broker's operators find the failure by.
pub(super) fn tracking_id(description: &str) -> Option<&str> {
    let (_, rest) = description.split_once(MARK)?;
    let end = rest.find(|char: char| char == ',' || char.is_whitespace()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_03_a_tracking_id_ends_at_a_comma_or_white_space() {
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
