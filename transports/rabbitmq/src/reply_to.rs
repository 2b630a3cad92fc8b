//! The address of direct replies, in a `ReplyTo` and as a path.

/// The name of the pseudo queue: consumed from, and set as the ReplyTo of a request.
pub(crate) const QUEUE: &str = "amq.rabbitmq.reply-to";

/// The start of the names of reply queues, which have no settings on the server.
pub(crate) const REPLIES: &str = "consign.replies/";

const PIECE: usize = 48;

/// Returns the path of a `ReplyTo`. RabbitMQ replaces [`QUEUE`] in a request by a text that is longer than the segments of a
/// path may be. It is base64, so that pieces of it can be segments: `/`, which it may have, is written `_`, which it has not.
pub(crate) fn path(reply_to: &str) -> Option<String> {
    let token = reply_to.strip_prefix(QUEUE)?.strip_prefix('.')?;
    if !token.is_ascii() || token.is_empty() {
        return None;
    }
    let mut path = QUEUE.to_owned();
    for (index, char) in token.chars().enumerate() {
        if index % PIECE == 0 {
            path.push('/');
        }
        path.push(if char == '/' { '_' } else { char });
    }
    Some(path)
}

/// Returns the text that [`path`] was made from.
pub(crate) fn address(path: &str) -> Option<String> {
    let pieces = path.strip_prefix(QUEUE)?.strip_prefix('/')?;
    let token: String =
        pieces.chars().filter(|char| *char != '/').map(|char| if char == '_' { '/' } else { char }).collect();
    Some(format!("{QUEUE}.{token}"))
}

#[cfg(test)]
mod tests {
    use consign_core::message::EntityPath;

    use super::*;

    #[test]
    fn an_address_for_a_reply_is_a_path_and_back() {
        for length in [1, 47, 48, 49, 130] {
            let token: String = "g1h2AA5y/ZXBse+UA.=".chars().cycle().take(length).collect();
            let reply_to = format!("{QUEUE}.{token}");
            let path = path(&reply_to).unwrap();
            assert_eq!(EntityPath::new(&path).unwrap().as_str(), path);
            assert_eq!(address(&path).unwrap(), reply_to);
        }
        for other in ["", QUEUE, "amq.rabbitmq.reply-to.", "replies", "amq.rabbitmq.reply-to.語"] {
            assert_eq!(path(other), None);
            assert_eq!(address(other), None);
        }
    }
}
