//! Where each agent keeps its settings, for the person or for the project.

use std::env;
use std::path::{Path, PathBuf};

use super::agents::Agent;

/// The folders that settings are found from.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    home: PathBuf,
    config: PathBuf,
    claude: Option<PathBuf>,
    codex: Option<PathBuf>,
    /// Only this project's settings.
    project: Option<PathBuf>,
}

impl Places {
    /// Those of this process; nothing without a home folder.
    pub(crate) fn find(project: Option<PathBuf>) -> Option<Self> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = folder("HOME")?;
        Some(Self {
            config: folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: folder("CLAUDE_CONFIG_DIR"),
            codex: folder("CODEX_HOME"),
            home,
            project,
        })
    }

    /// Whether the person seems to use this agent.
    pub(super) fn has(&self, agent: Agent) -> bool {
        let at_home = |name: &str| self.home.join(name).exists();
        match agent {
            Agent::Claude => {
                self.claude.as_deref().is_some_and(Path::exists) || at_home(".claude") || at_home(".claude.json")
            }
            Agent::Codex => self.codex().exists(),
            Agent::Gemini => at_home(".gemini"),
            Agent::Opencode => self.config.join("opencode").exists(),
            Agent::Cursor => at_home(".cursor"),
            Agent::Vscode => self.config.join("Code/User").exists(),
        }
    }

    fn codex(&self) -> PathBuf {
        self.codex.clone().unwrap_or_else(|| self.home.join(".codex"))
    }

    /// Where this agent looks for servers of tools.
    pub(super) fn servers(&self, agent: Agent) -> PathBuf {
        if let Some(project) = &self.project {
            return project.join(match agent {
                Agent::Claude => ".mcp.json",
                Agent::Codex => ".codex/config.toml",
                Agent::Gemini => ".gemini/settings.json",
                Agent::Opencode => return either(project, "opencode.json", "opencode.jsonc"),
                Agent::Cursor => ".cursor/mcp.json",
                Agent::Vscode => ".vscode/mcp.json",
            });
        }
        match agent {
            Agent::Claude => self.claude.as_deref().unwrap_or(&self.home).join(".claude.json"),
            Agent::Codex => self.codex().join("config.toml"),
            Agent::Gemini => self.home.join(".gemini/settings.json"),
            Agent::Opencode => either(&self.config.join("opencode"), "opencode.json", "opencode.jsonc"),
            Agent::Cursor => self.home.join(".cursor/mcp.json"),
            Agent::Vscode => self.config.join("Code/User/mcp.json"),
        }
    }

    /// Where this agent looks for hooks, or for a plugin that has its hooks.
    pub(super) fn hooks(&self, agent: Agent) -> Option<PathBuf> {
        let (base, folder) = match (&self.project, agent) {
            (_, Agent::Vscode) => return None,
            (Some(project), Agent::Claude) => (project.clone(), ".claude/settings.json"),
            (Some(project), Agent::Codex) => (project.clone(), ".codex/hooks.json"),
            (Some(project), Agent::Opencode) => (project.clone(), ".opencode/plugins/ringback.js"),
            (None, Agent::Claude) => match &self.claude {
                Some(folder) => (folder.clone(), "settings.json"),
                None => (self.home.clone(), ".claude/settings.json"),
            },
            (None, Agent::Codex) => (self.codex(), "hooks.json"),
            (None, Agent::Opencode) => (self.config.clone(), "opencode/plugins/ringback.js"),
            (project, Agent::Gemini) => (project.clone().unwrap_or_else(|| self.home.clone()), ".gemini/settings.json"),
            (project, Agent::Cursor) => (project.clone().unwrap_or_else(|| self.home.clone()), ".cursor/hooks.json"),
        };
        Some(base.join(folder))
    }
}

/// The file that is there, else the first.
fn either(folder: &Path, first: &str, second: &str) -> PathBuf {
    let (first, second) = (folder.join(first), folder.join(second));
    if !first.exists() && second.exists() { second } else { first }
}
