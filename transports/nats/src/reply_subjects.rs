//! The subjects of an inbox for replies.

use std::sync::Arc;

use consign_core::Message;

use crate::{reply, wire};

/// The last token of the subject of replies that have their id in a header.
const BY_HEADER: &str = "r";

/// The first segment of the address of an inbox whose prefix is not `_INBOX`.
const FOR_SUBJECTS: &str = "_SUBJECTS/";

/// Returns whether a ReplyTo is that of an inbox with another prefix, which no responder would take from a header.
pub(crate) fn is_for_subjects_only(reply_to: &str) -> bool {
    reply_to.starts_with(FOR_SUBJECTS)
}

/// The subjects of an inbox.
#[derive(Clone)]
pub(crate) struct Inbox {
    /// `_INBOX.ID.`, or with the prefix of the client.
    prefix: Arc<str>,
    address: Arc<str>,
}

impl Inbox {
    pub(crate) fn new(name: &str) -> Self {
        let address = reply::path(&format!("{name}.{BY_HEADER}"));
        let address = address.unwrap_or_else(|| format!("{FOR_SUBJECTS}{}", wire::token(name)));
        Self { prefix: format!("{name}.").into(), address: address.into() }
    }

    /// Returns the ReplyTo of requests, as a path.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Replaces the ReplyTo of a request with this address by a reply subject of its own, which identifies it. Services that
    /// do not use this library reply there, and return no header.
    pub(crate) fn take_reply_to(&self, request: &mut Message) -> Option<String> {
        if request.reply_to() != Some(&*self.address) {
            return None;
        }
        let subject = format!("{}{}", self.prefix, wire::token(request.message_id()?));
        request.properties_mut().clear_reply_to();
        Some(subject)
    }

    /// Returns the MessageId of the request of a reply, if the subject has it.
    pub(crate) fn request_of(&self, subject: &str) -> Option<String> {
        let token = subject.strip_prefix(&*self.prefix).filter(|token| *token != BY_HEADER)?;
        wire::untoken(token)
    }
}
