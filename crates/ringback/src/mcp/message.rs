//! What comes in: a message, or a refusal in the words of JSON-RPC.
//!
//! rmcp passes over what is no JSON, and whoever sent it waits.

use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, JsonRpcRequest, RequestId,
};
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::exact;

/// What some editors put before a text (RFC 8259, 8.1: a reader may pass over it).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The longest call that is looked through before it is read.
const CALL_BYTES_MAX: usize = 64 << 10;
/// How many messages one list may have.
const LIST_MAX: usize = 1000;
/// The one argument that is given back as it was: what it loses on the way is not seen by anybody else.
const ECHOED: &str = "binding";

/// What was read: a message, nothing for a notification that cannot be understood (those are never answered), or a refusal.
pub(super) type Read = Result<Option<ClientJsonRpcMessage>, Refusal>;

/// Why a message is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    code: ErrorCode,
    message: String,
    /// That of the request, where it can be told.
    id: Value,
}

/// A number in the text of a call that was rounded when it was read.
#[derive(Clone, Debug)]
pub(super) struct Rounded(pub(super) String);

impl Refusal {
    fn invalid(message: &str) -> Self {
        Self { code: ErrorCode::INVALID_REQUEST, message: message.to_owned(), id: Value::Null }
    }

    fn not_json(error: &serde_json::Error) -> Self {
        Self { code: ErrorCode::PARSE_ERROR, message: format!("this is not JSON: {error}"), id: Value::Null }
    }

    /// A message of more than so many bytes.
    pub(super) fn too_long(most: usize) -> Self {
        Self::invalid(&format!("a message has at most {most} bytes"))
    }

    /// A request with the id of another one that is not answered yet, or was cancelled.
    pub(super) fn repeated(id: &RequestId) -> Self {
        let id = serde_json::to_value(id).unwrap_or_default();
        Self {
            id,
            ..Self::invalid(
                "a request with this id is not answered yet, or was cancelled: each has an id of its own, so this one was not taken",
            )
        }
    }

    /// A request that has to come alone.
    #[cfg(feature = "mcp-http")]
    pub(super) fn in_list(method: &str, id: &RequestId) -> Self {
        let id = serde_json::to_value(id).unwrap_or_default();
        Self { id, ..Self::invalid(&format!("{method} comes alone, in no list")) }
    }

    /// A notification that nobody understands, where even that has to be said.
    #[cfg(feature = "mcp-http")]
    pub(super) fn misunderstood() -> Self {
        Self::invalid("this notification is not known, or of another form")
    }

    /// The answer. Its id is null where there is none: so JSON-RPC 2.0 says it, whose rules hold beneath those of MCP.
    pub(super) fn answer(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code.0, "message": self.message}})
    }
}

/// Reads one message.
pub(super) fn read(text: &[u8]) -> Read {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if is_list(text) {
        count(text)?;
        return Err(Refusal::invalid("messages come one by one: only 2025-03-26 knows lists of them"));
    }
    if let Some(mut message) = read_call(text) {
        note_rounded(&mut message, text);
        return Ok(Some(message));
    }
    match serde_json::from_slice::<ClientJsonRpcMessage>(text) {
        Ok(mut message) => {
            note_rounded(&mut message, text);
            Ok(Some(message))
        }
        Err(error) if error.is_data() => {
            refuse(&serde_json::from_slice(text).map_err(|error| Refusal::not_json(&error))?)
        }
        Err(error) => Err(Refusal::not_json(&error)),
    }
}

/// A call, read as one at once: [`ClientJsonRpcMessage`] tries one kind of message after the other. What is not plainly a call
/// is left to it.
fn read_call(text: &[u8]) -> Option<ClientJsonRpcMessage> {
    let has = |word: &str| text.windows(word.len()).any(|part| part == word.as_bytes());
    // With a result or an error beside its method it is no request.
    if text.len() > CALL_BYTES_MAX || !has("\"tools/call\"") || has("\"result\"") || has("\"error\"") {
        return None;
    }
    let JsonRpcRequest { jsonrpc, id, request } =
        serde_json::from_slice::<JsonRpcRequest<CallToolRequest>>(text).ok()?;
    Some(JsonRpcMessage::Request(JsonRpcRequest { jsonrpc, id, request: ClientRequest::CallToolRequest(request) }))
}

/// Whether the text is a list, whatever stands in it.
pub(super) fn is_list(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Whether a text is a list that can be answered message by message.
pub(super) fn check_list(text: &[u8]) -> Result<(), Refusal> {
    match count(text)? {
        0 => Err(Refusal::invalid("the list of messages is empty")),
        LIST_MAX.. => Err(Refusal::invalid(&format!("a list has less than {LIST_MAX} messages"))),
        _ => Ok(()),
    }
}

/// Reads a list of messages, as 2025-03-26 had it.
pub(super) fn read_list(text: &[u8]) -> Vec<Read> {
    let read = || serde_json::from_slice::<Vec<Value>>(text).map_err(|error| Refusal::not_json(&error));
    let values = match check_list(text).and_then(|()| read()) {
        Ok(values) => values,
        Err(refusal) => return vec![Err(refusal)],
    };
    let message = |value: Value| match ClientJsonRpcMessage::deserialize(&value) {
        Ok(mut message) => {
            note_rounded(&mut message, text);
            Ok(Some(message))
        }
        Err(_) => refuse(&value),
    };
    values.into_iter().map(message).collect()
}

/// How many elements a list has; it takes no memory, whatever they are.
fn count(text: &[u8]) -> Result<usize, Refusal> {
    serde_json::from_slice::<Vec<IgnoredAny>>(text).map(|list| list.len()).map_err(|error| Refusal::not_json(&error))
}

/// What is JSON, but no message.
fn refuse(value: &Value) -> Read {
    let (method, id) = (value.get("method"), value.get("id"));
    if id.is_none() && method.is_some_and(Value::is_string) {
        return Ok(None);
    }
    let is_id = |id: &&Value| id.is_string() || id.is_i64();
    let message = if id.is_some_and(|id| !is_id(&id)) {
        "the id of a request is a string, or a whole number from -2^63 to 2^63 - 1"
    } else {
        "this is no request, notification or response of JSON-RPC 2.0"
    };
    // What has no method may be an answer to something else, which has the same id.
    let id = id.filter(is_id).filter(|_| method.is_some()).cloned().unwrap_or_default();
    Err(Refusal { id, ..Refusal::invalid(message) })
}

fn note_rounded(message: &mut ClientJsonRpcMessage, text: &[u8]) {
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &mut request.request
        && call.params.arguments.as_ref().is_some_and(|arguments| arguments.contains_key(ECHOED))
        && let Some(number) = exact::rounded(text)
    {
        call.extensions.insert(Rounded(number.to_owned()));
    }
}

/// What [`read`] has noted of a message that is read once more.
#[cfg(feature = "mcp-http")]
pub(super) fn noted(message: &ClientJsonRpcMessage) -> Option<Rounded> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    call.extensions.get::<Rounded>().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> (i64, Value) {
        let answer = read(text).unwrap_err().answer();
        assert!(answer["error"]["message"].as_str().unwrap().len() < 200, "{answer}");
        (answer["error"]["code"].as_i64().unwrap(), answer["id"].clone())
    }

    #[test]
    fn what_is_no_json_and_what_is_no_message_are_told_apart() {
        let deep = "[".repeat(100_000);
        for garbage in [
            "not json",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"meth",
            "{\"id\":1}}",
            "[1,",
            "{\"id\":1,\"method\":\"ping\\ud800\"}",
            "\u{feff}",
            "{\"id\":1e400,\"method\":\"ping\"}",
            deep.as_str(),
        ] {
            assert_eq!(refused(garbage.as_bytes()), (-32700, Value::Null), "{garbage:.60}");
        }
        assert_eq!(refused(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"), (-32700, Value::Null));
        for wrong in [
            "5",
            "null",
            "\"ping\"",
            "{}",
            "{\"foo\":1}",
            "[]",
            "[1,2]",
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
        ] {
            assert_eq!(refused(wrong.as_bytes()), (-32600, Value::Null), "{wrong}");
        }
        for id in ["1.5", "null", "true", "{}", "99999999999999999999999"] {
            let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
            assert_eq!(refused(request.as_bytes()), (-32600, Value::Null), "{id}");
        }
        assert_eq!(refused(b"{\"id\":7,\"method\":\"ping\"}"), (-32600, json!(7)));
        assert_eq!(refused(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":5}"), (-32600, json!("a")));
        assert_eq!(refused(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{},\"error\":{}}"), (-32600, Value::Null));
    }

    #[test]
    fn a_message_is_read_and_a_notification_never_answered() {
        for good in [
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n",
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"no/such\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"as we would say it\"}}",
        ] {
            assert!(read(good.as_bytes()).unwrap().is_some(), "{good}");
        }
        assert!(read(b"{\"method\":\"notifications/of another kind\",\"params\":5}").unwrap().is_none());
    }

    #[test]
    fn a_call_that_is_read_at_once_is_the_same_message() {
        let call = |rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\"{rest}}}");
        for rest in [
            ",\"params\":{\"name\":\"run\",\"arguments\":{\"command\":\"true\"},\"_meta\":{\"progressToken\":1}}",
            ",\"params\":{\"name\":\"list\"}",
            ",\"other\":[],\"params\":{\"name\":\"list\",\"more\":1}",
        ] {
            let text = call(rest);
            let at_once = read_call(text.as_bytes()).unwrap();
            let usual = serde_json::from_str::<ClientJsonRpcMessage>(&text).unwrap();
            assert_eq!(format!("{at_once:?}"), format!("{usual:?}"));
        }
        let id = "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tools/call\",\"params\":{\"name\":\"list\"}}".to_owned();
        for other in [
            call(""),
            call(",\"params\":{\"name\":5}"),
            call(",\"params\":{\"name\":\"list\"},\"result\":{}"),
            call(",\"params\":{\"name\":\"list\"},\"error\":{\"code\":1,\"message\":\"m\"}"),
            id,
        ] {
            assert!(read_call(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_list_is_read_message_by_message() {
        let list =
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},5,{\"method\":\"x\"},{\"id\":2,\"method\":\"ping\"}]";
        let read = read_list(list);
        assert!(matches!(&read[0], Ok(Some(JsonRpcMessage::Request(_)))));
        assert_eq!(read[1].as_ref().unwrap_err().answer()["id"], Value::Null);
        assert!(matches!(&read[2], Ok(None)));
        assert_eq!(read[3].as_ref().unwrap_err().answer()["id"], 2);
        let many = format!("[{}1]", "1,".repeat(LIST_MAX));
        for wrong in ["[]", "[1,", &many] {
            assert!(matches!(&read_list(wrong.as_bytes())[..], [Err(_)]), "{wrong:.20}");
        }
    }

    #[test]
    fn a_number_that_is_rounded_is_noted_where_it_is_given_back() {
        let noted = |arguments: &str| {
            let params = format!("{{\"name\":\"run\",\"arguments\":{arguments}}}");
            let call = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}");
            noted(&read(call.as_bytes()).unwrap().unwrap()).map(|rounded| rounded.0)
        };
        assert_eq!(noted("{\"binding\":[123456789012345678901]}").as_deref(), Some("123456789012345678901"));
        assert_eq!(noted("{\"binding\":{\"a\":1}}"), None);
        assert_eq!(noted("{\"wait_ms\":123456789012345678901}"), None, "that is refused by its own name");
    }
}
