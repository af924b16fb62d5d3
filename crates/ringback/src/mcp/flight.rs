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

/// One of them: until its answer has gone out, or else until all who hold this have let go of it. The request itself holds it, as
/// long as it is worked on, also for a client that has hung up.
#[derive(Clone)]
pub(super) struct Flight(Arc<Taken>);

/// An id that is taken.
struct Taken {
    all: Arc<Flights>,
    name: Mutex<Option<Name>>,
}

impl Flights {
    /// Begins one. Without a session each request is by itself.
    pub(super) fn begin(self: &Arc<Self>, headers: &HeaderMap, id: &RequestId) -> Result<Option<Flight>, Refusal> {
        let Some(session) = headers.get(SESSION_HEADER) else { return Ok(None) };
        let name = (session.as_bytes().to_vec(), id.clone());
        if !self.lock().insert(name.clone()) {
            return Err(Refusal::repeated(id));
        }
        Ok(Some(Flight(Arc::new(Taken { all: Arc::clone(self), name: Mutex::new(Some(name)) }))))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Its answer has gone out: the id may be used again, whoever still holds this.
    pub(super) fn answered(&self) {
        self.0.release();
    }
}

impl Taken {
    /// Once: by then the id may be another one's.
    fn release(&self) {
        if let Some(name) = self.name.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.all.lock().remove(&name);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.release();
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

    #[test]
    fn an_id_of_a_client_that_hung_up_is_taken_until_the_work_has_ended() {
        let all = Arc::<Flights>::default();
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_HEADER, "a".parse().unwrap());
        let begin = || all.begin(&headers, &RequestId::Number(7)).map(Option::unwrap);
        let (connection, work) = begin().map(|flight| (flight.clone(), flight)).unwrap();
        drop(connection);
        assert!(begin().is_err());
        drop(work);
        let work = begin().unwrap();
        work.answered();
        let next = begin().unwrap();
        // What ends late takes nothing from who has the id by then.
        drop(work);
        assert!(begin().is_err());
        drop(next);
        assert!(begin().is_ok());
    }
}
