//! A browser without a screen: it keeps its cookie, and sends forms with the token of the page.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
};
use consign_broker::{Broker, Queue};
use consign_core::{
    Message,
    administration::QueueSettings,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ReceiverExt, Sender},
};
use consign_server::page::Page;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tower::ServiceExt;

pub(crate) const HOST: &str = "127.0.0.1:8080";

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn location(&self) -> String {
        self.headers[header::LOCATION].to_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn has(&self, text: &str) {
        assert!(self.text().contains(text), "{text} is not in {}", self.text());
    }

    #[track_caller]
    pub(crate) fn has_not(&self, text: &str) {
        assert!(!self.text().contains(text), "{text} is in {}", self.text());
    }

    /// The token of the forms.
    pub(crate) fn csrf(&self) -> Option<String> {
        let (_, rest) = self.text().split_once("name=\"csrf\" value=\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    }
}

pub(crate) struct Browser {
    router: Router,
    cookie: Option<String>,
}

impl Browser {
    pub(crate) fn new(page: &Page) -> Self {
        Self { router: page.router(), cookie: None }
    }

    pub(crate) async fn get(&mut self, address: &str) -> Answer {
        self.send(Method::GET, address, &[(header::HOST.as_str(), HOST)], String::new()).await
    }

    /// Sends a form with the token of another page.
    pub(crate) async fn post(&mut self, address: &str, token: &str, fields: &[(&str, &str)]) -> Answer {
        let field = |(name, value): &(&str, &str)| format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
        let form = format!("csrf={token}{}", fields.iter().map(field).collect::<String>());
        let media_type = "application/x-www-form-urlencoded";
        let headers = [(header::HOST.as_str(), HOST), (header::CONTENT_TYPE.as_str(), media_type)];
        self.send(Method::POST, address, &headers, form).await
    }

    /// Opens a page, and sends the form of another address with its token.
    pub(crate) async fn submit(&mut self, from: &str, address: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.get(from).await.csrf().unwrap();
        self.post(address, &token, fields).await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        address: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(address);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_str(value).unwrap());
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        if let Some(cookie) = parts.headers.get(header::SET_COOKIE) {
            self.cookie = Some(cookie.to_str().unwrap().split(';').next().unwrap().to_owned());
        }
        let body = to_bytes(body, 16 << 20).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

pub(crate) fn queue(broker: &Broker) -> Queue {
    broker.create_queue("orders", QueueSettings::default()).unwrap()
}

/// Dead-letters messages with these reasons and descriptions.
pub(crate) async fn bury(queue: &Queue, letters: impl IntoIterator<Item = (&'static str, String, Message)>) {
    let (sender, mut receiver) = (queue.sender().unwrap(), queue.receiver());
    for (reason, description, message) in letters {
        sender.send(message).await.unwrap();
        let dead = DeadLetter::new(DeadLetterReason::Application(reason.into()), description);
        receiver.receive().await.unwrap().dead_letter(dead).await.unwrap();
    }
}
