//! The same server over HTTP: on loopback only, for whoever has the token, for no web page, and for nobody in a sandbox.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::future::ready;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ringback_host::home::Home;
use ringback_host::wire::refusal::RESOURCES;
use ringback_sys::socket;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use super::batch;
use super::flight::{Flight, Flights};
use super::heard::Exchange;
use super::message::{self, Refusal};
use super::peer::{Measure, Peer};
use super::server::Server;
use crate::explain::Failure;

/// The one path.
const PATH: &str = "/mcp";
/// The token's file in the home.
const TOKEN_FILE: &str = "mcp.token";
/// How many random numbers of 64 bits the token is made of.
const TOKEN_WORDS: usize = 4;
/// How many connections there may be at once; agents on one machine keep a few each.
const CONNECTIONS_MAX: usize = 256;
/// The longest request body: an argument that is too long is to be refused by name, so it has to be read.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long a client may take to say what it wants.
const HEADERS_WAIT: Duration = Duration::from_secs(10);
/// When there is no descriptor to accept anybody with, and none of our connections ends, it is tried again after this long:
/// that others give theirs back is told to nobody.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) type Service = StreamableHttpService<Arc<Server>, LocalSessionManager>;
pub(super) type Answered = BoxBody<Bytes, Infallible>;

/// An address to listen at, and who may come in.
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    measure: Measure,
    token: String,
    token_path: PathBuf,
}

impl Door {
    /// Listens at `address`: `PORT`, `127.0.0.1:PORT` or `[::1]:PORT`.
    pub(super) async fn open(address: &str) -> Result<Self, Failure> {
        let wanted = loopback(address)?;
        let measure = Measure::take()?;
        let home = Home::find()?;
        home.prepare()?;
        let token_path = home.root().join(TOKEN_FILE);
        let token = token(&token_path)?;
        let listener = TcpListener::bind(wanted).await.map_err(|error| {
            Failure::of("http", &error, Some("is another program at that port? port 0 takes a free one".to_owned()))
        })?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, measure, token, token_path })
    }

    /// Where clients connect.
    pub(super) fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Where the token is.
    pub(super) fn token_path(&self) -> &Path {
        &self.token_path
    }

    /// Serves for ever.
    pub(super) async fn serve(self, server: Arc<Server>) -> Failure {
        let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(BODY_BYTES_MAX);
        let factory = Arc::clone(&server);
        let service = Service::new(move || Ok(Arc::new(factory.for_connection())), Arc::default(), config);
        let gate =
            Arc::new(Gate { service, server, measure: self.measure, token: self.token, flights: Arc::default() });
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let left = Arc::new(Notify::new());
        let mut spare = open_spare();
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return Failure::new("http", "the server has closed", None);
            };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                // It broke before it was taken (accept(2)); others may still come.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if socket::is_shortage(&error) => {
                    if spare.take().is_none() || !turn_away_one(&self.listener).await {
                        // One that has left means that there is a descriptor.
                        let _either = timeout(ACCEPT_PAUSE, left.notified()).await;
                    }
                    spare = open_spare();
                    continue;
                }
                Err(error) => return Failure::of("http", &error, None),
            };
            // Without a descriptor left for the look, nobody is served unseen.
            let Ok(peer) = Peer::new(&stream) else {
                turn_away(stream);
                continue;
            };
            let (gate, left) = (Arc::clone(&gate), Arc::clone(&left));
            tokio::spawn(async move {
                gate.serve(stream, Arc::new(peer)).await;
                drop(place);
                left.notify_one();
            });
        }
    }
}

/// A descriptor that can be given up to answer a client for whom there is none.
fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Answers whoever is waiting, with the descriptor that was kept back for that; whether there was one.
async fn turn_away_one(listener: &TcpListener) -> bool {
    tokio::select! {
        biased;
        accepted = listener.accept() => accepted.map(|(stream, _)| turn_away(stream)).is_ok(),
        // Who has left meanwhile is not waited for.
        () = ready(()) => false,
    }
}

/// Says that there is no place, and hangs up. An answer of some hundred bytes fits into any socket.
fn turn_away(stream: TcpStream) {
    let hint = "close connections that are not used, or start the server with a higher `ulimit -n`; tasks run on";
    let why = Failure::new("too_many_clients", "this server may open no more files", Some(hint.to_owned()));
    let body = why.json().to_string();
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close";
    let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    if let Ok(mut stream) = stream.into_std() {
        // A client that has left needs no answer.
        let _unread = stream.write(answer.as_bytes()).and_then(|_| stream.shutdown(Shutdown::Write));
    }
}

/// What every request passes before anything looks at what it wants.
struct Gate {
    service: Service,
    server: Arc<Server>,
    measure: Measure,
    token: String,
    flights: Arc<Flights>,
}

impl Gate {
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: Arc<Peer>) {
        let answer = service_fn(|request| {
            let (gate, peer) = (Arc::clone(&self), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(gate.answer(request, &peer).await) }
        });
        let mut builder = http1::Builder::new();
        let serving = builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WAIT);
        // A client that breaks off has its reasons.
        let _broken = serving.serve_connection(TokioIo::new(stream), answer).await;
    }

    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Watched> {
        let exchange = Arc::new(Exchange::new(Arc::clone(&self.server.reach.link)));
        let mut flight = None;
        let response = if let Some((status, why)) = self.refuse(&request) {
            refusal(status, why)
        } else if let Some(why) = self.measure.refusal(peer).await {
            confined(why)
        } else if request.uri().path() != PATH {
            refusal(StatusCode::NOT_FOUND, "the path is /mcp")
        } else {
            match read(request).await {
                Ok(Posted::One(mut request, id)) => {
                    request.extensions_mut().insert(Arc::clone(&exchange));
                    match id.map_or(Ok(None), |id| self.flights.begin(request.headers(), &id)) {
                        Ok(begun) => {
                            request.extensions_mut().insert(begun.clone());
                            flight = begun;
                            self.service.handle(request).await
                        }
                        Err(why) => no_message(StatusCode::BAD_REQUEST, &why),
                    }
                }
                Ok(Posted::List(mut parts, list)) => {
                    parts.extensions.insert(Arc::clone(&exchange));
                    batch::answer(&self.service, &self.flights, &parts, list).await
                }
                Err(response) => response,
            }
        };
        response.map(|inner| Watched { inner, exchange, flight })
    }

    /// A web page can send requests to loopback, but it cannot forge these headers (DNS rebinding: the page's own name stands
    /// in `Host`). They come first, so that a page learns nothing, not even which paths there are.
    fn refuse(&self, request: &Request<Incoming>) -> Option<(StatusCode, &'static str)> {
        let headers = request.headers();
        if !is_loopback_host(headers) {
            return Some((StatusCode::FORBIDDEN, "the Host is not this machine"));
        }
        if !has_own_origin(headers) {
            return Some((StatusCode::FORBIDDEN, "requests of web pages are not served"));
        }
        let why = "send `Authorization: Bearer TOKEN`; the token is in the home, in mcp.token";
        (!self.has_token(headers)).then_some((StatusCode::UNAUTHORIZED, why))
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) else { return false };
        let Some((scheme, given)) = given.split_at_checked("Bearer ".len()) else { return false };
        // Every byte is compared, so that the time tells nothing about how many are right.
        let differs = given.iter().zip(self.token.as_bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
        scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == self.token.len() && differs == 0
    }
}

/// An answer on its way: when it has gone out, what it shows may have been heard.
struct Watched {
    inner: Answered,
    exchange: Arc<Exchange>,
    flight: Option<Flight>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        // hyper asks for the next piece when it has taken the one before, and not at all after the end.
        if matches!(polled, Poll::Ready(None)) || (polled.is_ready() && self.inner.is_end_stream()) {
            self.exchange.written();
            // Before the end is written: who has the answer may use its id again.
            if let Some(flight) = self.flight.take() {
                flight.answered();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What has been posted.
enum Posted {
    /// One message, with the id if it asks for something; or a request without one.
    One(Request<Full<Bytes>>, Option<RequestId>),
    /// Several.
    List(Parts, Vec<message::Read>),
}

/// The request with its body, if that is a message, or a list where there may be one. (rmcp answers what is none in words of its
/// own.)
async fn read(request: Request<Incoming>) -> Result<Posted, Response<Answered>> {
    let (mut parts, body) = request.into_parts();
    let mut id = None;
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(no_message(StatusCode::PAYLOAD_TOO_LARGE, &Refusal::too_long(BODY_BYTES_MAX)));
        }
        Err(_) => return Err(refusal(StatusCode::BAD_REQUEST, "the body broke off")),
    };
    let is_json = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(b"application/json");
    if parts.method == Method::POST && parts.headers.get(CONTENT_TYPE).is_some_and(is_json) {
        if message::is_list(&body) && batch::knows_lists(&parts.headers) {
            return match message::check_list(&body) {
                Ok(()) => Ok(Posted::List(parts, message::read_list(&body))),
                Err(why) => Err(no_message(StatusCode::BAD_REQUEST, &why)),
            };
        }
        let read = message::read(&body).and_then(|read| read.ok_or_else(Refusal::misunderstood));
        let message = read.map_err(|why| no_message(StatusCode::BAD_REQUEST, &why))?;
        if let Some(rounded) = message::noted(&message) {
            parts.extensions.insert(rounded);
        }
        if let JsonRpcMessage::Request(request) = message {
            id = Some(request.id);
        }
    }
    Ok(Posted::One(Request::from_parts(parts, Full::new(body)), id))
}

/// A refusal in the words of JSON-RPC.
fn no_message(status: StatusCode, why: &Refusal) -> Response<Answered> {
    let mut response = Response::new(Full::new(Bytes::from(why.answer().to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Answered> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

/// Says why in the form of every failure, and hangs up: the next connection is looked at afresh.
fn confined(why: &Failure) -> Response<Answered> {
    let mut response = Response::new(Full::new(Bytes::from(why.json().to_string())).boxed());
    *response.status_mut() =
        if why.code == RESOURCES { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::FORBIDDEN };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn is_loopback_host(headers: &HeaderMap) -> bool {
    headers.get(HOST).and_then(|value| value.to_str().ok()).is_some_and(is_loopback_authority)
}

/// Programs send no `Origin`; a page of this machine is let through to the question for the token.
fn has_own_origin(headers: &HeaderMap) -> bool {
    headers.get_all(ORIGIN).iter().all(|value| {
        let origin = value.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(is_loopback_authority)
    })
}

/// `NAME` or `NAME:PORT`, where the name is loopback's.
fn is_loopback_authority(authority: &str) -> bool {
    let (name, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(rest)),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let is_port = port.is_empty() || port.parse::<u16>().is_ok();
    is_port && (name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()))
}

fn loopback(address: &str) -> Result<SocketAddr, Failure> {
    let hint = "for example --http 127.0.0.1:7777, or --http 0 for a free port";
    let parsed = match address.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => address.replace("localhost", "127.0.0.1").parse().map_err(|_| {
            Failure::usage(format!("`{}` is not an address", crate::render::clean::short(address, 60)), hint)
        })?,
    };
    if parsed.ip().is_loopback() {
        Ok(parsed)
    } else {
        Err(Failure::usage("only loopback is served: whoever may connect may run commands as you", hint))
    }
}

/// The token of this home, made at the first time.
fn token(path: &Path) -> Result<String, Failure> {
    let failed =
        |error: io::Error| Failure::of("http", &error, Some(format!("{} must be yours to write", path.display())));
    let mut fresh = String::new();
    for _ in 0..TOKEN_WORDS {
        // Writing to a string does not fail.
        let _infallible = write!(fresh, "{:016x}", ringback_sys::process::random_u64().map_err(failed)?);
    }
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(fresh.as_bytes()).map_err(failed)?;
            Ok(fresh)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let kept = fs::read_to_string(path).map_err(failed)?.trim().to_owned();
            if kept.len() == fresh.len() {
                return Ok(kept);
            }
            let hint = format!("delete {} to have a new one made", path.display());
            Err(Failure::new("http", "the token file holds no token", Some(hint)))
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_loopback_is_listened_at() {
        for good in ["7777", "0", "127.0.0.1:7777", "[::1]:7777", "localhost:7777"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:7777", "192.168.0.1:7777", "[::]:7777", "example.com:80", ""] {
            assert!(loopback(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_and_origins_of_this_machine_alone_pass() {
        for good in ["localhost", "LOCALHOST:1", "127.0.0.1:7777", "[::1]:7777", "[::1]"] {
            assert!(is_loopback_authority(good), "{good}");
        }
        for bad in ["evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "localhost:x", "", "10.0.0.1", "[::2]:1"] {
            assert!(!is_loopback_authority(bad), "{bad}");
        }
        let with = |origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(ORIGIN, origin.parse().unwrap());
            }
            has_own_origin(&headers)
        };
        assert!(with(&[]) && with(&["http://localhost:5173"]));
        assert!(!with(&["https://evil.com"]) && !with(&["null"]) && !with(&["http://localhost", "http://evil.com"]));
    }

    #[test]
    fn the_token_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TOKEN_FILE);
        let first = token(&path).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(token(&path).unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "x").unwrap();
        assert!(token(&path).is_err());
    }
}
