//! Requests over HTTP that are not answered yet: of two in one session with one id, rmcp would answer one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::HeaderMap;
use rmcp::model::RequestId;

use super::message::Refusal;

/// The header in which a client names its session.
const SESSION_HEADER: &str = "mcp-session-id";

/// Which ones there are, by session and id. No more than connections, and messages in a list.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashSet<Name>>);

type Name = (Vec<u8>, RequestId);

/// One of them, until its answer has gone out or nobody waits for that any more.
pub(super) struct Flight {
    all: Arc<Flights>,
    name: Name,
}

impl Flights {
    /// Begins one. Without a session each request is by itself.
    pub(super) fn begin(self: &Arc<Self>, headers: &HeaderMap, id: &RequestId) -> Result<Option<Flight>, Refusal> {
        let Some(session) = headers.get(SESSION_HEADER) else { return Ok(None) };
        let name = (session.as_bytes().to_vec(), id.clone());
        if !self.lock().insert(name.clone()) {
            return Err(Refusal::repeated(id));
        }
        Ok(Some(Flight { all: Arc::clone(self), name }))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_in_its_session_until_it_is_answered() {
        let all = Arc::<Flights>::default();
        let of = |session: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(SESSION_HEADER, session.parse().unwrap());
            headers
        };
        let (one, id) = (of("a"), RequestId::Number(7));
        let first = all.begin(&one, &id).unwrap();
        assert!(all.begin(&one, &id).is_err());
        assert!(all.begin(&of("b"), &id).is_ok() && all.begin(&one, &RequestId::String("7".into())).is_ok());
        assert!(all.begin(&HeaderMap::new(), &id).unwrap().is_none());
        drop(first);
        assert!(all.begin(&one, &id).is_ok() && all.lock().is_empty());
    }
}
