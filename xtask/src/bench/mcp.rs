//! The least MCP client that can call a tool over stdio.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Done;

/// A server that was started and greeted; gone when dropped.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Done<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut server = Self { child, input, output, asked: 0 };
        let greeting = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"},
        });
        server.ask("initialize", &greeting)?;
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    /// Calls a tool; what it answered.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Done<Value> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        if answer["result"]["isError"] == true || answer.get("error").is_some() {
            return Err(format!("{tool}: {answer}").into());
        }
        Ok(answer)
    }

    /// The server's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Done<Value> {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the server closed its output".into());
            }
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    fn write(&mut self, message: &Value) -> Done {
        let mut line = message.to_string();
        line.push('\n');
        Ok(self.input.as_mut().ok_or("closed")?.write_all(line.as_bytes())?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            eprintln!("mcp server: {error}");
        }
    }
}
