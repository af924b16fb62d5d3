// A way in for clients that cannot send a token: node with_token.mjs URL TOKEN; prints its own URL.
import http from "node:http";

const [url, token] = process.argv.slice(2);
const { hostname, port, pathname } = new URL(url);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const onward = http.request({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}${pathname}`));
