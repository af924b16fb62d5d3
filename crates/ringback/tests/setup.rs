//! Setup on settings as they are found: everything stays, ours comes once, and undo leaves no trace.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("rbsetup").tempdir().unwrap();
        fs::create_dir_all(root.path().join("me")).unwrap();
        fs::create_dir_all(root.path().join("project")).unwrap();
        Self { root }
    }

    fn me(&self, name: &str) -> PathBuf {
        self.root.path().join("me").join(name)
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::create_dir_all(self.me(name).parent().unwrap()).unwrap();
        fs::write(self.me(name), text).unwrap();
        self
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.me(name)).unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"));
        command.args(args).env("HOME", self.root.path().join("me")).env("RINGBACK_HOME", self.root.path().join("home"));
        for name in ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "RINGBACK_SESSION", "RINGBACK_ID"] {
            command.env_remove(name);
        }
        command.current_dir(self.root.path().join("project")).stdin(Stdio::null());
        command
    }

    fn setup(&self, args: &[&str]) -> Output {
        self.command(&[&["setup"], args].concat()).output().unwrap()
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let out = self.setup(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// Every file and folder of the person, with its content.
    fn all(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        fn gather(folder: &Path, all: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    gather(&path, all);
                    all.push((path, None));
                } else {
                    all.push((path.clone(), Some(fs::read(path).unwrap())));
                }
            }
        }
        let mut all = Vec::new();
        gather(self.root.path().join("me").as_path(), &mut all);
        all.sort();
        all
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _stopped = self.command(&["daemon", "stop"]).output();
    }
}

const CLAUDE: &str = r#"{
  "numStartups": 42,
  "projects": {
    "/somewhere": { "allowedTools": [], "history": [{ "display": "hi" }] }
  },
  "mcpServers": {
    "github": { "type": "stdio", "command": "gh-mcp", "args": [], "env": { "TOKEN": "s3cret-1" } }
  },
  "primaryApiKey": "s3cret-2"
}
"#;

const SETTINGS: &str = r#"{
    // My own hooks.
    "hooks": {
        "Stop": [
            { "hooks": [{ "type": "command", "command": "say done" }] } // loud
        ],
        "PostToolUse": [
            {
                "matcher": "Edit",
                "hooks": [{ "type": "command", "command": "fmt.sh" }],
            },
        ],
    },
    /* the rest */
    "model": "opus",
}"#;

const CODEX: &str = "# Codex\nmodel = \"gpt\"  # mine\n\n[mcp_servers.other]\ncommand = \"x\"\nenv = { TOKEN = \"s3cret-3\" }\n\n[tui]\ntheme = \"dark\"\n# end\n";

#[test]
fn everything_stays_ours_comes_once_and_undo_is_exact() {
    let world = World::new()
        .with(".claude.json", CLAUDE)
        .with(".claude/settings.json", SETTINGS)
        .with(".codex/config.toml", CODEX)
        .with(".codex/hooks.json", "{\n\t\"hooks\": {\n\t\t\"Stop\": []\n\t}\n}\n")
        .with(".gemini/settings.json", "{\"theme\":\"Dark\",\"mcpServers\":{}}")
        .with(".config/opencode/opencode.jsonc", "{\r\n  // crlf\r\n  \"theme\": \"x\"\r\n}\r\n")
        .with(".cursor/mcp.json", "{}")
        .with(".cursor/other.json", "{}")
        .with(
            ".config/Code/User/mcp.json",
            "{\n\t\"servers\": {\n\t\t\"a\": { \"command\": \"b\" }\n\t},\n\t\"inputs\": []\n}\n",
        );
    let before = world.all();
    let shown = world.done(&["--dry-run"]);
    assert_eq!(world.all(), before);
    assert!(
        shown.contains("would change ~/.claude.json") && shown.contains('+') && !shown.contains("s3cret"),
        "{shown}"
    );

    let told = world.done(&[]);
    assert!(told.contains("claude-wait") && !told.contains("s3cret"), "{told}");
    let after = world.all();
    let claude = world.json(".claude.json");
    assert_eq!(claude["mcpServers"]["ringback"]["args"], json!(["mcp"]));
    assert_eq!(claude["mcpServers"]["github"]["env"]["TOKEN"], "s3cret-1");
    let settings = world.read(".claude/settings.json");
    for kept in
        ["// My own hooks.", "// loud", "/* the rest */", "say done", "fmt.sh", "hook claude-stop", "asyncRewake"]
    {
        assert!(settings.contains(kept), "{kept}: {settings}");
    }
    assert!(settings.contains("        \"SessionStart\": ["), "in the indentation of the file: {settings}");
    let codex = world.read(".codex/config.toml");
    assert!(
        codex.starts_with("# Codex\nmodel = \"gpt\"  # mine\n") && codex.contains("[mcp_servers.ringback]"),
        "{codex}"
    );
    assert_eq!(world.json(".codex/hooks.json")["hooks"]["Stop"].as_array().unwrap().len(), 1);
    let gemini = world.json(".gemini/settings.json");
    assert_eq!(
        (&gemini["theme"], &gemini["mcpServers"]["ringback"]["env"]["RINGBACK_SESSION"]),
        (&json!("Dark"), &json!("gemini"))
    );
    assert_eq!(gemini["hooks"]["AfterAgent"][0]["hooks"][0]["timeout"], 20_000);
    assert!(world.read(".config/opencode/opencode.jsonc").contains("// crlf"));
    assert!(world.read(".config/opencode/plugins/ringback.js").contains("opencode-wait"));
    assert_eq!(world.json(".cursor/hooks.json")["hooks"]["stop"][0]["loop_limit"], 5);
    assert_eq!(world.json(".config/Code/User/mcp.json")["servers"]["a"]["command"], "b");

    assert!(world.done(&[]).lines().all(|line| line.starts_with("unchanged ")));
    assert_eq!(world.all(), after, "a second time changes nothing");
    world.done(&["--undo", "--dry-run"]);
    assert_eq!(world.all(), after);
    let told = world.done(&["--undo"]);
    assert!(!told.contains("s3cret"), "{told}");
    assert_eq!(world.all(), before);
    assert!(!world.root.path().join("home/setup").exists(), "and nothing is remembered");
}

#[test]
fn any_layout_comes_back_byte_for_byte() {
    for text in [
        "",
        "{}",
        "{ }\n",
        "{\n}\n",
        "{\"a\":1}",
        "{ \"a\": 1 }\n",
        "{\n \"a\": 1\n}",
        "{\r\n\t\"a\": [\r\n\t]\r\n}\r\n",
        "// only a comment\n",
        "{\n  \"hooks\": {}\n}\n",
        "{\n  \"hooks\": {\"Stop\": []},\n}\n",
        "{\"mcpServers\": {}, \"hooks\": {}}",
        "{\n  \"a\": 1 // last, without a comma\n}\n",
        "\n\n{\n\n  \"a\": {},\n\n}\n\n",
    ] {
        let world = World::new()
            .with(".gemini/settings.json", text)
            .with(".codex/config.toml", "")
            .with(".codex/hooks.json", text);
        let before = world.all();
        world.done(&["gemini", "codex"]);
        assert!(world.read(".gemini/settings.json").contains("gemini-after"), "{text:?}");
        assert!(world.read(".codex/hooks.json").contains("codex-stop"), "{text:?}");
        world.done(&["--undo", "gemini", "codex"]);
        assert_eq!(world.all(), before, "{text:?}");
    }
    for text in
        ["a = 1", "mcp_servers = { x = { command = \"y\" } }\n", "[mcp_servers]\n", "\r\n[x]\r\ny = 1\r\n", "# c\n"]
    {
        let world = World::new().with(".codex/config.toml", text);
        let before = world.read(".codex/config.toml");
        world.done(&["codex"]);
        assert!(world.read(".codex/config.toml").contains("tool_timeout_sec"), "{text:?}");
        world.done(&["--undo", "codex"]);
        assert_eq!(world.read(".codex/config.toml"), before);
    }
}

#[test]
fn what_was_made_goes_again_with_its_folders() {
    let world = World::new();
    let before = world.all();
    for agent in ["claude", "codex", "gemini", "opencode", "cursor", "vscode"] {
        world.done(&[agent]);
        assert_ne!(world.all(), before, "{agent}");
        world.done(&[agent, "--undo"]);
        assert_eq!(world.all(), before, "{agent}");
    }
    let out = world.setup(&[]);
    assert!(out.status.code() == Some(125) && String::from_utf8_lossy(&out.stderr).contains("ringback setup claude"));
}

#[test]
fn what_the_person_changed_meanwhile_stays() {
    let world = World::new().with(".claude.json", "{\n  \"a\": 1\n}\n").with(".claude/settings.json", SETTINGS);
    world.done(&["claude"]);
    let text = world
        .read(".claude.json")
        .replace("\"a\": 1", "\"a\": 2")
        .replace("\"mcpServers\": {", "\"mcpServers\": {\n    \"new\": { \"command\": \"n\" },");
    fs::write(world.me(".claude.json"), &text).unwrap();
    // Our hook and a foreign one in one group.
    let text = world.read(".claude/settings.json").replace(
        "{ \"type\": \"command\", \"command\": \"say done\" }",
        "{ \"type\": \"command\", \"command\": \"say done\" }, { \"type\": \"command\", \"command\": \"ringback hook claude-stop\" }",
    );
    fs::write(world.me(".claude/settings.json"), text).unwrap();
    world.done(&["--undo", "claude"]);
    assert_eq!(world.json(".claude.json"), json!({ "a": 2, "mcpServers": { "new": { "command": "n" } } }));
    let settings = world.read(".claude/settings.json");
    assert!(
        settings.contains("say done") && settings.contains("// loud") && !settings.contains("ringback"),
        "{settings}"
    );
}

#[test]
fn what_cannot_be_read_or_is_somebody_elses_is_left_alone() {
    let broken = "{ \"mcpServers\": { \"x\": s3cret }";
    let foreign = "{\"mcpServers\":{\"ringback\":{\"command\":\"bell\"}}}";
    let world = World::new()
        .with(".claude.json", broken)
        .with(".claude/settings.json", "{\"hooks\": []}")
        .with(".codex/config.toml", "key = \"s3cret\nx = ")
        .with(".cursor/mcp.json", foreign)
        .with(".config/opencode/plugins/ringback.js", "// mine\n")
        .with(".gemini/settings.json", "{}");
    fs::write(world.me(".codex/hooks.json"), b"\xff\xfe").unwrap();
    let out = world.setup(&[]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125));
    for words in [
        "~/.claude.json is left alone: it is not valid JSON",
        "~/.claude/settings.json is left alone: `hooks` in it is not an object",
        "~/.codex/config.toml is left alone: it is not valid TOML",
        "~/.codex/hooks.json is left alone",
        "~/.cursor/mcp.json is left alone: `mcpServers.ringback` is another server",
        "ringback.js is left alone: it is another file of this name",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
    assert_eq!((world.read(".claude.json"), world.read(".cursor/mcp.json")), (broken.to_owned(), foreign.to_owned()));
    assert_eq!(world.read(".config/opencode/plugins/ringback.js"), "// mine\n");
    assert!(world.read(".gemini/settings.json").contains("ringback"), "the others go on");
    world.setup(&["--undo"]);
    assert_eq!((world.read(".claude.json"), world.read(".cursor/mcp.json")), (broken.to_owned(), foreign.to_owned()));
    assert_eq!(world.read(".config/opencode/plugins/ringback.js"), "// mine\n");
    assert_eq!(world.read(".gemini/settings.json"), "{}");
}

#[test]
fn links_and_modes_stay() {
    let world = World::new().with("dotfiles/settings.json", "{}\n");
    fs::create_dir(world.me(".gemini")).unwrap();
    symlink(world.me("dotfiles/settings.json"), world.me(".gemini/settings.json")).unwrap();
    fs::set_permissions(world.me("dotfiles/settings.json"), fs::Permissions::from_mode(0o640)).unwrap();
    world.done(&["gemini"]);
    assert!(fs::symlink_metadata(world.me(".gemini/settings.json")).unwrap().is_symlink());
    let meta = fs::metadata(world.me("dotfiles/settings.json")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    world.done(&["claude"]);
    let made = fs::metadata(world.me(".claude.json")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600, "what is made is private");
    assert!(world.read("dotfiles/settings.json").contains("ringback"));
    world.done(&["--undo", "gemini"]);
    assert_eq!(world.read("dotfiles/settings.json"), "{}\n");
}

#[test]
fn a_project_has_its_own_files_and_json_says_what_was_done() {
    let world = World::new().with(".claude.json", CLAUDE);
    let before = world.all();
    let told: Value = serde_json::from_str(&world.done(&["claude", "--project", "--json"])).unwrap();
    assert_eq!(
        (&told["schema"], &told["files"][0]["state"], &told["files"][1]["agent"]),
        (&json!(1), &json!("made"), &json!("claude"))
    );
    assert_eq!(world.all(), before);
    let project = world.root.path().join("project");
    assert!(project.join(".mcp.json").exists() && project.join(".claude/settings.json").exists());
    world.done(&["claude", "--project", "--undo"]);
    assert_eq!(fs::read_dir(project).unwrap().count(), 0);
}

#[test]
fn what_is_to_be_written_by_hand_is_printed() {
    let world = World::new();
    let text = world.done(&["--print", "codex"]);
    assert!(
        text.contains("# ~/.codex/config.toml\n[mcp_servers.ringback]") && text.contains("hook codex-stop"),
        "{text}"
    );
    let text = world.done(&["--print", "agents-md"]);
    assert!(text.contains("ringback run -n NAME -- CMD") && text.len() < 1000, "{text}");
    assert_eq!(world.setup(&["agents-md"]).status.code(), Some(2));
    assert_eq!(world.setup(&["--print"]).status.code(), Some(2));
    assert!(world.all().is_empty());
}

#[test]
fn the_installed_hooks_can_be_run() {
    let world = World::new();
    world.done(&["claude", "cursor", "gemini", "codex"]);
    let mut lines = Vec::new();
    for file in [".claude/settings.json", ".cursor/hooks.json", ".gemini/settings.json", ".codex/hooks.json"] {
        collect(&world.json(file)["hooks"], &mut lines);
    }
    assert_eq!(lines.len(), 13, "{lines:?}");
    let out = world.command(&["run", "--wait", "-q", "-s", "s1", "true"]).output().unwrap();
    assert!(out.status.success());
    for line in lines {
        let mut hook = world.command(&[]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&line).envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("RINGBACK_SESSION");
        hook.stdin(Stdio::null());
        let mut child = shell.spawn().unwrap();
        child.stdin.take().unwrap().write_all(br#"{"session_id":"s1"}"#).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stdout.is_empty() && out.stderr.is_empty(), "{line}: {out:?}");
    }
}

fn collect(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            lines.extend(fields.get("command").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, lines));
        }
        Value::Array(all) => all.iter().for_each(|value| collect(value, lines)),
        _ => {}
    }
}

#[test]
fn the_plugin_of_opencode_tells_the_session_that_called() {
    if Command::new("node").arg("--version").output().is_err() {
        // It is run where there is a program that runs it.
        return;
    }
    let world = World::new();
    world.done(&["opencode"]);
    let plugin = world.root.path().join("plugin.mjs");
    fs::copy(world.me(".config/opencode/plugins/ringback.js"), &plugin).unwrap();
    let script = r#"
        const { Ringback } = await import(process.argv[2])
        const told = new Promise((resolve) => {
          const client = { session: { promptAsync: async (call) => resolve(call) } }
          globalThis.hooks = Ringback({ client })
        })
        const hooks = await globalThis.hooks
        const shell = { env: {} }
        await hooks["shell.env"]({}, shell)
        const { execFileSync } = await import("node:child_process")
        const id = execFileSync(process.argv[3], ["run", "-q", "-c", "echo over; exit 6"], { env: { ...process.env, ...shell.env } }).toString().trim()
        const input = { tool: "bash", sessionID: "ses_1", callID: "c1", args: { command: "ringback run x" } }
        await hooks["tool.execute.after"]({ tool: "read", sessionID: "ses_0" }, { output: id })
        await hooks["tool.execute.after"](input, { output: id + "\n" })
        const call = await told
        console.log(JSON.stringify({ id, session: call.path.id, text: call.body.parts[0].text }))
    "#;
    let file = world.root.path().join("drive.mjs");
    fs::write(&file, script).unwrap();
    let mut node = Command::new("node");
    node.arg(&file).arg(&plugin).arg(env!("CARGO_BIN_EXE_ringback"));
    node.env("RINGBACK_HOME", world.root.path().join("home")).env_remove("RINGBACK_SESSION").stdin(Stdio::null());
    let out = node.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: Value = serde_json::from_slice(&out.stdout).unwrap();
    let text = said["text"].as_str().unwrap();
    assert_eq!(said["session"], "ses_1");
    assert!(text.contains("FAILED exit 6") && text.contains(said["id"].as_str().unwrap()), "{text}");
}
