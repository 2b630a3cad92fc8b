//! One request of the administration.

use std::sync::Arc;

use ::http::{Method, Request, StatusCode, header};
use bytes::Bytes;
use consign_core::{message::EntityPath, transport::ErrorKind};
use consign_http::administration::{Document, read};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::{AccessToken, TokenType, connect, core::Core, error::Failure};

const API_VERSION: &str = "2021-05";
const CONTENT_TYPE: &str = "application/atom+xml;type=entry;charset=utf-8";
const FORWARD: &str = "ServiceBusSupplementaryAuthorization";
const FORWARD_DEAD_LETTERS: &str = "ServiceBusDlqSupplementaryAuthorization";

/// The largest document of an answer.
const MAX_DOCUMENT: usize = 4 << 20;

/// What is escaped in the path of a URL.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`').add(b'{').add(b'}');

/// A request.
#[derive(Clone)]
pub(super) struct Call {
    method: Method,
    path: String,
    query: String,
    body: Bytes,
    is_update: bool,
    forward_to: Option<String>,
    forward_dead_letters_to: Option<String>,
}

impl Call {
    pub(super) fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: String::new(),
            body: Bytes::new(),
            is_update: false,
            forward_to: None,
            forward_dead_letters_to: None,
        }
    }

    pub(super) fn with_query(self, query: String) -> Self {
        Self { query, ..self }
    }

    pub(super) fn with_body(self, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(super) fn updating(self, is_update: bool) -> Self {
        Self { is_update, ..self }
    }

    /// The service checks that the client may send to these entities.
    pub(super) fn forwarding(self, to: Option<&str>, dead_letters_to: Option<&str>) -> Self {
        let owned = |path: Option<&str>| path.map(str::to_owned);
        Self { forward_to: owned(to), forward_dead_letters_to: owned(dead_letters_to), ..self }
    }
}

/// Sends a request on a connection of its own. Returns the document of the answer, if it has one.
pub(super) async fn call(core: &Arc<Core>, call: Call) -> Result<Option<Document>, Failure> {
    let timeout = core.options.timeout;
    let late = |_| Failure::new(ErrorKind::ServiceTimeout, format!("no answer within {timeout:?}"));
    tokio::time::timeout(timeout, exchange(core, call)).await.map_err(late)?
}

async fn exchange(core: &Arc<Core>, call: Call) -> Result<Option<Document>, Failure> {
    let request = request(core, &call).await?;
    let stream = connect::stream(core, &core.http_endpoint(), false).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    let serving = async move {
        // The request has the error, too.
        let _ = connection.await;
        std::future::pending::<std::convert::Infallible>().await
    };
    let answering = async {
        let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_DOCUMENT).collect().await;
        let body = body.map_err(|error| {
            Failure::new(ErrorKind::CommunicationProblem, format!("the answer was not received: {error}"))
        })?;
        Ok::<_, Failure>((status, body.to_bytes()))
    };
    let (status, body) = tokio::select! {
        answered = answering => answered?,
        never = serving => match never {},
    };
    let document = if body.is_empty() { None } else { read(&body).ok() };
    if status.is_success() {
        return match document {
            None if !body.is_empty() && call.method == Method::GET => {
                Err(Failure::new(ErrorKind::General, "the answer is not a document of the administration").for_good())
            }
            document => Ok(document),
        };
    }
    let detail = match document {
        Some(Document::Error(error)) => error.detail,
        _ => format!("the server answered with the status {}", status.as_u16()),
    };
    Err(Failure::new(kind(status, &call, &detail), detail))
}

fn broken(error: &hyper::Error) -> Failure {
    Failure::new(ErrorKind::CommunicationProblem, format!("the request failed: {error}"))
}

/// The sub-codes of the service in the text of an answer: another operation on the entity is in progress, and an operation that is
/// never valid. Otherwise the status 403 is a quota.
const IN_PROGRESS: &str = "SubCode=40901";
const INVALID_OPERATION: &str = "SubCode=40301";

fn kind(status: StatusCode, call: &Call, detail: &str) -> ErrorKind {
    // Only an entity that is to be created can exist already.
    let is_creation = call.method == Method::PUT && !call.is_update;
    match status {
        StatusCode::CONFLICT if !is_creation || detail.contains(IN_PROGRESS) => ErrorKind::ServiceBusy,
        StatusCode::FORBIDDEN if detail.contains(INVALID_OPERATION) => ErrorKind::InvalidOperation,
        StatusCode::TOO_MANY_REQUESTS => ErrorKind::ServiceBusy,
        StatusCode::GONE => ErrorKind::EntityNotFound,
        StatusCode::PRECONDITION_FAILED => ErrorKind::InvalidOperation,
        status => ErrorKind::from_status(status.as_u16()),
    }
}

async fn request(core: &Arc<Core>, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
    let invalid = |error: ::http::Error| Failure::new(ErrorKind::InvalidArgument, error.to_string());
    let endpoint = core.http_endpoint();
    let path = utf8_percent_encode(&call.path, ESCAPED);
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(format!("/{path}?api-version={API_VERSION}{}", call.query))
        .header(header::HOST, endpoint.to_string())
        .header(header::AUTHORIZATION, authorization(core, &call.path).await?);
    if call.is_update {
        request = request.header(header::IF_MATCH, "*");
    }
    for (name, path) in [(FORWARD, &call.forward_to), (FORWARD_DEAD_LETTERS, &call.forward_dead_letters_to)] {
        if let Some(path) = path {
            request = request.header(name, authorization(core, path).await?);
        }
    }
    if !call.body.is_empty() {
        request = request.header(header::CONTENT_TYPE, CONTENT_TYPE);
    }
    request.body(Full::new(call.body.clone())).map_err(invalid)
}

/// Returns the value of the header for a path, which `Debug` does not show.
async fn authorization(core: &Arc<Core>, path: &str) -> Result<::http::HeaderValue, Failure> {
    // A list is of the namespace.
    let path = EntityPath::new(path).map_or_else(|_| String::new(), |path| path.as_str().to_lowercase());
    let AccessToken { token_type, token, .. } =
        core.credential.token(&format!("https://{}/{path}", core.endpoint.host)).await?;
    let value = match token_type {
        TokenType::SharedAccessSignature => token,
        TokenType::Jwt => format!("Bearer {token}"),
    };
    let invalid = |_| Failure::new(ErrorKind::InvalidArgument, "the token cannot be a header");
    let mut value = ::http::HeaderValue::try_from(value).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: K-312.
    #[test]
    fn a_conflict_with_another_operation_passes_and_a_quota_is_no_invalid_operation() {
        let call = |method, is_update| Call::new(method, "orders").updating(is_update);
        let conflict = |call: &Call, detail| kind(StatusCode::CONFLICT, call, detail);
        assert_eq!(conflict(&call(Method::DELETE, false), ""), ErrorKind::ServiceBusy);
        assert_eq!(conflict(&call(Method::PUT, true), ""), ErrorKind::ServiceBusy);
        let create = call(Method::PUT, false);
        assert_eq!(conflict(&create, "SubCode=40900. Conflict."), ErrorKind::AlreadyExists);
        assert_eq!(conflict(&create, "SubCode=40901. Another conflicting operation"), ErrorKind::ServiceBusy);
        assert_eq!(kind(StatusCode::FORBIDDEN, &create, "SubCode=40300. Quota"), ErrorKind::QuotaExceeded);
        assert_eq!(kind(StatusCode::FORBIDDEN, &create, "SubCode=40301. Invalid"), ErrorKind::InvalidOperation);
    }
}
