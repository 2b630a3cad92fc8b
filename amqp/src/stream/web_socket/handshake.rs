use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async_with_config, client_async_with_config,
    tungstenite::{
        self,
        client::{ClientRequestBuilder, IntoClientRequest},
        handshake::server::{ErrorResponse, Request, Response, create_response_with_body},
        http::{self, HeaderMap, HeaderValue, StatusCode, Uri, header::SEC_WEBSOCKET_PROTOCOL},
        protocol::Role,
    },
};

use super::{Subprotocol, WebSocketOptions, adapter::WebSocket};
use crate::stream::{Error, ErrorKind, Stream};

/// Upgrades a client's stream.
pub(crate) async fn connect<S>(
    stream: S,
    is_tls: bool,
    host: &str,
    port: u16,
    options: &WebSocketOptions,
) -> Result<WebSocket<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let scheme = if is_tls { "wss" } else { "ws" };
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    let path = options.path.trim_start_matches('/');
    let uri: Uri =
        format!("{scheme}://{open}{host}{close}:{port}/{path}").parse().map_err(|error| failed(error, None))?;
    let request = options
        .subprotocols
        .iter()
        .fold(ClientRequestBuilder::new(uri), |request, offer| request.with_sub_protocol(offer.as_str()));
    let request = request.into_client_request().map_err(refused)?;
    let (stream, _) = client_async_with_config(request, stream, Some(options.to_config())).await.map_err(refused)?;
    Ok(WebSocket::new(stream))
}

/// Answers the upgrade of a client.
pub(crate) async fn accept<S>(stream: S, options: &WebSocketOptions) -> Result<WebSocket<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
    let answer = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        if !is_for(options, request.uri().path()) {
            return Err(refusal(StatusCode::NOT_FOUND));
        }
        let Some(subprotocol) = choose(request.headers(), &options.subprotocols) else {
            return Err(refusal(StatusCode::BAD_REQUEST));
        };
        let value = HeaderValue::from_static(subprotocol.as_str());
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, value);
        Ok(response)
    };
    let stream = accept_hdr_async_with_config(stream, answer, Some(options.to_config())).await.map_err(refused)?;
    Ok(WebSocket::new(stream))
}

impl WebSocketOptions {
    /// Answers a request to upgrade that an HTTP server has read: with the status 101 and the headers of the handshake, or with
    /// 400 or 404 if it is not a request for these options.
    ///
    /// After a response of 101 the server calls [`WebSocketOptions::upgraded`] with the stream of the connection.
    ///
    /// # Errors
    /// The response that refuses the request, without a body.
    pub fn answer<B>(&self, request: &http::Request<B>) -> Result<http::Response<()>, http::Response<()>> {
        let refuse = |status| {
            let mut response = http::Response::new(());
            *response.status_mut() = status;
            response
        };
        if !is_for(self, request.uri().path()) {
            return Err(refuse(StatusCode::NOT_FOUND));
        }
        let mut response = create_response_with_body(request, || ()).map_err(|_| refuse(StatusCode::BAD_REQUEST))?;
        let subprotocol =
            choose(request.headers(), &self.subprotocols).ok_or_else(|| refuse(StatusCode::BAD_REQUEST))?;
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol.as_str()));
        Ok(response)
    }

    /// Makes a stream of AMQP of the stream of a connection, after the response of [`WebSocketOptions::answer`] was written.
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    pub async fn upgraded<S>(&self, stream: S) -> Stream
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(self.to_config())).await;
        Stream::new(WebSocket::new(stream))
    }
}

/// The path of a server, without a query.
/// Whether a request has the path of the options. Azure.Messaging.ServiceBus (.NET) writes a slash behind it.
fn is_for(options: &WebSocketOptions, path: &str) -> bool {
    let own = options.path.split_once('?').map_or(&*options.path, |(path, _)| path);
    path.trim_end_matches('/') == own.trim_end_matches('/')
}

/// The first offer of the client that the server speaks.
fn choose(headers: &HeaderMap, spoken: &[Subprotocol]) -> Option<Subprotocol> {
    let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    offers
        .flat_map(|value| value.split(','))
        .find_map(|offer| spoken.iter().find(|subprotocol| subprotocol.as_str() == offer.trim()).copied())
}

fn refusal(status: StatusCode) -> ErrorResponse {
    let mut response = ErrorResponse::new(None);
    *response.status_mut() = status;
    response.headers_mut().insert("connection", HeaderValue::from_static("close"));
    response.headers_mut().insert("content-length", HeaderValue::from_static("0"));
    response
}

fn refused(error: tungstenite::Error) -> Error {
    match &error {
        // The answer may be long, and is the peer's.
        tungstenite::Error::Http(response) => {
            Error::without_source(ErrorKind::WebSocket { status: Some(response.status().as_u16()) })
        }
        _ => failed(error, None),
    }
}

fn failed(source: impl std::error::Error + Send + Sync + 'static, status: Option<u16>) -> Error {
    Error::new(ErrorKind::WebSocket { status }, source)
}
