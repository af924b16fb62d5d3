//! Lists of messages over HTTP, as the one version has them that knows lists (2025-03-26, "Sending Messages to the Server").

use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::flight::{Flight, Flights};
use super::http::{Answered, Service};
use super::message::{self, Read, Refusal};

/// The header in which every later version names itself.
const VERSION_HEADER: &str = "mcp-protocol-version";
/// The version.
const VERSION: &[u8] = b"2025-03-26";

/// Whether a request with these headers may be a list: of that version, or of none that is named, which is taken for it.
pub(super) fn knows_lists(headers: &HeaderMap) -> bool {
    headers.get(VERSION_HEADER).is_none_or(|version| version.as_bytes() == VERSION)
}

/// Answers all messages of a list with one list, at once as far as they are requests; with nothing where none is one.
pub(super) async fn answer(
    service: &Service,
    flights: &Arc<Flights>,
    parts: &Parts,
    list: Vec<Read>,
) -> Response<Answered> {
    let mut answers = Vec::new();
    let mut asked: Vec<(JoinHandle<Response<Answered>>, Option<Flight>)> = Vec::new();
    for read in list {
        match read.and_then(without_handshake) {
            Err(refusal) => answers.push(refusal.answer()),
            Ok(None) => {}
            Ok(Some(message)) => {
                let flight = match &message {
                    JsonRpcMessage::Request(request) => flights.begin(&parts.headers, &request.id),
                    _ => Ok(None),
                };
                let flight = match flight {
                    Ok(flight) => flight,
                    Err(refusal) => {
                        answers.push(refusal.answer());
                        continue;
                    }
                };
                let body = Full::new(Bytes::from(serde_json::to_vec(&message).unwrap_or_default()));
                let (service, mut request) = (service.clone(), Request::from_parts(parts.clone(), body));
                request.extensions_mut().insert(flight.clone());
                if let Some(rounded) = message::noted(&message) {
                    request.extensions_mut().insert(rounded);
                }
                let answered = tokio::spawn(async move { service.handle(request).await });
                if matches!(message, JsonRpcMessage::Request(_)) {
                    asked.push((answered, flight));
                } else if let Ok(refused) = answered.await
                    && !refused.status().is_success()
                {
                    return refused;
                }
            }
        }
    }
    for (answered, flight) in asked {
        let Ok(response) = answered.await else { continue };
        if !response.status().is_success() {
            // The list as a whole is not served: its session is not there, for example.
            return response;
        }
        let Ok(body) = response.into_body().collect().await;
        if let Some(flight) = flight {
            flight.answered();
        }
        answers.extend(answer_in(&body.to_bytes()));
    }
    whole(&answers)
}

/// A handshake comes alone: the answer has the session in its head.
fn without_handshake(message: Option<ClientJsonRpcMessage>) -> Read {
    match &message {
        Some(JsonRpcMessage::Request(request)) if matches!(request.request, ClientRequest::InitializeRequest(_)) => {
            Err(Refusal::in_list("initialize", &request.id))
        }
        _ => Ok(message),
    }
}

/// The answer among what was sent for one request, as events or as a document.
fn answer_in(body: &[u8]) -> Option<Value> {
    let lines = body.split(|byte| *byte == b'\n').map(|line| line.strip_prefix(b"data:").unwrap_or(line));
    let mut messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line.trim_ascii()).ok());
    messages.find(|message| message.get("method").is_none() && message.get("id").is_some())
}

fn whole(answers: &[Value]) -> Response<Answered> {
    let body = if answers.is_empty() { Bytes::new() } else { Bytes::from(Value::from(answers).to_string()) };
    let mut response = Response::new(Full::new(body).boxed());
    if answers.is_empty() {
        *response.status_mut() = StatusCode::ACCEPTED;
    } else {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_know_no_lists() {
        let with = |version: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(VERSION_HEADER, HeaderValue::from_static(version));
            knows_lists(&headers)
        };
        assert!(knows_lists(&HeaderMap::new()) && with("2025-03-26"));
        assert!(!with("2025-06-18") && !with("2026-07-28"));
    }

    #[test]
    fn the_answer_is_found_among_events() {
        let events =
            b"id: 0\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n\
            data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n\n";
        assert_eq!(answer_in(events).unwrap()["id"], 3);
        assert_eq!(answer_in(b"{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{}}").unwrap()["id"], 4);
        assert_eq!(answer_in(b""), None);
    }
}
