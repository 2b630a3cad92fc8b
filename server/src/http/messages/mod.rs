//! Messages: to send, to receive, and to settle them.

mod receive;
mod send;
mod settle;

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use consign_core::message::{EntityPath, LockToken};
use uuid::Uuid;

use super::{Http, authorization, call::Call, refusal::Refusal};
use crate::auth::Rights;

/// How long a request waits, unless it has a parameter `timeout`, and the longest that it may wait.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(300);

/// What a request does with the messages of an entity.
#[derive(Debug, PartialEq)]
pub(super) struct Operation {
    path: EntityPath,
    action: Action,
}

#[derive(Debug, PartialEq)]
enum Action {
    Send,
    /// Receive in peek-lock mode.
    Lock,
    /// Receive and delete.
    Delete,
    Settle(Settlement, String, LockToken),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Settlement {
    Complete,
    Abandon,
    Renew,
}

impl Operation {
    /// Reads a method and a path. None if they are of the administration.
    pub(super) fn parse(method: &Method, segments: &[String]) -> Result<Option<Self>, Refusal> {
        let is = |segment: &String, word: &str| segment.eq_ignore_ascii_case(word);
        let (entity, action) = match segments {
            [entity @ .., messages] if is(messages, "messages") && method == Method::POST => (entity, Action::Send),
            [entity @ .., messages, head] if is(messages, "messages") && is(head, "head") => match *method {
                Method::POST => (entity, Action::Lock),
                Method::DELETE => (entity, Action::Delete),
                _ => return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "The method is POST or DELETE.")),
            },
            [entity @ .., messages, name, token] if is(messages, "messages") => {
                let settlement = match *method {
                    Method::DELETE => Settlement::Complete,
                    Method::PUT => Settlement::Abandon,
                    Method::POST => Settlement::Renew,
                    _ => {
                        let text = "The method is DELETE, PUT or POST.";
                        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text));
                    }
                };
                let token = Uuid::parse_str(token);
                let token = token.map_err(|_| Refusal::bad_request("The lock token is not a UUID."))?;
                let token = LockToken::from_bytes(token.into_bytes());
                (entity, Action::Settle(settlement, name.clone(), token))
            }
            _ => return Ok(None),
        };
        let path = EntityPath::new(&entity.join("/")).map_err(|error| Refusal::bad_request(error.to_string()))?;
        Ok(Some(Self { path, action }))
    }
}

/// Runs an operation.
pub(super) async fn run(http: &Http, operation: Operation, call: Call, body: Body) -> Result<Response, Refusal> {
    let Operation { path, action } = operation;
    let needed = if action == Action::Send { Rights::SEND } else { Rights::LISTEN };
    authorization::authorize(http.server.shared(), &call, needed)?;
    let timeout = timeout(&call)?;
    match action {
        Action::Send => send::run(http, &path, &call, body, timeout).await,
        Action::Lock => receive::run(http, &path, &call, timeout, receive::Mode::Lock).await,
        Action::Delete => receive::run(http, &path, &call, timeout, receive::Mode::Delete).await,
        Action::Settle(settlement, name, token) => {
            settle::run(http, &path, settlement, &name, token, timeout).await?;
            Ok(StatusCode::OK.into_response())
        }
    }
}

fn timeout(call: &Call) -> Result<Duration, Refusal> {
    Ok(call.query.number("timeout")?.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds).min(MAX_TIMEOUT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &Method, path: &str) -> Option<Operation> {
        let segments: Vec<_> = path.split('/').map(str::to_owned).collect();
        Operation::parse(method, &segments).unwrap()
    }

    #[test]
    fn an_operation_is_a_method_and_a_path() {
        let path = |path| EntityPath::new(path).unwrap();
        let operation = |entity, action| Some(Operation { path: path(entity), action });
        assert_eq!(parse(&Method::POST, "a/b/messages"), operation("a/b", Action::Send));
        let dead = "t/subscriptions/s/$DeadLetterQueue";
        assert_eq!(parse(&Method::POST, &format!("{dead}/Messages/Head")), operation(dead, Action::Lock));
        assert_eq!(parse(&Method::DELETE, "a/messages/head"), operation("a", Action::Delete));
        let token = "11111111-1111-1111-1111-111111111111";
        let settle = |settlement| Action::Settle(settlement, "5".into(), LockToken::from_bytes([0x11; 16]));
        let at = format!("a/messages/5/{token}");
        assert_eq!(parse(&Method::DELETE, &at), operation("a", settle(Settlement::Complete)));
        assert_eq!(parse(&Method::PUT, &at), operation("a", settle(Settlement::Abandon)));
        assert_eq!(parse(&Method::POST, &at), operation("a", settle(Settlement::Renew)));
        for (method, path) in [(Method::GET, "a"), (Method::PUT, "a/messages"), (Method::GET, "$namespaceinfo")] {
            assert_eq!(parse(&method, path), None);
        }
    }
}
