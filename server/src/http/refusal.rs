//! Refusals: a status and a document with a text.

use std::borrow::Cow;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};
use consign_http::{
    MessageError,
    administration::{DocumentError, DocumentErrorKind, ErrorDocument, SettingsError},
};

use crate::errors::{Failure, text};

/// The type of the documents.
pub(super) const XML: &str = "application/xml; charset=utf-8";

/// Why a request was refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    detail: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub(super) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// An entity that does not exist: 410 for messages, 404 for the administration.
    pub(super) fn no_entity(status: StatusCode, path: &str) -> Self {
        Self::new(status, Failure::no_entity(path).description)
    }

    fn of_kind(kind: ErrorKind, description: Option<&str>, error: &dyn std::fmt::Display) -> Self {
        Self::new(status(kind), text(kind, description, error))
    }

    /// Replaces the status of an entity that does not exist.
    pub(super) fn gone(mut self) -> Self {
        if self.status == StatusCode::NOT_FOUND {
            self.status = StatusCode::GONE;
        }
        self
    }
}

const fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidArgument
        | ErrorKind::InvalidOperation
        | ErrorKind::Serialization
        | ErrorKind::NoMatchingSubscription => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorKind::EntityNotFound
        | ErrorKind::MessageNotFound
        | ErrorKind::MessageLockLost
        | ErrorKind::SessionLockLost => StatusCode::NOT_FOUND,
        ErrorKind::QuotaExceeded | ErrorKind::MessageSizeExceeded | ErrorKind::EntityDisabled => StatusCode::FORBIDDEN,
        ErrorKind::AlreadyExists => StatusCode::CONFLICT,
        ErrorKind::ServiceBusy | ErrorKind::Throttled => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let document = ErrorDocument::new(self.status.as_u16(), self.detail).to_xml();
        (self.status, [(header::CONTENT_TYPE, XML)], document).into_response()
    }
}

macro_rules! from_operation_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self::of_kind(error.kind(), error.description(), &error)
            }
        }
    )*};
}

from_operation_errors!(SendError, ReceiveError, SettleError, ManageError);

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, failure.description)
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<DocumentError> for Refusal {
    fn from(error: DocumentError) -> Self {
        let is_large = error.kind() == DocumentErrorKind::TooLarge;
        let status = if is_large { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
        Self::new(status, error.to_string())
    }
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        Self::bad_request(error.to_string())
    }
}
