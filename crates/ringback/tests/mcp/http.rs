//! The same server over HTTP: who may come in, and that what was heard is what went out.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, Home, MODERN, PROGRAM};

/// Asks the server at an address, with the token that it reads from a file, to run a command; prints status and answer. If
/// it is told to hide, it may not be looked into (`PR_SET_DUMPABLE`, prctl(2)); if it is told to leave, it awaits no answer.
const CALLER: &str = "
import ctypes, http.client, json, socket, sys
address, token_file, way, *argv = sys.argv[1:]
if way == 'hide':
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
version = '2026-07-28'
meta = {'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientCapabilities': {}}
params = {'name': 'run', 'arguments': {'argv': argv, 'wait_ms': 20000}, '_meta': meta}
call = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': params}
connection = http.client.HTTPConnection(address)
connection.request('POST', '/mcp', json.dumps(call), {
    'Authorization': 'Bearer ' + open(token_file).read(), 'Content-Type': 'application/json',
    'Accept': 'application/json, text/event-stream', 'MCP-Protocol-Version': version,
    'Mcp-Method': 'tools/call', 'Mcp-Name': 'run'})
if way != 'leave':
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
";

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    child: Child,
    address: String,
    pub(crate) token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(home: &Home) -> Self {
        Self::start_as(home.command())
    }

    /// The same with no more than so many descriptors.
    fn start_with(home: &Home, descriptors: usize) -> Self {
        let mut command = home.command_of("sh");
        command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""), PROGRAM]);
        Self::start_as(command)
    }

    fn start_as(mut command: Command) -> Self {
        command.args(["--json", "mcp", "--http", "0"]).env("CLAUDE_CODE_SESSION_ID", "whoever-started-it");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts: Value = serde_json::from_str(&line).unwrap();
        let path = facts["token_file"].as_str().unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let token = std::fs::read_to_string(path).unwrap();
        let address = facts["url"].as_str().unwrap().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        Self { child, address: address.to_owned(), token }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What a caller that is a task run with these options prints when it has asked this server to run a command.
    fn asked_by_a_task(&self, home: &Home, options: &[&str], way: &str, argv: &[&str]) -> String {
        let token_file = home.path().join("home/mcp.token");
        let mut command = home.command();
        command.args(["run", "-f"]).args(options).args(["--", "python3", "-c", CALLER, &self.address]);
        let output = command.arg(token_file).arg(way).args(argv).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Status and body of one request with these headers besides the usual ones.
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let (head, body) = self.post_whole(path, headers, body);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// Head and body.
    fn post_whole(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (String, String) {
        let mut answer = String::new();
        self.ask(path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// Where the answer will come.
    fn ask(&self, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let has = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut text = format!("POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        text += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let host = (!has("Host")).then(|| format!("Host: {}\r\n", self.address));
        let token = (!has("Authorization")).then(|| format!("Authorization: Bearer {}\r\n", self.token));
        text.extend(host.into_iter().chain(token));
        text.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Begins a session of this version; its id.
    fn session(&self, version: &str) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"},
        }});
        let (head, _) = self.post_whole("/mcp", &[], &hello.to_string());
        let session = head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id")));
        session.unwrap_or_else(|| panic!("{head}")).1.to_owned()
    }

    /// A modern call of a tool.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        let (status, body) = self.post("/mcp", &headers, &body);
        assert_eq!(status, 200, "{body}");
        let json = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let answers: Vec<Value> = json.filter_map(|line| serde_json::from_str(line).ok()).collect();
        answers.into_iter().find(|answer| answer["id"] == 1).unwrap_or_else(|| panic!("{body}"))["result"].clone()
    }
}

#[test]
fn strangers_and_web_pages_learn_nothing() {
    let home = Home::new();
    let server = Server::start(&home);
    let status = |path: &str, headers: &[(&str, &str)]| server.post(path, headers, "{}").0;
    for path in ["/mcp", "/", "/secret"] {
        assert_eq!(status(path, &[("Host", "evil.com")]), 403);
        assert_eq!(status(path, &[("Host", "evil.com"), ("Authorization", "Bearer x")]), 403);
        assert_eq!(status(path, &[("Origin", "https://evil.com")]), 403);
        assert_eq!(status(path, &[("Origin", "null")]), 403);
        assert_eq!(status(path, &[("Authorization", "")]), 401);
        assert_eq!(status(path, &[("Authorization", &format!("Bearer {}", "0".repeat(64)))]), 401);
    }
    assert_eq!(status("/secret", &[]), 404);
    assert_ne!(status("/mcp", &[]), 404);
    let refused = home.command().args(["mcp", "--http", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_call_over_http_does_the_same_and_is_heard() {
    let home = Home::new();
    let server = Server::start(&home);
    let result = server.call("run", &json!({"command": "echo over http; exit 2"}));
    assert!(result["isError"] == true && result["structuredContent"]["tail"] == "| over http", "{result}");
    let id = result["structuredContent"]["id"].as_str().unwrap();
    assert_eq!(
        home.cli_as("somebody", &["show", id])["session"],
        "default",
        "one server has many clients, so its own session is nobody's"
    );
    assert_eq!(Agent::start(&home).unheard(), [id], "it went out; whether it arrived, the next request says");
    server.call("list", &json!({"session": "another"}));
    assert_eq!(Agent::start(&home).unheard(), [id], "another session knows nothing of it");
    let listed = server.call("list", &json!({}));
    assert_eq!(listed["structuredContent"]["unheard"], json!([]));
    assert!(Agent::start(&home).unheard().is_empty());
    let begun = server.call("run", &json!({"command": "sleep 0.2; exit 4", "wait_ms": 0, "session": "s1"}));
    let id = &begun["structuredContent"]["id"];
    let waited = server.call("wait", &json!({"ids": [id]}));
    assert!(waited["structuredContent"]["verdict"].as_str().unwrap().starts_with("FAILED exit 4"), "{waited}");
    let told = server.call("inbox", &json!({"session": "s1"}));
    assert!(
        told["structuredContent"]["tasks"][0]["id"] == *id,
        "another session's look is not the owner's hearing: {told}"
    );
}

#[test]
fn a_closed_stream_stops_no_task() {
    let home = Home::new();
    let server = Server::start(&home);
    let begun = server.call("run", &json!({"command": "sleep 1; exit 5", "wait_ms": 0}));
    let id = begun["structuredContent"]["id"].clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "wait", "arguments": {"ids": [id]}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}}});
    let body = body.to_string();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    // Who leaves before he was looked at is not served: so it is done first.
    let (host, token) = (&server.address, &server.token);
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"the path is /mcp") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: \
         application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: \
         wait\r\nContent-Length: {}\r\n\r\n",
        server.address,
        server.token,
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    drop(stream);
    let told = server.call("inbox", &json!({"wait_ms": 20_000}));
    assert!(told["structuredContent"]["tasks"][0]["id"] == id, "{told}");
}

#[test]
fn nobody_leaves_a_sandbox_through_a_server_outside() {
    if let Err(lack) = ringback_sys::sandbox::landlock() {
        return eprintln!("no sandbox here: {lack}");
    }
    let home = Home::new();
    let server = Server::start(&home);
    let mark = home.path().join("mark");
    let touch = ["touch", mark.to_str().unwrap()];
    let confined: &[&str] = &["--sandbox", "ro"];
    for way in ["stay", "hide", "leave"] {
        let said = server.asked_by_a_task(&home, confined, way, &touch);
        if way != "leave" {
            let (status, body) = said.split_once(' ').unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!((status, &body["code"]), ("403", &json!("confined_caller")), "{way}: {body}");
            let hint = body["hint"].as_str().unwrap();
            assert!(hint.contains("outside of the sandbox") && hint.contains("confined = \"allow\""), "{way}: {body}");
        }
        assert!(!mark.exists(), "{way}: a command ran outside");
    }
    // The same caller without a sandbox is served, and who left before it had nothing done.
    let said = server.asked_by_a_task(&home, &[], "stay", &["true"]);
    assert!(said.starts_with("200 ") && said.contains("exit 0"), "{said}");
    let tasks = home.cli(&["ps", "-a", "--all-sessions"])["tasks"].as_array().unwrap().len();
    assert_eq!((tasks, mark.exists()), (5, false), "four callers, and what the last one asked for");
}

#[test]
fn who_allows_confined_callers_in_the_config_has_them_served_over_http() {
    if let Err(lack) = ringback_sys::sandbox::landlock() {
        return eprintln!("no sandbox here: {lack}");
    }
    let home = Home::new();
    let config = home.path().join("ringback");
    std::fs::create_dir(&config).unwrap();
    std::fs::write(config.join("config.toml"), "confined = 'allow'\n").unwrap();
    let server = Server::start(&home);
    let mark = home.path().join("mark");
    let said = server.asked_by_a_task(&home, &["--sandbox", "ro"], "stay", &["touch", mark.to_str().unwrap()]);
    assert!(said.starts_with("200 ") && mark.exists(), "{said}");
}

#[test]
fn a_list_of_messages_is_answered_with_a_list_where_the_version_knows_them() {
    let home = Home::new();
    let server = Server::start(&home);
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"},
    }});
    let session = server.session("2025-03-26");
    let session = [("Mcp-Session-Id", session.as_str())];
    let post = |list: &Value| server.post("/mcp", &session, &list.to_string());
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&json!([note])), (202, String::new()));
    let call = json!({"name": "run", "arguments": {"command": "echo one", "wait_ms": 20_000}});
    let list = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": call},
        5,
        hello,
    ]);
    let (status, answer) = post(&list);
    let answers: Vec<Value> = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{status} {answer}"));
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}: {answer}"));
    assert_eq!((status, answers.len()), (200, 4), "{answer}");
    assert_eq!(of(json!(1))["result"], json!({}));
    assert_eq!(of(json!("two"))["result"]["structuredContent"]["tail"], "| one");
    assert_eq!(of(Value::Null)["error"]["code"], -32600);
    assert!(of(json!(0))["error"]["message"].as_str().unwrap().contains("comes alone"));
    let run = |id: u8| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
    let (_, answer) = post(&json!([run(7), run(7), run(8)]));
    let answers: Vec<Value> = serde_json::from_str(&answer).unwrap();
    let codes =
        answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].clone())).collect::<Vec<_>>();
    assert_eq!(
        codes,
        [(7.into(), json!(-32600)), (7.into(), Value::Null), (8.into(), Value::Null)],
        "one id, one request"
    );
    assert_eq!(home.cli(&["ps", "-a", "--all-sessions"])["tasks"].as_array().unwrap().len(), 3);
    let (status, answer) = server.post("/mcp", &[("Mcp-Session-Id", "of nobody")], &list.to_string());
    assert_eq!(status, 404, "{answer}");
}

#[test]
fn an_id_is_taken_until_the_work_has_ended_though_its_client_hung_up() {
    let home = Home::new();
    let server = Server::start(&home);
    let session = server.session("2025-06-18");
    let session = [("Mcp-Session-Id", session.as_str())];
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post("/mcp", &session, &note.to_string()).0, 202);
    let [up, go] = ["up", "go"].map(|name| {
        let path = home.path().join(name);
        ringback_sys::files::fifo(&path).unwrap();
        path
    });
    let command = format!("echo up > {}; read x < {}", up.display(), go.display());
    for list in [false, true] {
        let call = json!({"name": "run", "arguments": {"command": command, "wait_ms": 60_000}});
        let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call});
        let call = if list { json!([call]) } else { call };
        let version = if list { "2025-03-26" } else { "2025-06-18" };
        let headers = [session[0], ("MCP-Protocol-Version", version)];
        let mut stream = server.ask("/mcp", &headers, &call.to_string());
        assert_eq!(std::fs::read_to_string(&up).unwrap(), "up\n");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // At its end the server knows.
        let _reset = stream.read_to_end(&mut Vec::new());
        let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}).to_string();
        let (status, answer) = server.post("/mcp", &session, &ping);
        assert!(status == 400 && answer.contains("-32600"), "{list}: {status} {answer}");
        std::fs::write(&go, "go\n").unwrap();
        let until = Instant::now() + PATIENCE;
        while server.post("/mcp", &session, &ping).0 != 200 {
            assert!(Instant::now() < until, "{list}: the id is taken for ever");
        }
    }
}

#[test]
fn what_is_no_message_is_refused_in_the_words_of_json_rpc() {
    let home = Home::new();
    let server = Server::start(&home);
    let long = "x".repeat((16 << 20) + 1);
    for (body, status, code) in [
        ("not json", 400, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"meth", 400, -32700),
        ("", 400, -32700),
        ("[]", 400, -32600),
        ("[1,", 400, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", 400, -32600),
        (&long, 413, -32600),
    ] {
        let (said, answer) = server.post("/mcp", &[], body);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{body:.40}: {said} {answer}"));
        assert_eq!((said, &answer["error"]["code"], &answer["id"]), (status, &json!(code), &Value::Null), "{body:.40}");
    }
    // Only the oldest version but one has lists, and no later one names itself as it.
    let list = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]";
    let (status, answer) = server.post("/mcp", &[("MCP-Protocol-Version", "2025-06-18")], list);
    assert!(status == 400 && answer.contains("only 2025-03-26 knows lists"), "{status} {answer}");
    let told = server.call("run", &json!({"command": "x".repeat(10_000_000)}));
    let verdict = told["structuredContent"]["verdict"].as_str().unwrap();
    assert!(told["isError"] == true && verdict.contains("10000000 bytes"), "{verdict:.200}");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
    });
    let binding = "{\"n\":123456789012345678901}";
    let call = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"run\",\"arguments\":\
         {{\"command\":\"true\",\"binding\":{binding}}},\"_meta\":{meta}}}}}"
    );
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "run")];
    let (status, answer) = server.post("/mcp", &headers, &call);
    assert!(status == 200 && answer.contains("123456789012345678901 would be rounded"), "{status} {answer}");
}

#[test]
fn a_server_without_descriptors_says_so_and_serves_on() {
    let home = Home::new();
    // The daemon has descriptors of its own.
    home.cli(&["run", "--", "true"]);
    let mut server = Server::start_with(&home, 40);
    let ask = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 40, "more connections than descriptors");
        let mut stream = BufReader::new(TcpStream::connect(&server.address).unwrap());
        // Who is turned away may be so before he has asked.
        let _asked = stream.get_mut().write_all(ask.as_bytes());
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        if !status.starts_with("HTTP/1.1 401") {
            let mut answer = String::new();
            let _whole = stream.read_to_string(&mut answer);
            break status + &answer;
        }
        held.push(stream);
    };
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_clients"), "{refused}");
    assert!(refused.contains("ulimit -n") && held.len() > 5, "{} held: {refused}", held.len());
    for _ in 0..3 {
        let mut again = String::new();
        let _reset = TcpStream::connect(&server.address).unwrap().read_to_string(&mut again);
        assert!(again.starts_with("HTTP/1.1 503"), "{again}");
    }
    for mut stream in held {
        stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
        // At its end the server has closed it, too.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let told = server.call("run", &json!({"command": "echo on"}));
    assert_eq!(told["structuredContent"]["tail"], "| on");
    assert!(server.child.try_wait().unwrap().is_none());
}

#[test]
fn a_caller_that_cannot_be_looked_at_for_want_of_descriptors_is_not_called_confined() {
    let home = Home::new();
    home.cli(&["run", "--", "true"]);
    let server = Server::start_with(&home, 28);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let mut held = Vec::new();
    let mut statuses = Vec::new();
    while statuses.last() != Some(&503) {
        assert!(held.len() < 28, "more connections than descriptors: {statuses:?}");
        let (status, answer) = server.post("/mcp", &[("MCP-Protocol-Version", MODERN)], &ping);
        assert!(status != 403 && !answer.contains("confined"), "{} held: {status} {answer}", held.len());
        statuses.push(status);
        held.push(TcpStream::connect(&server.address).unwrap());
    }
}
