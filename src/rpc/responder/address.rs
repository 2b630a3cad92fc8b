use std::sync::{Mutex, PoisonError};

use crate::{Disposition, Message, message::EntityPath, settlement::DeadLetterReason};

/// Which addresses replies may go to. A request names the address. Without a check, a sender of requests could make the
/// responder write to any entity that it may write to.
pub(super) struct Addresses {
    namespace: Option<Box<str>>,
    allowed: Box<dyn Fn(&EntityPath) -> bool + Send + Sync>,
    /// The path that was parsed last, of those that can be sent to: a requester has one address for all its calls.
    last: Mutex<Option<EntityPath>>,
}

impl Addresses {
    /// Every entity of the same namespace.
    pub(super) fn new() -> Self {
        Self { namespace: None, allowed: Box::new(|_| true), last: Mutex::new(None) }
    }

    pub(super) fn set_namespace(&mut self, prefix: &str) {
        self.namespace = Some(prefix.into());
    }

    pub(super) fn set_allowed(&mut self, allowed: impl Fn(&EntityPath) -> bool + Send + Sync + 'static) {
        self.allowed = Box::new(allowed);
    }

    /// Where the reply goes; `None` if the request does not want one.
    pub(super) fn of(&self, request: &Message) -> Result<Option<EntityPath>, NotAllowed> {
        let Some(address) = request.reply_to().filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        let path = self.parsed(self.relative(address))?;
        if (self.allowed)(&path) { Ok(Some(path)) } else { Err(NotAllowed) }
    }

    fn parsed(&self, address: &str) -> Result<EntityPath, NotAllowed> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = last.as_ref().filter(|path| path.as_str() == address) {
            return Ok(path.clone());
        }
        let path = EntityPath::new(address).map_err(|_| NotAllowed)?;
        // Neither can be sent to.
        if path.is_sub_queue() || path.subscription().is_some() {
            return Err(NotAllowed);
        }
        *last = Some(path.clone());
        Ok(path)
    }

    /// An absolute address of the same namespace without it. Of any other it leaves the scheme, and a scheme is not part
    /// of a path.
    fn relative<'a>(&self, address: &'a str) -> &'a str {
        let Some(namespace) = self.namespace.as_deref() else { return address };
        match address.split_at_checked(namespace.len()) {
            // `sb://here.example.evil/x` begins with `sb://here.example` too.
            Some((prefix, rest))
                if prefix.eq_ignore_ascii_case(namespace) && (namespace.ends_with('/') || rest.starts_with('/')) =>
            {
                rest
            }
            _ => address,
        }
    }
}

/// The address is not one that replies may go to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAllowed;

impl From<NotAllowed> for Disposition {
    #[cold]
    fn from(_: NotAllowed) -> Self {
        Self::dead_letter(DeadLetterReason::ReplyAddressNotAllowed, "replies may not go to the address in ReplyTo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(reply_to: &str) -> Message {
        Message::builder().reply_to(reply_to.to_owned()).build("").unwrap()
    }

    /// Rules: R-27.
    /// Attacks: 66.
    #[test]
    fn management_sub_queues_and_other_namespaces_are_refused() {
        let mut addresses = Addresses::new();
        addresses.set_namespace("sb://here.example");
        for hostile in [
            "$management",
            "$cbs",
            "orders/$management",
            "orders/$deadletterqueue",
            "orders/$Transfer/$DeadLetterQueue",
            "sb://there.example/replies",
            "amqps://there.example/replies",
            "//there.example/replies",
            "a@b",
            "../x?y",
            "sb://here.example/$management",
            "sb://here.example.evil/replies",
            "prices/Subscriptions/audit",
        ] {
            assert_eq!(addresses.of(&request(hostile)), Err(NotAllowed), "{hostile}");
        }
        for (good, path) in [("replies", "replies"), ("a/b", "a/b"), ("SB://HERE.example/replies", "replies")] {
            assert_eq!(addresses.of(&request(good)).unwrap(), Some(EntityPath::new(path).unwrap()));
        }
        assert_eq!(addresses.of(&Message::new("")), Ok(None));
    }

    #[test]
    fn an_address_after_another_is_its_own() {
        let addresses = Addresses::new();
        for path in ["replies.7", "replies.7", "replies.8", "Replies.8", "/replies.8"] {
            let found = addresses.of(&request(path)).unwrap().unwrap();
            assert_eq!(found.as_str(), path.trim_start_matches('/'));
        }
    }

    /// Rules: R-27.
    #[test]
    fn a_list_of_addresses_is_kept() {
        let mut addresses = Addresses::new();
        addresses.set_allowed(|path| path.as_str().starts_with("replies."));
        assert_eq!(addresses.of(&request("orders")), Err(NotAllowed));
        assert!(addresses.of(&request("replies.7")).is_ok());
    }
}
