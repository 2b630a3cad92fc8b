use std::sync::Arc;

use askama::Template;
use axum::{
    Extension, Form,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::{Frame, page};
use crate::page::{
    Shared,
    guard::{LOGIN, Login, Session},
};

#[derive(Template)]
#[template(path = "login.html")]
struct View {
    frame: Frame,
    failure: Option<&'static str>,
}

#[derive(Deserialize)]
pub(super) struct Key {
    key: String,
}

fn view(session: &Session, failure: Option<&'static str>) -> View {
    let mut frame = Frame::new("Sign in", session);
    // There is no session to end yet.
    frame.has_key = false;
    View { frame, failure }
}

pub(super) async fn form(Extension(session): Extension<Session>) -> Response {
    page(&view(&session, None)).into_response()
}

pub(super) async fn login(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Form(form): Form<Key>,
) -> Response {
    let (status, failure) = match shared.guard.login(form.key.trim()) {
        Login::Begun(cookie) => return ([(header::SET_COOKIE, cookie)], Redirect::to("/$page/")).into_response(),
        Login::Wrong => (StatusCode::UNAUTHORIZED, "This is not the key."),
        Login::TooMany => (StatusCode::TOO_MANY_REQUESTS, "Too many wrong keys. Try again in a minute."),
    };
    tracing::warn!("a wrong key was presented to the page");
    (status, page(&view(&session, Some(failure)))).into_response()
}

pub(super) async fn logout(State(shared): State<Arc<Shared>>, Extension(session): Extension<Session>) -> Response {
    let cookie = shared.guard.logout(&session);
    ([(header::SET_COOKIE, cookie)], Redirect::to(LOGIN)).into_response()
}
