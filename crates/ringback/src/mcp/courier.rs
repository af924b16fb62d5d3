//! stdin and stdout as the server's transport: it answers what cannot be read, and knows when an answer was written and that
//! stdin has closed.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, InitializeRequestParams, JsonRpcMessage,
    ProtocolVersion, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::task::yield_now;

use super::ahead;
use super::message::{self, Read, Refusal};
use super::server::Server;
use super::speaker::Speaker;
use super::stdio::{self, Input, Output};

/// The longest message that is read. An argument that is too long is refused by name, so the message has to be read; one
/// of 10 MB may be six times that as JSON escapes. What is longer is passed over, and that is said.
const MESSAGE_BYTES_MAX: usize = 80 << 20;
/// How much room is kept from one line to the next.
const ROOM_BYTES: usize = 64 << 10;
/// Of so many cancelled requests the ids are not taken again: what rmcp makes of their cancellation, moments later, it would take
/// for the answer of who has their id by then.
const CANCELLED_MAX: usize = 1024;

/// Serves until stdin closes.
pub(super) async fn serve_stdio(server: Arc<Server>) {
    let (reader, writer) = stdio::open();
    let courier = Courier {
        lines: Lines { reader: BufReader::new(reader), line: Vec::new(), is_too_long: false },
        out: Out(Arc::new(Mutex::new(writer))),
        server: Arc::clone(&server),
        read: VecDeque::new(),
        refusing: None,
        unanswered: HashSet::new(),
        cancelled: VecDeque::new(),
        opened: false,
        client: None,
        knows_lists: false,
    };
    // Both ends are the client's leaving: before it said anything, and after.
    if let Ok(running) = serve_server(server, courier).await {
        let _quit = running.waiting().await;
    }
}

struct Courier {
    lines: Lines,
    out: Out,
    server: Arc<Server>,
    /// What one line held and nobody has taken.
    read: VecDeque<Read>,
    /// A refusal on its way out: rmcp may give up receiving at any time and asks again.
    refusing: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
    /// Requests that rmcp has taken and not answered.
    unanswered: HashSet<RequestId>,
    /// Those of them that were cancelled: as a rule they are never answered.
    cancelled: VecDeque<RequestId>,
    /// Whether a request has come that decides which generation of the protocol is spoken.
    opened: bool,
    /// What the client calls itself, where that was the older handshake.
    client: Option<String>,
    /// Whether the handshake was that of the one version that has lists of messages.
    knows_lists: bool,
}

impl Courier {
    /// The next message that is one; what is none has been answered by then.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(refusing) = &mut self.refusing {
                // Who does not read has no use for it; what he sends counts all the same.
                let _unread = refusing.as_mut().await;
                self.refusing = None;
            }
            match self.read.pop_front() {
                Some(Ok(Some(message))) => return Some(message),
                Some(Ok(None)) => {}
                Some(Err(refusal)) => {
                    self.refusing = Some(Box::pin(self.out.write(serde_json::to_vec(&refusal.answer()))));
                }
                None => {
                    let line = self.lines.next().await?;
                    self.read.extend(read(line, self.knows_lists));
                    self.lines.clear();
                }
            }
        }
    }

    /// Why a request is not taken whose id is that of another one, which is not answered yet: rmcp would answer one of them.
    fn refused(&self, message: &ClientJsonRpcMessage) -> Option<Refusal> {
        let JsonRpcMessage::Request(request) = message else { return None };
        self.unanswered.contains(&request.id).then(|| Refusal::repeated(&request.id))
    }

    /// Keeps in mind which requests rmcp owes an answer once it has this message.
    fn note(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.unanswered.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    fn cancel(&mut self, id: &RequestId) {
        if self.unanswered.contains(id) && !self.cancelled.contains(id) {
            self.cancelled.push_back(id.clone());
        }
        if self.cancelled.len() > CANCELLED_MAX
            && let Some(oldest) = self.cancelled.pop_front()
        {
            self.unanswered.remove(&oldest);
        }
    }

    /// Its id may be used again.
    fn release_id(&mut self, id: &RequestId) {
        self.unanswered.remove(id);
        self.cancelled.retain(|cancelled| cancelled != id);
    }

    /// Begins a call; true if it was answered. Between the handshake and its answer no call is read: rmcp asks for the next message
    /// when it has written that.
    fn answer_at_once(&self, message: &mut ClientJsonRpcMessage) -> bool {
        let (Some(client), JsonRpcMessage::Request(request)) = (&self.client, message) else { return false };
        let Some(speaker) = Speaker::of_process(client, request.request.get_meta()) else { return false };
        let ClientRequest::CallToolRequest(call) = &mut request.request else { return false };
        let Some(done) = ahead::begin(&self.server, call, &speaker) else { return false };
        let is_written = self.out.write_at_once(serde_json::to_vec(&done.message(request.id.clone())));
        if is_written {
            done.written(&self.server, &speaker);
        } else {
            done.hand_on(call);
        }
        is_written
    }
}

impl Transport<RoleServer> for Courier {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        // Before it is written: who has the answer may use the id again.
        match &item {
            JsonRpcMessage::Response(response) => self.release_id(&response.id),
            JsonRpcMessage::Error(error) => error.id.iter().for_each(|id| self.release_id(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        let sent = self.out.write(serde_json::to_vec(&item));
        let server = Arc::clone(&self.server);
        async move {
            sent.await?;
            if let Some(request) = answered {
                server.written(&request);
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(mut message) = self.next().await else {
                self.server.reach.close();
                return None;
            };
            if let Some(refusal) = self.refused(&message) {
                self.read.push_front(Err(refusal));
                continue;
            }
            if let Some(hello) = handshake(&message) {
                self.knows_lists = hello.protocol_version == ProtocolVersion::V_2025_03_26;
                if !self.opened || self.client.is_some() {
                    self.client = Some(hello.client_info.name.clone());
                }
            } else if self.answer_at_once(&mut message) {
                // Whoever sends call after call leaves room for the others.
                yield_now().await;
                continue;
            }
            // Before that request rmcp takes anything but a request for a reason to leave.
            if self.opened || matches!(message, JsonRpcMessage::Request(_)) {
                self.opened |= opens(&message);
                self.note(&message);
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// stdout, one message at a time.
struct Out(Arc<Mutex<Output>>);

impl Out {
    /// Writes a message if nothing else is being written and there is room for all of it.
    fn write_at_once(&self, message: serde_json::Result<Vec<u8>>) -> bool {
        let (Ok(mut line), Ok(writer)) = (message, self.0.try_lock()) else { return false };
        line.push(b'\n');
        writer.write_at_once(&line)
    }

    fn write(&self, message: serde_json::Result<Vec<u8>>) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let writer = Arc::clone(&self.0);
        async move {
            let mut line = message?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }
}

/// stdin, line by line.
struct Lines {
    reader: BufReader<Input>,
    /// What has been read of the line so far: it stays here when somebody gives up waiting for the rest.
    line: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// The next line, also one that ends with stdin instead of a newline; nothing behind the last.
    async fn next(&mut self) -> Option<Result<&[u8], Refusal>> {
        loop {
            // What cannot be read any more has ended.
            let piece = self.reader.fill_buf().await.unwrap_or_default();
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            let is_over = end.is_some() || piece.is_empty();
            self.is_too_long |= self.line.len() + taken > MESSAGE_BYTES_MAX;
            if self.is_too_long {
                self.clear();
            } else {
                self.line.extend_from_slice(&piece[..taken]);
            }
            self.reader.consume(taken);
            if !is_over {
                continue;
            }
            if std::mem::take(&mut self.is_too_long) {
                return Some(Err(Refusal::too_long(MESSAGE_BYTES_MAX)));
            }
            return (taken > 0 || !self.line.is_empty()).then_some(Ok(&self.line));
        }
    }

    /// Makes room for the next line.
    fn clear(&mut self) {
        self.line.clear();
        self.line.shrink_to(ROOM_BYTES);
    }
}

/// What a line holds: nothing, a message, or several.
fn read(line: Result<&[u8], Refusal>, knows_lists: bool) -> Vec<Read> {
    match line {
        Ok(line) if line.trim_ascii().is_empty() => Vec::new(),
        Ok(line) if knows_lists && message::is_list(line) => message::read_list(line),
        Ok(line) => vec![message::read(line)],
        Err(refusal) => vec![Err(refusal)],
    }
}

/// What the older handshake says.
fn handshake(message: &ClientJsonRpcMessage) -> Option<&InitializeRequestParams> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::InitializeRequest(hello) = &request.request else { return None };
    Some(&hello.params)
}

/// Whether rmcp leaves its opening phase on this message: on the old handshake, or on a request that says all it must.
fn opens(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let known = |version: &ProtocolVersion| ProtocolVersion::KNOWN_VERSIONS.contains(version);
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().as_ref().is_some_and(known)
        }
    }
}
