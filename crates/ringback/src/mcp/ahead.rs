//! A call on its way from its line: the thread that reads begins it at once, and where that is all of it the answer goes out
//! before the general library has seen the call. What is left of any other goes on there, where it can be given up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolRequest, RequestId, ServerResult};
use rmcp::service::TxJsonRpcMessage;

use super::answer::Answer;
use super::bell::Attention;
use super::message::Rounded;
use super::server::Server;
use super::speaker::Speaker;
use super::tool::Call;
use crate::explain::Failure;

/// The tools whose calls begin with a question that the daemon mostly answers at once.
const TOOLS: [&str; 1] = ["run"];

/// How far a call has come on the thread that reads.
pub(super) enum Begun {
    /// It is answered.
    Done(Box<Answer>),
    /// This is left of it, for a thread of its own and at most so long.
    Left(Duration, Call),
}

/// A call that was begun, for this session.
pub(super) struct BegunCall {
    pub(super) session: String,
    pub(super) begun: Result<Begun, Failure>,
}

/// The same, carried with the call through the general library, to be taken once; the bell is quiet meanwhile.
#[derive(Clone)]
pub(super) struct Carried(Arc<Mutex<Option<Load>>>);

type Load = (BegunCall, Option<Attention>);

impl Carried {
    pub(super) fn take(&self) -> Option<Load> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An answer that was there at once.
pub(super) struct Ready {
    answer: Box<Answer>,
    session: String,
    attention: Option<Attention>,
}

/// Begins a call of this speaker, if it is of that kind. An answer that is there at once is given; what is left goes with the call.
pub(super) fn begin(server: &Server, call: &mut CallToolRequest, speaker: &Speaker) -> Option<Ready> {
    if !TOOLS.contains(&call.params.name.as_ref()) {
        return None;
    }
    let attention = server.attend(speaker);
    let rounded = call.extensions.get::<Rounded>().cloned();
    let BegunCall { session, begun } = server.begin(call.params.clone(), rounded, speaker);
    match begun {
        Ok(Begun::Done(answer)) => Some(Ready { answer, session, attention }),
        begun => {
            hand_on(call, BegunCall { session, begun }, attention);
            None
        }
    }
}

fn hand_on(call: &mut CallToolRequest, begun: BegunCall, attention: Option<Attention>) {
    call.extensions.insert(Carried(Arc::new(Mutex::new(Some((begun, attention))))));
}

impl Ready {
    /// The message, as an older client gets it.
    pub(super) fn message(&self, request: RequestId) -> TxJsonRpcMessage<RoleServer> {
        let mut result = self.answer.result();
        result.result_type = None;
        TxJsonRpcMessage::<RoleServer>::response(ServerResult::CallToolResult(result), request)
    }

    /// It was written.
    pub(super) fn written(self, server: &Server, speaker: &Speaker) {
        server.answered(&self.answer, speaker);
        server.told(self.answer.shown(), self.attention);
    }

    /// It could not be written at once, and goes the general way.
    pub(super) fn hand_on(self, call: &mut CallToolRequest) {
        let Self { answer, session, attention } = self;
        hand_on(call, BegunCall { session, begun: Ok(Begun::Done(answer)) }, attention);
    }
}
