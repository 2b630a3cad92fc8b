//! Reply subjects of core NATS, as addresses for replies.

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use consign_core::message::EntityPath;

use crate::wire;

/// The prefix of the reply subjects of most clients.
const INBOX: &str = "_INBOX";
/// The first segment of the path of any other reply subject. The second one is a tag, and the third one the subject.
const GRANTED: &str = "_REPLY";

/// Random keys of this process. A path has a tag made with them, so only this process can make the path of a subject, and no
/// header of a message can.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn tag(subject: &str) -> u64 {
    KEYS.hash_one(subject)
}

fn is_token(token: &str) -> bool {
    !token.is_empty() && !token.contains(['.', '*', '>']) && !token.contains(char::is_whitespace)
}

/// Returns the path of a reply subject that a header names, `_INBOX/a/b` of `_INBOX.a.b`: the tokens are its segments. `None`
/// of any other subject, so that the sender of a request cannot make a responder publish to it.
pub(crate) fn path(subject: &str) -> Option<String> {
    subject.strip_prefix(INBOX)?.starts_with('.').then(|| subject.replace('.', "/"))
}

/// Returns the path of the reply subject with which the server has delivered a request. It has any prefix: clients choose one,
/// and the server writes `_R_` for a request of another account and `_GR_` for one of another cluster.
///
/// `None` of a subject of the server's API, of this transport's own streams in `namespace`, and of one that is too long for a path.
pub(crate) fn path_of_request(subject: &str, namespace: &str) -> Option<String> {
    if let Some(path) = path(subject) {
        return Some(path);
    }
    let is_own = subject.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'));
    if is_own || subject.starts_with('$') || !subject.split('.').all(is_token) {
        return None;
    }
    let path = format!("{GRANTED}/{:016x}/{}", tag(subject), wire::token(subject));
    (path.len() <= EntityPath::MAX_LENGTH).then_some(path)
}

/// Returns the subject that a path was made from.
pub(crate) fn subject(path: &str) -> Option<String> {
    if let Some((granted, token)) = path.strip_prefix(GRANTED).and_then(|rest| rest.strip_prefix('/')?.split_once('/'))
    {
        let subject = wire::untoken(token)?;
        return (u64::from_str_radix(granted, 16) == Ok(tag(&subject))).then_some(subject);
    }
    let tokens = path.strip_prefix(INBOX)?.strip_prefix('/')?;
    tokens.split('/').all(is_token).then(|| path.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-200.
    #[test]
    fn a_reply_subject_is_a_path_and_back() {
        for of in ["_INBOX.a", "_INBOX.zHnJ3Sb6D2Vq9c8w1mTfLk.zHnJ3Sb6D2Vq9c8w1mTfMp"] {
            let path = path(of).unwrap();
            assert_eq!(EntityPath::new(&path).unwrap().as_str(), path);
            assert_eq!(subject(&path).unwrap(), of);
            assert_eq!(path_of_request(of, "consign"), Some(path));
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

    /// Rules: K-200.
    #[test]
    fn the_reply_subject_of_a_request_has_any_prefix() {
        for of in
            ["_R_.7bGqXk.q2c8w1", "_GR_.ab12.cd34._INBOX.a.b", "alice.inbox.a", "a#b.Ü.$deadletterqueue", "replies"]
        {
            let path = path_of_request(of, "consign").unwrap();
            let parsed = EntityPath::new(&path).unwrap();
            assert_eq!((parsed.as_str(), parsed.is_sub_queue()), (&*path, false));
            assert_eq!(subject(&path).unwrap(), of);
        }
        let long = "a".repeat(300);
        for refused in ["", "a..b", "a.*", ">", "$JS.ACK.orders.c.1.2.3.4.5", "$SYS.a", "consign.orders.m", &long] {
            assert_eq!(path_of_request(refused, "consign"), None, "{refused}");
        }
        assert!(path_of_request("consigned.orders.m", "consign").is_some());
    }

    /// Rules: K-200.
    #[test]
    fn a_path_that_another_process_has_made_is_not_one() {
        let path = path_of_request("_R_.a.b", "consign").unwrap();
        let (_, token) = path.rsplit_once('/').unwrap();
        let other = path_of_request("_R_.a.c", "consign").unwrap();
        let (of_other, _) = other.rsplit_once('/').unwrap();
        for forged in [
            format!("{GRANTED}/{token}"),
            format!("{GRANTED}//{token}"),
            format!("{GRANTED}/0000000000000000/{token}"),
            format!("{of_other}/{token}"),
            format!("{path}/x"),
        ] {
            assert_eq!(subject(&forged), None, "{forged}");
        }
    }
}
