//! stdin and stdout as the server's transport: it knows when an answer was written, and that stdin has closed.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, ProtocolVersion};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::{StdioReader, StdioWriter, stdio_pipes};

use super::server::Server;

/// The longest message that is read. An argument that is too long is refused by name, so the message has to be read; one
/// of 10 MB may be six times that as JSON escapes. Beyond this it is dropped unread.
const MESSAGE_BYTES_MAX: usize = 80 << 20;

/// Serves until stdin closes.
pub(super) async fn serve_stdio(server: Arc<Server>) {
    let (reader, writer) = stdio_pipes();
    let inner = AsyncRwTransport::new(reader, writer).with_max_line_length(MESSAGE_BYTES_MAX);
    let courier = Courier { inner, server: Arc::clone(&server), opened: false };
    // Both ends are the client's leaving: before it said anything, and after.
    if let Ok(running) = serve_server(server, courier).await {
        let _quit = running.waiting().await;
    }
}

struct Courier {
    inner: AsyncRwTransport<RoleServer, StdioReader, StdioWriter>,
    server: Arc<Server>,
    /// Whether a request has come that decides which generation of the protocol is spoken.
    opened: bool,
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
        let sent = self.inner.send(item);
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
            let Some(message) = self.inner.receive().await else {
                self.server.close();
                return None;
            };
            // Before that request rmcp takes anything but a request for a reason to leave.
            if self.opened || matches!(message, JsonRpcMessage::Request(_)) {
                self.opened |= opens(&message);
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
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
