"""What a real agent program does when a task of ringback ends: stories.py STORY RINGBACK CLIENTS.

Prints one line of JSON. Exits 0 if the story went as told, 1 if ringback did not do its part, 2 if the rig could not run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mocks import MockAnthropic, MockModel, MockOpenAI, Request, Turn
from rig import ClaudeCode, Codex, Deadline, Fault, RigError, Workspace, program

# The command computes what is looked for, so that an echo of the command is no evidence.
FIRST, SECOND = "DONE_42", "DONE_43"


class Stage:
    """One workspace with ringback on its PATH."""

    def __init__(self, work: Workspace, ringback: Path, clients: Path, deadline: Deadline):
        self.work, self.ringback, self.clients, self.deadline = work, ringback, clients, deadline
        work.link("ringback", ringback)
        self.ends = [work.root / "ended-1", work.root / "ended-2"]

    def cli(self, *args: str) -> str:
        """The command line in this workspace's home."""
        argv = [str(self.work.bin / "ringback"), *args]
        done = subprocess.run(argv, env=self.work.env(), cwd=self.work.project, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise Fault(f"ringback {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def job(self, seconds: float, number: int = 0) -> dict:
        """A task that ends after this long, with exit 3."""
        script = f"sleep {seconds}; echo DONE_$((42+{number})); : > {self.ends[number]}; exit $((1+2))"
        return {"command": script, "wait_ms": 0}

    def has_ended(self, number: int = 0) -> bool:
        return self.ends[number].exists()

    def claude(self, turns: list[Turn], hold: Callable[[], bool] | None = None, tasks: bool = True) -> ClaudeCode:
        mock = MockAnthropic(turns, hold)
        agent = ClaudeCode(self.work, program(self.clients, "claude"), mock, tasks)
        self.cli("setup", "claude", "-q")
        return agent

    def codex(self, turns: list[Turn], hold: Callable[[], bool] | None = None, queue: bool = True, hooks: bool = True) -> Codex:
        mock = MockOpenAI(turns, hold)
        agent = Codex(self.work, program(self.clients, "codex"), mock, hooks)
        if queue:  # the server finds it on PATH, as a user's would
            self.work.link("codex", agent.program)
        self.cli("setup", "codex", "-q")
        if not hooks:
            (self.work.home / ".codex/hooks.json").unlink()
        return agent

    def answered(self, mock: MockModel, turn: Turn) -> None:
        """Returns once the model has answered the tool's result: from here on the session is idle."""
        mock.wait(lambda: turn.missing or (turn.result and turn.result.answered), self.deadline.left())
        if turn.missing:
            raise Fault(f"there is no tool {turn.tool!r}; on offer: {[t for t in turn.missing.tools if 'ringback' in t]}")
        if not turn.result:
            raise Fault("the tool call did not return")
        if turn.result.results[turn.call_id]:
            raise Fault(f"the tool call failed: {turn.result.new[:300]}")

    def woken(self, mock: MockModel, turn: Turn, text: str, doors: set[str]) -> Request:
        """The first turn after the idle point that brings `text`; it must have come through one of `doors`."""
        after = turn.result.n
        hit = mock.wait(lambda: mock.first(lambda r: r.n > after and turn.tool in r.tools and text in r.new), self.deadline.left())
        if not hit:
            later = [r.new[-300:] for r in mock.requests if r.n > after and turn.tool in r.tools]
            raise Fault(f"no turn came with {text}; the tool had answered: {turn.result.new[-300:]}; later turns: {later}")
        if "FAILED exit 3" not in hit.new:
            raise Fault(f"the verdict is missing: {hit.new[-500:]}")
        if via(hit.new) not in doors:
            raise Fault(f"a turn came, but as {via(hit.new)!r}, not as {sorted(doors)}: {hit.new[-300:]}")
        return hit

    def once(self, mock: MockModel, tool: str, text: str) -> None:
        """Exactly one turn has brought `text`."""
        turns = [r.new for r in mock.requests if tool in r.tools and text in r.new]
        if len(turns) != 1:
            raise Fault(f"{len(turns)} turns brought {text}: {[t[-400:] for t in turns]}")

    def report(self, hit: Request, number: int = 0) -> dict:
        return {"via": via(hit.new), "seconds_after_end": round(hit.at - self.ends[number].stat().st_mtime, 2)}

    def alive(self, words: str) -> list[int]:
        """Processes of this workspace with this command line."""
        found = []
        for pid in self.work.pids():
            try:
                if Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip() == words:
                    found.append(pid)
            except OSError:
                continue
        return found


def via(text: str) -> str:
    """Which door a turn came through, judged by the agent's own wrapping of it."""
    if re.search(r"<summary>\s*MCP task", text):
        return "task"
    if re.search(r'blocking error from command:? "PostToolUse', text):
        return "rewake-hook"
    return "stop-hook" if re.search(r"<hook_prompt|Stop hook (feedback|blocking error)", text) else "message"


RUN, STOP = "mcp__ringback__run", "mcp__ringback__stop"


def claude_is_woken_by_its_task(s: Stage) -> dict:
    """Idle, with tasks: the end of the task starts a turn."""
    turn = Turn("FIRSTPROMPT", RUN, s.job(2))
    agent = s.claude([turn])
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    return s.report(s.woken(agent.mock, turn, FIRST, {"task"}))


def claude_is_woken_once_with_all_doors(s: Stage) -> dict:
    """With tasks and every hook installed: the end of a later task comes, and the first was told once until then."""
    first, second = Turn("FIRSTPROMPT", RUN, s.job(1)), Turn("SECONDPROMPT", RUN, s.job(3, 1))
    agent = s.claude([first, second])
    agent.start([], s.deadline)
    agent.ask(first, s.deadline)
    s.answered(agent.mock, first)
    s.woken(agent.mock, first, FIRST, {"task"})
    agent.ask(second, s.deadline)
    s.answered(agent.mock, second)
    hit = s.woken(agent.mock, second, SECOND, {"task"})
    s.once(agent.mock, RUN, FIRST)
    s.once(agent.mock, RUN, SECOND)
    return s.report(hit, 1)


def restarted(s: Stage, away: bool) -> dict:
    turn = Turn("FIRSTPROMPT", RUN, s.job(5))
    agent = s.claude([turn])
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    agent.terminal.wait(rf"MOCKREPLY{turn.result.n}\b", s.deadline.left(5))  # the turn is over for the user too
    agent.quit()
    if s.has_ended():
        raise RigError("the task ended before the agent had quit")
    while away and not s.has_ended():
        if not s.deadline.left():
            raise Fault("the task did not end while the agent was away")
        time.sleep(0.02)
    agent.start(["--continue"], s.deadline)
    hit = s.woken(agent.mock, turn, FIRST, {"task", "message"} if away else {"task"})
    s.once(agent.mock, RUN, FIRST)
    return s.report(hit)


def claude_is_woken_after_quit_and_continue(s: Stage) -> dict:
    """Quit while the task runs, continued before its end."""
    return restarted(s, away=False)


def claude_hears_of_what_ended_while_it_was_away(s: Stage) -> dict:
    """Quit while the task runs, continued after its end."""
    return restarted(s, away=True)


def claude_without_tasks_is_woken_by_the_hook(s: Stage) -> dict:
    """Tasks switched off, all hooks installed: the waiting hook starts one turn."""
    first, second = Turn("FIRSTPROMPT", RUN, s.job(2)), Turn("SECONDPROMPT", RUN, s.job(2, 1))
    agent = s.claude([first, second], tasks=False)
    agent.start([], s.deadline)
    agent.ask(first, s.deadline)
    s.answered(agent.mock, first)
    hit = s.woken(agent.mock, first, FIRST, {"rewake-hook", "stop-hook"})
    agent.ask(second, s.deadline)
    s.answered(agent.mock, second)
    s.woken(agent.mock, second, SECOND, {"rewake-hook", "stop-hook"})
    s.once(agent.mock, RUN, FIRST)
    s.once(agent.mock, RUN, SECOND)
    return s.report(hit)


def claude_is_woken_when_a_server_is_ready(s: Stage) -> dict:
    """Idle, with tasks and all hooks: what `ready` waits for starts a turn, and the task runs on."""
    server = {"command": "sleep 2; echo LISTENING_$((42+0)); sleep 600", "ready": "^LISTENING", "wait_ms": 0}
    turn = Turn("FIRSTPROMPT", RUN, server)
    agent = s.claude([turn])
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    hit = agent.mock.wait(lambda: agent.mock.first(lambda r: r.n > turn.result.n and RUN in r.tools and "LISTENING_42" in r.new), s.deadline.left())
    if not hit:
        raise Fault(f"no turn came; the tool had answered: {turn.result.new[-300:]}")
    s.once(agent.mock, RUN, "LISTENING_42")
    return {"via": via(hit.new)}


def claude_stop_hook_holds_the_turn(s: Stage) -> dict:
    """Tasks switched off, the waiting hook not installed: what ended during the turn is told at its end."""
    turn = Turn("FIRSTPROMPT", RUN, s.job(1))
    agent = s.claude([turn], hold=s.has_ended, tasks=False)
    settings = json.loads(agent.settings.read_text())
    del settings["hooks"]["PostToolUse"]
    settings["hooks"]["Stop"] = [group for group in settings["hooks"]["Stop"] if "claude-stop" in json.dumps(group)]
    agent.settings.write_text(json.dumps(settings))
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    hit = s.woken(agent.mock, turn, FIRST, {"stop-hook"})
    s.once(agent.mock, RUN, FIRST)
    return s.report(hit)


def claude_in_print_mode_never_hangs(s: Stage) -> dict:
    """`claude -p`: the result of a short command reaches the model; of a long one the handle, and the run ends."""
    short = Turn("FIRSTPROMPT", RUN, {"command": "echo DONE_$((42+0)); exit $((1+2))"})
    long = Turn("SECONDPROMPT", RUN, {"command": "sleep 600", "wait_ms": 0})
    agent = s.claude([short, long])
    done = agent.print("FIRSTPROMPT", s.deadline)
    if done.returncode or not short.result or FIRST not in short.result.new or "FAILED exit 3" not in short.result.new:
        raise Fault(f"the result did not come: {done} {short.result and short.result.new}")
    began = time.monotonic()
    done = agent.print("SECONDPROMPT", s.deadline)
    took = time.monotonic() - began
    if done.returncode or not long.result or "NOT " not in long.result.new:
        raise Fault(f"the handle did not come: {done} {long.result and long.result.new}")
    if [t["state"] for t in json.loads(s.cli("--json", "ps", "--all-sessions"))["tasks"]].count("running") != 1:
        raise Fault("the task did not outlive the run")
    return {"seconds": round(took, 2)}


def stopped(s: Stage, stop: Turn, first: Turn, words: str) -> dict:
    agent = s.claude([first, stop])
    agent.start([], s.deadline)
    agent.ask(first, s.deadline)
    s.answered(agent.mock, first)
    while len(s.alive("sleep 600")) < 3:
        if not s.deadline.left():
            raise Fault("the tree did not come up")
        time.sleep(0.02)
    if found := re.search(r"TaskStop\S* with (?:task_id|id)?\W*(\w+)|[Tt]ask ID: (\w+)", first.result.new):
        stop.input.update({"task_id": found[1] or found[2]} if stop.tool == "TaskStop" else {})
    agent.ask(stop, s.deadline)
    s.answered(agent.mock, stop)
    while s.alive("sleep 600"):
        if stop.tool == STOP or not s.deadline.left():
            raise Fault(f"the tree lives on: {s.alive('sleep 600')}; the answer was: {stop.result.new[:500]}")
        time.sleep(0.02)
    if words not in stop.result.new:
        raise Fault(f"the answer was: {stop.result.new[:500]}")
    return {"answer": stop.result.new[:300]}


TREE = {"command": "sleep 600 & setsid sleep 600 & sleep 600; :", "wait_ms": 0}


def claude_stops_a_task_and_its_tree_is_gone(s: Stage) -> dict:
    """The tool `stop`: when its answer comes, nothing of the tree is left."""
    return stopped(s, Turn("STOPPROMPT", STOP, {"all": True}), Turn("FIRSTPROMPT", RUN, TREE), "all gone")


def claude_task_stop_ends_the_tree(s: Stage) -> dict:
    """Claude Code's own TaskStop is a cancel of the MCP task."""
    return stopped(s, Turn("STOPPROMPT", "TaskStop", {}), Turn("FIRSTPROMPT", RUN, TREE), "")


def codex_is_woken_by_its_queue(s: Stage) -> dict:
    """Idle: `codex queue` starts a turn."""
    turn = Turn("FIRSTPROMPT", "ringback/run", s.job(2))
    agent = s.codex([turn], hooks=False)
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    hit = s.woken(agent.mock, turn, FIRST, {"message"})
    s.once(agent.mock, "ringback/run", FIRST)
    return s.report(hit)


def codex_is_woken_once_with_all_doors(s: Stage) -> dict:
    """With the queue and every hook installed: one turn for each end.

    The flag that lets hooks run unasked makes Codex look at its queue only every ten seconds or so.
    """
    first, second = Turn("FIRSTPROMPT", "ringback/run", s.job(1)), Turn("SECONDPROMPT", "ringback/run", s.job(1, 1))
    agent = s.codex([first, second])
    agent.start([], s.deadline)
    agent.ask(first, s.deadline)
    s.answered(agent.mock, first)
    hit = s.woken(agent.mock, first, FIRST, {"message", "stop-hook"})
    agent.ask(second, s.deadline)
    s.answered(agent.mock, second)
    s.woken(agent.mock, second, SECOND, {"message", "stop-hook"})
    s.once(agent.mock, "ringback/run", FIRST)
    s.once(agent.mock, "ringback/run", SECOND)
    return s.report(hit)


def codex_stop_hook_holds_the_turn(s: Stage) -> dict:
    """Without `codex` on the server's PATH: what ended during the turn is told at its end."""
    turn = Turn("FIRSTPROMPT", "ringback/run", s.job(1))
    agent = s.codex([turn], hold=s.has_ended, queue=False)
    agent.start([], s.deadline)
    agent.ask(turn, s.deadline)
    s.answered(agent.mock, turn)
    hit = s.woken(agent.mock, turn, FIRST, {"stop-hook"})
    s.once(agent.mock, "ringback/run", FIRST)
    return s.report(hit)


def the_plugin_is_valid(s: Stage) -> dict:
    """`claude plugin validate` on the plugin folder and on the marketplace file."""
    root = Path(__file__).resolve().parents[4]
    shutil.copytree(root / "plugin", s.work.project / "plugin")
    shutil.copytree(root / ".claude-plugin", s.work.project / ".claude-plugin")
    agent = s.claude([])
    for place in ("plugin", "."):
        argv = [str(agent.program), "plugin", "validate", place]
        done = subprocess.run(argv, env=agent.env(), cwd=s.work.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode or "rror" in done.stdout:
            raise Fault(f"{place}: {done.stdout} {done.stderr}")
    return {}


STORIES = {name: story for name, story in globals().items() if callable(story) and name.startswith(("claude_", "codex_", "the_plugin"))}


def main(name: str, ringback: str, clients: str) -> int:
    began = time.monotonic()
    try:
        with Workspace() as work:
            stage = Stage(work, Path(ringback).resolve(), Path(clients).resolve(), Deadline(100))
            told = STORIES[name](stage) | {"ok": True}
            code = 0
    except Fault as fault:
        told, code = {"ok": False, "reason": str(fault)}, 1
    except (RigError, OSError, subprocess.SubprocessError) as fault:
        told, code = {"ok": False, "reason": f"rig: {fault}"}, 2
    told["seconds_total"] = round(time.monotonic() - began, 2)
    print(json.dumps({"story": name, **told}, ensure_ascii=False), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
