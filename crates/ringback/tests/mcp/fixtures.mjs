// The tools that the conformance suite wants for its tasks, each as one `run` of ours: node fixtures.mjs URL TOKEN.
// Prints its own URL. Only the name and the arguments of a call are put into ours, and the tools are listed too: tasks,
// answers, errors and headers are those of the real server.
import http from "node:http";

const [url, token] = process.argv.slice(2);
const { hostname, port, pathname } = new URL(url);

const tools = {
  greet: ({ name }) => ({ argv: ["echo", `Hello, ${name}!`], wait_ms: 10000 }),
  slow_compute: ({ seconds, label }) => ({ argv: ["sh", "-c", 'sleep "$0"; echo "$1"', `${seconds ?? 0}`, `${label}`], wait_ms: 0 }),
  failing_job: () => ({ command: "echo failing; exit 1", wait_ms: 0 }),
  // A command of ours never fails as the protocol does; the nearest is one that cannot be started.
  protocol_error_job: () => ({ argv: ["no-such-program-here"], wait_ms: 0 }),
};

function translate(body, headers) {
  let message;
  try {
    message = JSON.parse(body);
  } catch {
    return body;
  }
  const make = message.method === "tools/call" ? tools[message.params?.name] : undefined;
  if (!make) return body;
  if (headers["mcp-name"] === message.params.name) headers["mcp-name"] = "run";
  Object.assign(message.params, { name: "run", arguments: make(message.params.arguments ?? {}) });
  return JSON.stringify(message);
}

// What `greet` says and no more: the suite compares two answers, and ours have an id and a time.
function greeted(answer) {
  return answer.replace(/^(data: )?(\{.*\})$/m, (_, lead = "", json) => {
    const message = JSON.parse(json);
    const text = message.result?.structuredContent?.tail?.slice(2);
    if (text) message.result = { ...message.result, content: [{ type: "text", text }], structuredContent: undefined };
    return lead + JSON.stringify(message);
  });
}

function listed(answer) {
  const more = Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object" } }));
  return answer.replace('"tools":[', `"tools":[${more.map((tool) => JSON.stringify(tool)).join(",")},`);
}

const server = http.createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const text = Buffer.concat(pieces).toString();
  const body = translate(text, headers);
  headers["content-length"] = Buffer.byteLength(body);
  delete headers["transfer-encoding"];
  const change = text.includes('"tools/list"') ? listed : text.includes('"name":"greet"') ? greeted : undefined;
  const onward = http.request({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
    const { "content-length": _, ...rest } = answer.headers;
    response.writeHead(answer.statusCode, change ? rest : answer.headers);
    if (!change) return answer.pipe(response);
    let all = "";
    answer.on("data", (piece) => (all += piece));
    answer.on("end", () => response.end(change(all)));
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  onward.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}${pathname}`));
