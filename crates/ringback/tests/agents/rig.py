"""Real agent programs on a pseudo-terminal, with a mock model on loopback.

Nothing here talks to a model: the mock answers the agent's requests from a script (first a tool call, later plain text)
and keeps every request. What the agent sends by itself afterwards is the evidence that something woke it.

Linux, Python 3.11, standard library only. Every wait is on a condition and ends at a `Deadline`; every process is ended by
pid when its `Workspace` closes.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid
from pathlib import Path

from mocks import MockAnthropic, MockModel, MockOpenAI, Turn

NATIVE = {"claude": "node_modules/@anthropic-ai/claude-code-*/claude", "codex": "node_modules/@openai/codex-*/vendor/*/bin/codex"}
COOKIE = "RINGBACK_RIG_RUN"  # in the environment of everything a workspace starts, where the agent passes it on
SERVER = "ringback"


class RigError(Exception):
    """The rig could not do its own part: no program, bad arguments, no pty."""


class Fault(Exception):
    """ringback did not do its part."""


class Deadline:
    """One hard limit, in seconds from now, that all waits of a run share."""

    def __init__(self, seconds: float):
        self.seconds, self.at = seconds, time.monotonic() + seconds

    def left(self, at_most: float = float("inf")) -> float:
        return max(0.0, min(self.at - time.monotonic(), at_most))


def program(clients: Path, name: str) -> Path:
    """The native program of an agent in the folder of the clients."""
    found = next((p for p in sorted(clients.glob(NATIVE[name])) if os.access(p, os.X_OK)), None)
    if not found:
        raise RigError(f"there is no {name} in {clients}")
    return found.resolve()


# --- a private place, and the end of all that ran in it -----------------------


class Workspace:
    """A private HOME, project folder and environment.

    Leaving it ends every process that carries its cookie (agents, servers, the
    server's daemon and jobs, Codex's app-server daemon) and removes the folder.
    """

    def __init__(self, keep: bool = False):
        base = tempfile.gettempdir()
        self.root = Path(tempfile.mkdtemp(prefix="rb-", dir=base if len(base) < 40 else "/tmp"))  # unix socket paths are short
        self.keep, self.cookie = keep, uuid.uuid4().hex
        for part in ("home", "project", "tmp", "run", "bin"):
            (self.root / part).mkdir(mode=0o700)
        self.home, self.project, self.bin = self.root / "home", self.root / "project", self.root / "bin"
        self.end_file = self.root / "ended"
        self.path = [str(self.bin)]

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_all()
        if self.keep:
            print(f"kept {self.root}", file=sys.stderr)
        else:
            shutil.rmtree(self.root, ignore_errors=True)

    def env(self, **more: str) -> dict[str, str]:
        """The environment of an agent: nothing of the caller's but PATH. The home of ringback is the usual one in HOME."""
        return {
            COOKIE: self.cookie,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([*self.path, os.environ.get("PATH", os.defpath)]),
            "TMPDIR": str(self.root / "tmp"),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            **more,
        }

    def link(self, name: str, program: Path) -> None:
        """Puts `program` on the agent's PATH as `name`."""
        (self.bin / name).symlink_to(program)

    def pids(self) -> list[int]:
        """Living processes that carry the cookie or the HOME, or stand in the folder."""
        found, root = [], str(self.root)
        marks = {f"{COOKIE}={self.cookie}".encode(), f"HOME={self.home}".encode()}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                stat = Path(entry.path, "stat").read_text()
                if stat.rpartition(")")[2].split()[0] in "ZX":
                    continue
                if marks & set(Path(entry.path, "environ").read_bytes().split(b"\0")) or os.readlink(entry.path + "/cwd").startswith(root):
                    found.append(int(entry.name))
        return found

    def end_all(self, grace: float = 1.5) -> None:
        """TERM, then KILL, until two looks in a row find nobody."""
        began, clean = time.monotonic(), 0
        while clean < 2 and time.monotonic() - began < grace + 5:
            pids = self.pids()
            clean = clean + 1 if not pids else 0
            how = signal.SIGTERM if time.monotonic() - began < grace else signal.SIGKILL
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, how)
            time.sleep(0.05)
        if left := self.pids():
            print(f"could not end {left}", file=sys.stderr)


# --- a terminal, and the agents in it -----------------------------------------

_ANSI = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_=>]")
_QUERIES = {  # what terminal programs ask at start, and the answers of a plain xterm
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;c",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
_LAUNCH = "import fcntl,os,sys,termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A program on a pseudo-terminal of 160 x 50."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path):
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen([sys.executable, "-Sc", _LAUNCH, *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd)
        os.close(slave)
        self.chunks: collections.deque[bytes] = collections.deque(maxlen=4000)
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            if not data:
                break
            for query, answer in _QUERIES.items():
                if query in data:
                    self.write(answer)
            with self.changed:
                self.chunks.append(data)
                self.changed.notify_all()

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self.master, data)

    def text(self) -> str:
        return _ANSI.sub(b" ", b"".join(self.chunks)).decode(errors="replace")

    def wait(self, pattern: str, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: re.search(pattern, self.text()), timeout=seconds) is not None

    def clear(self) -> None:
        with self.changed:
            self.chunks.clear()

    def end(self, grace: float = 3.0) -> None:
        """TERM, as a closing terminal would, then KILL."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        with contextlib.suppress(OSError):
            os.close(self.master)


class _Agent:
    """What both agents share: a terminal in a workspace, and a way to type a prompt."""

    ready_mark = ""

    def __init__(self, work: Workspace, program: Path, mock: MockModel):
        self.work, self.program, self.mock = work, program, mock
        self.terminal: Terminal | None = None

    def argv(self, extra: list[str]) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        raise NotImplementedError

    def connected(self, seconds: float) -> None:
        """Returns when the server's tools are there; raises Fault when they cannot be."""

    def start(self, extra: list[str], deadline: Deadline) -> None:
        self.terminal = Terminal(self.argv(extra), self.env(), self.work.project)
        if not self.terminal.wait(self.ready_mark, deadline.left(20)):
            raise RigError(f"{self.program.name} showed no prompt; its screen: {self.screen()}")
        self.connected(deadline.left(20))

    def ask(self, turn: Turn, deadline: Deadline) -> None:
        """Types the turn's prompt, sees it echoed, sends it, and returns when the mock has been asked.

        An agent may offer a server's tools a moment after it says that it is connected, so a prompt
        that finds no tool is sent again; `turn.missing` is left set when the tool never came.
        """
        for attempt, pause in enumerate((0.2, 1, 3, 0)):
            text, turn.missing = f"{turn.prompt}{attempt}", None
            self._send(text, deadline)
            self.mock.wait(lambda: turn.asked or (turn.missing and turn.missing.answered), deadline.left(5))
            if turn.asked or (turn.missing and any(SERVER in t for t in turn.missing.tools)):
                return
            time.sleep(deadline.left(pause))

    def _send(self, text: str, deadline: Deadline) -> None:
        self.terminal.clear()
        self.terminal.write(text.encode())
        self.terminal.wait(r"\s*".join(text), deadline.left(4))  # it may be drawn in pieces
        for _ in range(6):  # a busy agent may swallow the key, or hold the prompt until its servers are up
            self.terminal.write(b"\r")
            if self.mock.wait(lambda: self.mock.first(lambda r: text in r.new), deadline.left(4)):
                return
        raise RigError(f"{self.program.name} did not send the prompt; its screen: {self.screen()} {self.mock.faults or ''}")

    def screen(self) -> str:
        return re.sub(r"\s+", " ", self.terminal.text())[-700:] if self.terminal else ""

    def quit(self) -> None:
        if self.terminal:
            self.terminal.end()
            self.terminal = None


class ClaudeCode(_Agent):
    """Claude Code, set up by `ringback setup claude`."""

    ready_mark = "❯"
    key = "sk-ant-api03-" + "-".join(["mock"] * 7)

    def __init__(self, work: Workspace, program: Path, mock: MockAnthropic, tasks: bool = True):
        super().__init__(work, program, mock)
        self.tasks, self.starts, self.log = tasks, 0, work.root / "claude-0.log"
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "projectOnboardingSeenCount": 5, "allowedTools": []}
        state = {
            "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5, "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": [self.key[-20:]], "rejected": []}, "projects": {str(work.project): project},
        }  # fmt: skip
        (work.home / ".claude").mkdir()
        (work.home / ".claude.json").write_text(json.dumps(state))
        self.settings = work.home / ".claude/settings.json"
        self.settings.write_text("{}")

    def argv(self, extra: list[str]) -> list[str]:
        flags = ["--debug-file", str(self.log), "--permission-mode", "default"]
        return [str(self.program), *extra, *flags, "--allowedTools", f"mcp__{SERVER}"]

    def env(self) -> dict[str, str]:
        env = self.work.env(
            ANTHROPIC_BASE_URL=self.mock.url,
            ANTHROPIC_API_KEY=self.key,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL="1",
            DISABLE_AUTOUPDATER="1",
            ENABLE_TOOL_SEARCH="false",  # else the model is not shown the tool at once
        )
        return env if self.tasks else {**env, "CLAUDE_CODE_DISABLE_MCP_TASKS": "1"}

    def start(self, extra: list[str], deadline: Deadline) -> None:
        self.starts += 1
        self.log = self.work.root / f"claude-{self.starts}.log"
        super().start(extra, deadline)

    def connected(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            log = self.log.read_text(errors="replace") if self.log.exists() else ""
            if f'MCP server "{SERVER}": Successfully connected' in log:
                return
            if bad := re.search(rf'MCP server "{SERVER}".*(?:[Cc]onnection failed|[Ff]ailed to connect|Connection error).*', log):
                raise Fault(f"the MCP server did not come up: {bad[0][:300]}")
            time.sleep(0.02)
        raise Fault("the MCP server did not come up in time")

    def print(self, text: str, deadline: Deadline) -> subprocess.CompletedProcess:
        """One run of print mode (`claude -p`)."""
        return subprocess.run(self.argv(["-p", text]), env=self.env(), cwd=self.work.project, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=deadline.left() or 0.1)  # fmt: skip


class Codex(_Agent):
    """Codex, set up by `ringback setup codex`. CODEX_HOME stays the default of the private HOME.

    Its terminal starts a managed app-server daemon, which outlives it; the workspace ends that.
    """

    ready_mark = "›"

    def __init__(self, work: Workspace, program: Path, mock: MockOpenAI, hooks: bool):
        super().__init__(work, program, mock)
        self.hooks = hooks
        folder = work.home / ".codex"
        folder.mkdir()
        quote = json.dumps  # a JSON string is also one of TOML
        (folder / "config.toml").write_text(f"""
model = "mock-model"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = {quote(mock.url + "/v1")}
env_key = "MOCK_KEY"
wire_api = "responses"
[projects.{quote(str(work.project))}]
trust_level = "trusted"
[tui]
screen_reader_detection_done = true
""")

    def argv(self, extra: list[str]) -> list[str]:
        # Without the flag a person has to be asked whether hooks may run.
        return [str(self.program), *extra, *(["--dangerously-bypass-hook-trust"] if self.hooks else [])]

    def env(self) -> dict[str, str]:
        return self.work.env(MOCK_KEY="mock")
