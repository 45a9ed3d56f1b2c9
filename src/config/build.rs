//! From the merged layers to the values that are handed down: defaults, cross checks, secrets, the model in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::value::failure::Warning;
use secrecy::SecretString;

use super::file::{
    AutoAsk, CronFile, FileConfig, Freshness as WrittenFreshness, HeadlessFile, JitterFile,
    ProviderFile, TaskFile,
};
use super::redact::Redactor;
use super::secret::Resolver;
use super::tree::{Node, Place, path};
use super::values::{
    Broken, Config, CronConfig, Freshness, HeadlessConfig, HeadlessMode, ProviderConfig, TaskConfig,
};
use super::{known, model, provider};
use crate::kernel::rule::{RuleDecision, RuleText};

/// What is gathered while the values are made.
pub(super) struct Builder<'a> {
    tree: &'a Node,
    resolver: Resolver<'a>,
    warnings: Vec<Warning>,
    secrets: Vec<SecretString>,
    /// Variables that hold secrets.
    used: Vec<String>,
    broken: Option<Broken>,
}

impl<'a> Builder<'a> {
    /// Starts from the merged layers and what was said about them.
    pub(super) fn new(
        tree: &'a Node,
        resolver: Resolver<'a>,
        warnings: Vec<Warning>,
        broken: Option<Broken>,
    ) -> Self {
        Self {
            tree,
            resolver,
            warnings,
            secrets: Vec::new(),
            used: Vec::new(),
            broken,
        }
    }
}

impl Builder<'_> {
    /// `is_headless`: for one run to completion, not for a server.
    pub(super) fn build(
        &mut self,
        file: &FileConfig,
        rules: Vec<RuleText>,
        is_headless: bool,
    ) -> Config {
        let mut config = Config {
            default_permission_mode: file.default_permission_mode.unwrap_or_default(),
            thinking_effort: file.thinking.effort.clone(),
            sensitive_extra: file.sensitive.extra.clone(),
            sensitive_allow: file.sensitive.allow.clone(),
            trusted_link_targets: file
                .paths
                .trusted_link_targets
                .iter()
                .filter(|path| !path.is_empty())
                .map(|path| self.resolver.path(path))
                .collect(),
            files_fsync: file.files.fsync.unwrap_or(true),
            files_freshness: match file.files.freshness {
                Some(WrittenFreshness::Strict) => Freshness::Strict,
                None | Some(WrittenFreshness::Default) => Freshness::Default,
                Some(WrittenFreshness::Off) => Freshness::Off,
            },
            ..Config::default()
        };
        for (name, written) in &file.providers {
            if let Some(provider) = self.provider(name, written) {
                config.providers.insert(name.clone(), provider);
            }
        }
        for (alias, written) in &file.models {
            let model = model::build(
                alias,
                written,
                &config.providers,
                self.tree,
                &mut self.warnings,
            );
            config
                .models
                .extend(model.map(|model| (alias.clone(), model)));
        }
        if let Some(edge) = file.image.max_edge_px {
            config.image.max_edge_px = edge.get();
        }
        if let Some(bytes) = file.image.read_byte_budget {
            config.image.read_byte_budget = bytes.get();
        }
        if let Some(steps) = file.turn.max_steps_per_turn {
            config.turn.max_steps_per_turn = steps;
        }
        if let Some(attempts) = file.turn.max_attempts_per_step {
            config.turn.max_attempts_per_step = attempts.max(1);
        }
        if let Some(bytes) = file.limits.max_message_bytes {
            config.limits.max_message_bytes = bytes.get();
        }
        if let Some(requests) = file.limits.max_in_flight {
            config.limits.max_in_flight = requests.get();
        }
        if let Some(turns) = file.limits.max_queued_turns {
            config.limits.max_queued_turns = turns;
        }
        if let Some(seconds) = file.permission.approval_timeout_s {
            config.permission.approval_timeout =
                (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        }
        if let Some(seconds) = file.permission.detached_wait_s {
            config.permission.detached_wait = Duration::from_secs(u64::from(seconds));
        }
        config.permission.auto_ask_denies = file.permission.auto_ask == Some(AutoAsk::Deny);
        if file.permission.auto_ask.is_none()
            && let Some(rule) = rules.iter().find(|rule| rule.decision == RuleDecision::Ask)
        {
            let message = "Ask rules have no effect in auto mode, except on Bash; `permission.auto_ask = \"deny\"` makes \
                           them refuse there, and `\"allow\"` silences this.";
            let warning = Warning::new("config", format!("{}: {message}", rule.place));
            self.warnings.push(Warning {
                key: Some("permission.auto_ask".to_owned()),
                ..warning
            });
        }
        config.permission.rules = rules;
        config.session.run_detached = file.session.run_detached;
        let for_ever_at_0 =
            |seconds: u32| (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        if let Some(seconds) = file.session.unload_idle_s {
            config.session.unload_idle = for_ever_at_0(seconds);
        }
        if let Some(seconds) = file.daemon.idle_exit_s {
            config.daemon.idle_exit = for_ever_at_0(seconds);
        }
        config.shell.path = file
            .shell
            .path
            .as_deref()
            .filter(|path| !path.is_empty())
            .map(|path| self.resolver.path(path));
        config.shell.env_exclude.clone_from(&file.shell.env_exclude);
        if let Some(bytes) = file.shell.output_kill_bytes {
            config.shell.output_kill_bytes = bytes;
        }
        config.cron = cron(&file.cron);
        config.shell.kill_survivors = file.shell.kill_survivors.unwrap_or_default();
        config.task = task(&file.task, is_headless);
        config.log_level = self.log_level(file);
        config.clock_file = self.variable_path("LONGSHORE_CLOCK_FILE");
        config.script = self.variable_path("LONGSHORE_SCRIPT");
        config.script_trace = self.variable_path("LONGSHORE_SCRIPT_TRACE");
        config
    }

    fn provider(&mut self, name: &str, written: &ProviderFile) -> Option<ProviderConfig> {
        self.resolver.used.clear();
        let mut entry = provider::Entry {
            name,
            tree: self.tree,
            warnings: &mut self.warnings,
        };
        let provider = provider::build(written, &mut entry, &mut self.resolver, &mut self.secrets);
        self.used.append(&mut self.resolver.used);
        provider
    }

    /// `--model` beats the one-shot model, and that the configured default.
    pub(super) fn choose_model(
        &mut self,
        file: &FileConfig,
        config: &mut Config,
        option: Option<&str>,
    ) {
        let mut chosen = file
            .default_model
            .clone()
            .map(|model| (model, self.place("default_model")));
        if let Some(one_shot) = model::one_shot(self.resolver.variables) {
            chosen = None;
            let added = one_shot.and_then(|one_shot| {
                let alias = self.add_one_shot(&one_shot, config)?;
                Ok((alias, one_shot.effort))
            });
            match added {
                Ok((alias, effort)) => {
                    if option.is_none() && effort.is_some() {
                        config.thinking_effort = effort;
                    }
                    chosen = Some((alias, Place::Named(Arc::from("LONGSHORE_MODEL_NAME"))));
                }
                Err((variable, message)) if option.is_none() && self.broken.is_none() => {
                    self.broken = Some(Broken {
                        file: PathBuf::from(variable),
                        line: 0,
                        column: 0,
                        message,
                    });
                }
                Err((variable, message)) => {
                    self.warnings
                        .push(Place::Named(Arc::from(variable)).warning(None, &message));
                }
            }
        }
        if let Some(option) = option {
            chosen = Some((option.to_owned(), Place::Named(Arc::from("--model"))));
        }
        self.shared_settings(config);
        let Some((alias, place)) = chosen else { return };
        if alias != model::DEMO && !config.models.contains_key(&alias) {
            let names = config
                .models
                .keys()
                .map(String::as_str)
                .chain([model::DEMO]);
            let message = format!(
                "There is no usable model `{alias}`{}",
                known::hint(&alias, names)
            );
            self.warnings
                .push(place.warning(Some("default_model".to_owned()), &message));
            return;
        }
        if let (Some(model), Some(effort)) = (config.models.get(&alias), &config.thinking_effort)
            && !model.support_efforts.is_empty()
            && !model.support_efforts.contains(effort)
            && !matches!(effort.as_str(), "on" | "off")
        {
            let message =
                format!("The model `{alias}` has no effort `{effort}`; its own default is used.");
            self.warnings.push(
                self.place("thinking")
                    .warning(Some("thinking.effort".to_owned()), &message),
            );
        }
        config.default_model = Some(alias);
    }

    fn add_one_shot(
        &mut self,
        one_shot: &model::OneShot,
        config: &mut Config,
    ) -> Result<String, (&'static str, String)> {
        let alias = &one_shot.alias;
        let n_warnings = self.warnings.len();
        let provider = self.provider(alias, &one_shot.provider);
        let told = self.warnings.split_off(n_warnings);
        let Some(provider) = provider else {
            let why = told
                .last()
                .map_or_else(String::new, |warning| warning.message.clone());
            let variable = if why.contains("base_url") {
                "LONGSHORE_MODEL_BASE_URL"
            } else {
                "LONGSHORE_MODEL_TYPE"
            };
            return Err((
                variable,
                format!(
                    "{variable} can't be used. {}",
                    why.trim_start_matches("defaults: ")
                ),
            ));
        };
        config.providers.insert(alias.clone(), provider);
        if let Some(model) = model::build(
            alias,
            &one_shot.model,
            &config.providers,
            self.tree,
            &mut self.warnings,
        ) {
            config.models.insert(alias.clone(), model);
        }
        Ok(alias.clone())
    }

    /// What single variables set for all providers and models.
    fn shared_settings(&mut self, config: &mut Config) {
        if let Some(lines) = self.resolver.variable("LONGSHORE_HEADERS") {
            self.used.push("LONGSHORE_HEADERS".to_owned());
            let place = Place::Named(Arc::from("LONGSHORE_HEADERS"));
            let warnings = &mut self.warnings;
            provider::shared_headers(
                &lines,
                &mut config.providers,
                &mut self.secrets,
                |message| {
                    warnings.push(place.warning(None, message));
                },
            );
        }
        for (name, most) in [("LONGSHORE_TEMPERATURE", 2.0), ("LONGSHORE_TOP_P", 1.0)] {
            let Some(text) = self.resolver.variable(name) else {
                continue;
            };
            let Some(value) = text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|value| (0.0..=most).contains(value))
            else {
                let message = format!("It should be a number between 0 and {most}; it is ignored.");
                self.warnings
                    .push(Place::Named(Arc::from(name)).warning(None, &message));
                continue;
            };
            for model in config.models.values_mut() {
                if most > 1.0 {
                    model.temperature = Some(value);
                } else {
                    model.top_p = Some(value);
                }
            }
        }
    }

    fn log_level(&mut self, file: &FileConfig) -> Option<String> {
        let level = file
            .log
            .level
            .as_deref()
            .map(str::trim)
            .filter(|level| !level.is_empty())?;
        let is_level = ["off", "error", "warn", "info", "debug", "trace"]
            .contains(&level.to_ascii_lowercase().as_str());
        if !is_level && !level.contains('=') {
            let at = path(["log", "level"]);
            let place = self
                .tree
                .get(&at)
                .map_or_else(|| self.tree.place.clone(), |node| node.place.clone());
            let message = "`log.level` should be off, error, warn, info, debug, trace or directives; it is ignored.";
            self.warnings
                .push(place.warning(Some("log.level".to_owned()), message));
            return None;
        }
        Some(level.to_owned())
    }

    fn variable_path(&mut self, name: &str) -> Option<PathBuf> {
        let value = self.resolver.variable(name)?;
        let base = self.resolver.base.take();
        let path = self.resolver.path(value.trim());
        self.resolver.base = base;
        Some(path)
    }

    fn place(&self, key: &str) -> Place {
        self.tree
            .get(&path([key]))
            .map_or_else(|| self.tree.place.clone(), |node| node.place.clone())
    }

    pub(super) fn finish(mut self, mut config: Config) -> Config {
        if let Some(broken) = &self.broken {
            let file = broken.file.display().to_string();
            let place = if broken.line > 0 {
                Place::File {
                    file: Arc::from(file),
                    line: broken.line,
                    column: broken.column,
                }
            } else {
                Place::Named(Arc::from(file))
            };
            let message = format!("No turn runs until this is mended: {}", broken.message);
            self.warnings.insert(0, place.warning(None, &message));
        }
        self.used.sort();
        self.used.dedup();
        for variable in self.used {
            if !config.shell.env_exclude.contains(&variable) {
                config.shell.env_exclude.push(variable);
            }
        }
        config.redactor = Redactor::new(self.secrets);
        config.broken = self.broken;
        config.warnings = self.warnings;
        config
    }
}

fn cron(file: &CronFile) -> CronConfig {
    let default = CronConfig::default();
    CronConfig {
        enabled: file.enabled.unwrap_or(default.enabled),
        jitter: file.jitter != Some(JitterFile::Off),
        max_age_days: file.max_age_days.unwrap_or(default.max_age_days),
        max_jobs: file.max_jobs.unwrap_or(default.max_jobs),
        wake_closed_sessions: file
            .wake_closed_sessions
            .unwrap_or(default.wake_closed_sessions),
        max_unattended_fires: file
            .max_unattended_fires
            .unwrap_or(default.max_unattended_fires),
    }
}

fn task(written: &TaskFile, is_headless: bool) -> TaskConfig {
    let usual = TaskConfig::default();
    TaskConfig {
        max_running: written
            .max_running
            .map_or(usual.max_running, std::num::NonZero::get),
        bash_timeout: match written.bash_timeout_s {
            // Who waits for the end of all work has no use for another end of it.
            None if is_headless => None,
            None => usual.bash_timeout,
            Some(0) => None,
            Some(seconds) => Some(Duration::from_secs(u64::from(seconds))),
        },
        auto_background: written
            .bash_auto_background_on_timeout
            .unwrap_or(usual.auto_background),
        kill_grace: written
            .kill_grace_ms
            .map_or(usual.kill_grace, |ms| Duration::from_millis(u64::from(ms))),
        keep_alive: written.keep_alive_on_exit.unwrap_or(usual.keep_alive),
        log_max_bytes: written
            .log_max_bytes
            .map_or(usual.log_max_bytes, std::num::NonZero::get),
        session_log_budget: written
            .session_log_budget
            .map_or(usual.session_log_budget, std::num::NonZero::get),
        headless: HeadlessConfig {
            mode: match written.headless_mode {
                None => usual.headless.mode,
                Some(HeadlessFile::Exit) => HeadlessMode::Exit,
                Some(HeadlessFile::Drain) => HeadlessMode::Drain,
                Some(HeadlessFile::Steer) => HeadlessMode::Steer,
            },
            wait_ceiling: written
                .headless_wait_ceiling_s
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(u64::from(seconds))),
            max_turns: written
                .headless_max_turns
                .map_or(usual.headless.max_turns, std::num::NonZero::get),
        },
    }
}
