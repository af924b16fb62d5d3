// Tells an opencode session of the ends of what it started with ringback.
// Written by `ringback setup opencode`; `ringback setup opencode --undo` takes it away.
import { spawn } from "node:child_process"

const PROGRAM = "ringback"
// Tools know no session of opencode, so all of them start their tasks in this one; each end goes back to its caller.
const SESSION = "opencode"

// Waits for the end of what this call has started. Exit code 2: there is something to say, on stderr.
function waitFor(event) {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["hook", "opencode-wait"], { stdio: ["pipe", "ignore", "pipe"] })
    let text = ""
    child.stderr.on("data", (piece) => (text += piece))
    child.on("error", () => resolve(null))
    child.on("close", (code) => resolve(code === 2 ? text : null))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  })
}

export const Ringback = async ({ client }) => ({
  "shell.env": async (_input, output) => {
    output.env.RINGBACK_SESSION ??= SESSION
  },
  "tool.execute.after": async (input, output) => {
    const isShell = input.tool === "bash"
    if (!isShell && input.tool !== "ringback_run") return
    const event = {
      session_id: SESSION,
      tool_name: isShell ? "Bash" : "ringback_run",
      tool_use_id: input.callID,
      tool_input: input.args ?? {},
      tool_response: output.output ?? output,
    }
    // Not waited for: the turn goes on, and the end starts another one.
    waitFor(event).then((text) => {
      if (!text) return
      const body = { parts: [{ type: "text", text }] }
      return client.session.promptAsync({ path: { id: input.sessionID }, body })
    }).catch(() => {})
  },
})
