//! Errors of requests, as pages.

use std::error::Error;

use askama::Template;
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use consign_core::{
    message::InvalidArgument,
    transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
};

/// Why a request has failed.
#[derive(Debug)]
pub(super) struct PageError {
    status: StatusCode,
    text: String,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'e> {
    status: u16,
    text: &'e str,
}

impl PageError {
    pub(super) fn refused(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::refused(StatusCode::NOT_FOUND, format!("There is no such {what}."))
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, text)
    }

    fn of_kind(kind: ErrorKind, error: &(dyn Error + 'static)) -> Self {
        let status = match kind {
            ErrorKind::EntityNotFound | ErrorKind::MessageNotFound => StatusCode::NOT_FOUND,
            ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
            ErrorKind::NotSupported | ErrorKind::InvalidOperation => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        Self::refused(status, text)
    }
}

macro_rules! of_operation {
    ($($error:ident),*) => {$(
        impl From<$error> for PageError {
            fn from(error: $error) -> Self {
                Self::of_kind(error.kind(), &error)
            }
        }
    )*};
}

of_operation!(ManageError, ReceiveError, SendError, SettleError);

impl From<InvalidArgument> for PageError {
    fn from(error: InvalidArgument) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        Self::refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<std::io::Error> for PageError {
    fn from(error: std::io::Error) -> Self {
        Self::refused(StatusCode::INTERNAL_SERVER_ERROR, format!("The file of the jobs was not written: {error}"))
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let page = ErrorPage { status: self.status.as_u16(), text: &self.text };
        let html = page.render().unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
    }
}
