//! Reply subjects of core NATS, as addresses for replies.

/// The prefix of the reply subjects of other clients.
const INBOX: &str = "_INBOX";

/// Returns the path of a reply subject, `_INBOX/a/b` of `_INBOX.a.b`: the tokens are its segments. `None` of any other subject,
/// so that the sender of a request cannot make a responder publish to it.
pub(crate) fn path(subject: &str) -> Option<String> {
    subject.strip_prefix(INBOX)?.starts_with('.').then(|| subject.replace('.', "/"))
}

/// Returns the subject that [`path`] was made from.
pub(crate) fn subject(path: &str) -> Option<String> {
    let tokens = path.strip_prefix(INBOX)?.strip_prefix('/')?;
    let is_token =
        |token: &str| !token.is_empty() && !token.contains(['.', '*', '>']) && !token.contains(char::is_whitespace);
    tokens.split('/').all(is_token).then(|| path.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use consign_core::message::EntityPath;

    use super::*;

    /// Rules: K-200.
    #[test]
    fn a_reply_subject_is_a_path_and_back() {
        for of in ["_INBOX.a", "_INBOX.zHnJ3Sb6D2Vq9c8w1mTfLk.zHnJ3Sb6D2Vq9c8w1mTfMp"] {
            let path = path(of).unwrap();
            assert_eq!(EntityPath::new(&path).unwrap().as_str(), path);
            assert_eq!(subject(&path).unwrap(), of);
        }
        for other in ["", "_INBOX", "_INBOXES.a", "replies", "$JS.API.STREAM.DELETE.x", "orders._INBOX.a"] {
            assert_eq!(path(other), None, "{other}");
        }
        for hostile in
            ["_INBOX/", "_INBOX", "_INBOX/>", "_INBOX/a/*", "_INBOX/a.b", "_INBOX//a", "_INBOX/a b", "_inbox/a"]
        {
            assert_eq!(subject(hostile), None, "{hostile}");
        }
    }
}
