//! Who may do what: the host, the session, the token of a form, and the headers of every answer.

mod headers;
mod sessions;

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use consign_core::time::Clock;

use self::sessions::Sessions;
use super::{Shared, error::PageError};
use crate::{
    AccessKey,
    body::{self, ReadError},
};

/// The largest form, in bytes, and how long a browser may take to send it.
const FORM: usize = 4 << 20;
/// The largest form of a login, which anyone may send.
const LOGIN_FORM: usize = 4 << 10;
const FORM_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) const LOGIN: &str = "/$page/login";
const ASSETS: &str = "/$page/assets/";

/// The rules of one page.
pub(super) struct Guard {
    key: Option<AccessKey>,
    secure: bool,
    sessions: Sessions,
}

/// The session of a request, as its handler sees it.
#[derive(Clone)]
pub(super) struct Session {
    id: String,
    /// What a form of this session has in its field `csrf`.
    pub(super) csrf: String,
    /// Whether there is a key, and so a way to end the session.
    pub(super) has_key: bool,
}

/// The result of a login.
pub(super) enum Login {
    /// The cookie of the new session.
    Begun(HeaderValue),
    Wrong,
    /// Too many wrong keys within a minute.
    TooMany,
}

impl Guard {
    pub(super) fn new(key: Option<AccessKey>, secure: bool, clock: Arc<dyn Clock>) -> Self {
        Self { key, secure, sessions: Sessions::new(clock) }
    }

    /// Begins a session with a key. The new session has another id than the one before.
    pub(super) fn login(&self, key: &str) -> Login {
        let Some(own) = &self.key else { return Login::Wrong };
        if !self.sessions.may_try() {
            return Login::TooMany;
        }
        if !own.is(key) {
            self.sessions.count_failure();
            return Login::Wrong;
        }
        let id = self.sessions.begin();
        Login::Begun(self.cookie(&id))
    }

    /// Ends a session.
    pub(super) fn logout(&self, session: &Session) -> HeaderValue {
        self.sessions.end(&session.id);
        self.cookie("")
    }

    /// Whether this session may go on: without a key, each may.
    pub(super) fn is_open(&self, session: &Session) -> bool {
        self.key.is_none() || self.sessions.is_begun(&session.id)
    }

    fn cookie(&self, id: &str) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let age = if id.is_empty() { "; Max-Age=0" } else { "" };
        let cookie = format!("{}={id}; Path=/$page; HttpOnly; SameSite=Strict{age}{secure}", sessions::COOKIE);
        HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""))
    }
}

/// Checks a request before its handler is called.
pub(super) async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut answer = match checked(&shared.guard, request).await {
        Ok((request, cookie)) => {
            let mut answer = next.run(request).await;
            if let Some(cookie) = cookie {
                answer.headers_mut().append(header::SET_COOKIE, cookie);
            }
            answer
        }
        Err(answer) => answer,
    };
    headers::set(answer.headers_mut());
    answer
}

/// The request with its session, and the cookie of a session that is new.
async fn checked(guard: &Guard, mut request: Request) -> Result<(Request, Option<HeaderValue>), Response> {
    if guard.key.is_none() && !crate::browser::is_loopback(request.headers()) {
        return Err(refused(StatusCode::MISDIRECTED_REQUEST, "This page answers requests to a loopback name only."));
    }
    let path = request.uri().path();
    let (is_open, is_asset) = (path == LOGIN, path.starts_with(ASSETS));
    let known = sessions::id_of(request.headers());
    if guard.key.is_some() && !is_open && !is_asset && !known.is_some_and(|id| guard.sessions.is_begun(id)) {
        return Err(match *request.method() {
            Method::GET => Redirect::to(LOGIN).into_response(),
            _ => refused(StatusCode::UNAUTHORIZED, "The session has ended. Sign in again."),
        });
    }
    let (id, cookie) = if let Some(id) = known {
        (id.to_owned(), None)
    } else {
        let id = sessions::new_id();
        let cookie = (!is_asset).then(|| guard.cookie(&id));
        (id, cookie)
    };
    let csrf = guard.sessions.token(&id);
    request.extensions_mut().insert(Session { id: id.clone(), csrf, has_key: guard.key.is_some() });
    match *request.method() {
        Method::GET | Method::HEAD => Ok((request, cookie)),
        Method::POST if !is_asset => {
            let (parts, body) = request.into_parts();
            let limit = if is_open { LOGIN_FORM } else { FORM };
            let body = check_form(guard, &id, &parts.headers, body, limit).await?;
            Ok((Request::from_parts(parts, Body::from(body)), cookie))
        }
        _ => Err(refused(StatusCode::METHOD_NOT_ALLOWED, "This page has GET, and POST for forms.")),
    }
}

/// The form, if it was sent by the page itself.
async fn check_form(guard: &Guard, id: &str, headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Response> {
    let from_elsewhere = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if from_elsewhere {
        return Err(refused(StatusCode::FORBIDDEN, "Another site has sent this form."));
    }
    let form = match tokio::time::timeout(FORM_TIMEOUT, body::read(body, limit)).await {
        Ok(Ok(form)) => form,
        Ok(Err(ReadError::TooLarge)) => {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large."));
        }
        Ok(Err(ReadError::Broken)) => return Err(refused(StatusCode::BAD_REQUEST, "The form could not be read.")),
        Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT, "The form was not received in time.")),
    };
    let token = form.split(|&byte| byte == b'&').find_map(|field| field.strip_prefix(b"csrf="));
    if !token.is_some_and(|token| guard.sessions.is_token(id, token)) {
        return Err(refused(
            StatusCode::FORBIDDEN,
            "The form has no valid token. Load the page again, and repeat the action.",
        ));
    }
    Ok(form)
}

fn refused(status: StatusCode, text: &'static str) -> Response {
    PageError::refused(status, text).into_response()
}
