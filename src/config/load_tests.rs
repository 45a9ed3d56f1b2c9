//! From files, variables and options to the effective configuration, and what is said on the way.

use std::fmt::Write as _;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::values::{Freshness, HeadlessConfig, HeadlessMode, ModelConfig, TaskConfig, Wire};
use super::*;
use crate::kernel::rule::RuleDecision;

const FILE: &str = "/home/u/.longshore/config.toml";

const MODEL: &str = "
[providers.p]
type = \"openai\"
base_url = \"https://example.org/v1\"
api_key = \"sk-0123456789\"

[models.m]
provider = \"p\"
model = \"x-1\"
max_context_size = 1000
";

/// What is loaded, and with what besides.
#[derive(Default)]
struct Given<'a> {
    file: &'a str,
    variables: &'a [(&'a str, &'a str)],
    options: &'a [&'a str],
    model: Option<&'a str>,
    is_headless: bool,
}

impl Given<'_> {
    fn load(&self) -> Config {
        load(LoadInput {
            user: Some(UserFile {
                path: FILE.into(),
                content: Ok(self.file.as_bytes().to_vec()),
            }),
            variables: self
                .variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            assignments: self
                .options
                .iter()
                .map(|text| Assignment::parse(text).expect("an assignment"))
                .collect(),
            is_headless: self.is_headless,
            model: self.model.map(str::to_owned),
            home: Some("/home/u".into()),
            read_secret: &|path: &Path| {
                if path == Path::new("/home/u/.longshore/key") {
                    Ok(SecretText {
                        text: "file-secret\n".to_owned(),
                        private: false,
                    })
                } else {
                    Err("it does not exist".to_owned())
                }
            },
        })
    }
}

fn file(text: &str) -> Config {
    Given {
        file: text,
        ..Given::default()
    }
    .load()
}

fn messages(config: &Config) -> Vec<&str> {
    config
        .warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect()
}

#[track_caller]
fn says(config: &Config, expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|text| text.replace("FILE", FILE))
        .collect();
    assert_eq!(messages(config), expected);
}

fn key(config: &Config, provider: &str) -> Option<Result<String, String>> {
    let key = config.providers[provider].api_key.as_ref()?;
    Some(
        key.as_ref()
            .map(|key| key.expose_secret().to_owned())
            .map_err(Clone::clone),
    )
}

fn rules(config: &Config) -> Vec<(RuleDecision, &str, &str)> {
    config
        .permission
        .rules
        .iter()
        .map(|rule| (rule.decision, rule.pattern.as_str(), rule.place.as_str()))
        .collect()
}

#[test]
fn nothing_configured_is_the_defaults() {
    for config in [load(LoadInput::default()), file(""), file("\u{feff}")] {
        says(&config, &[]);
        assert!(
            config.broken.is_none() && config.default_model.is_none() && config.models.is_empty()
        );
        assert_eq!(
            config.turn,
            values::LoopConfig {
                max_steps_per_turn: 0,
                max_attempts_per_step: 10
            }
        );
        assert_eq!(config.limits, values::LimitsConfig::default());
        assert_eq!(config.permission, values::PermissionConfig::default());
        assert_eq!(config.shell, values::ShellConfig::default());
        assert_eq!(config.session, values::SessionConfig::default());
        assert_eq!(config.daemon, values::DaemonConfig::default());
        assert!(config.files_fsync);
    }
}

#[test]
fn every_key_reaches_its_value() {
    let config = file(
        r#"
default_model = "m"
default_permission_mode = "yolo"

[providers.p]
type = "kimi"
api_key = "sk-0123456789"
headers = { X-A = "1", X-Empty = "" }
query = { v = "2" }
extra_body = { a = { b = [1, "x"] } }
connect_timeout_s = 1
headers_timeout_s = 0
idle_timeout_s = 3
compat = { stream_usage = false }

[providers.s]
type = "scripted"
script = "~/demo.yaml"

[models.m]
provider = "p"
model = "k2"
max_context_size = 131_072
max_output_size = 4096
capabilities = ["thinking", "-image_in"]
display_name = "K"
support_efforts = ["low", "high"]
default_effort = "high"
reasoning_key = "reasoning"
inline_think = true
temperature = 1
top_p = 0.5
extra_body = { c = 1 }

[models.s]
provider = "s"
model = "s"

[thinking]
effort = "low"

[loop]
max_steps_per_turn = 7
max_attempts_per_step = 0

[limits]
max_message_bytes = 1
max_in_flight = 2
max_queued_turns = 0

[permission]
auto_ask = "deny"
approval_timeout_s = 0
detached_wait_s = 5
deny = ["Bash"]

[session]
run_detached = true
unload_idle_s = 0

[daemon]
idle_exit_s = 7

[sensitive]
extra = ["*.pem"]
allow = [".env.test"]

[shell]
path = "~/bin/sh"
env_exclude = ["AWS_*"]
output_kill_bytes = 9

[paths]
trusted_link_targets = ["~/shared", "/opt/lib"]

[files]
fsync = false
freshness = "strict"

[log]
level = "debug"
"#,
    );
    says(&config, &[]);
    assert_eq!(config.default_model.as_deref(), Some("m"));
    assert_eq!(config.default_permission_mode.as_str(), "yolo");
    assert_eq!(
        (config.session.run_detached, config.session.unload_idle),
        (Some(true), None)
    );
    assert_eq!(config.daemon.idle_exit, Some(Duration::from_secs(7)));
    let provider = &config.providers["p"];
    assert_eq!(
        (provider.wire, provider.base_url.as_deref()),
        (Wire::Chat, Some("https://api.moonshot.ai/v1"))
    );
    assert_eq!(key(&config, "p"), Some(Ok("sk-0123456789".to_owned())));
    assert_eq!(provider.headers.keys().collect::<Vec<_>>(), ["X-A"]);
    assert_eq!(provider.query["v"], "2");
    assert_eq!(
        Value::Object(provider.extra_body.clone()),
        serde_json::json!({"a": {"b": [1, "x"]}})
    );
    let timeouts = [
        provider.connect_timeout,
        provider.headers_timeout,
        provider.idle_timeout,
    ];
    assert_eq!(timeouts.map(|timeout| timeout.as_secs()), [1, 0, 3]);
    assert_eq!(
        Value::Object(provider.compat.clone()),
        serde_json::json!({"max_tokens_field": "max_completion_tokens", "stream_usage": false})
    );
    assert_eq!(config.providers["s"].wire, Wire::Scripted);
    assert_eq!(
        config.providers["s"].script.as_deref(),
        Some(Path::new("/home/u/demo.yaml"))
    );
    assert_eq!(
        config.models["m"],
        ModelConfig {
            provider: "p".to_owned(),
            model: "k2".to_owned(),
            max_context_size: 131_072,
            max_output_size: Some(4096),
            capabilities: vec!["thinking".to_owned(), "-image_in".to_owned()],
            display_name: Some("K".to_owned()),
            support_efforts: vec!["low".to_owned(), "high".to_owned()],
            default_effort: Some("high".to_owned()),
            reasoning_key: Some("reasoning".to_owned()),
            inline_think: true,
            temperature: Some(1.0),
            top_p: Some(0.5),
            extra_body: serde_json::from_str(r#"{"c": 1}"#).expect("an object"),
        }
    );
    assert_eq!(config.models["s"].max_context_size, 200_000);
    assert_eq!(config.thinking_effort.as_deref(), Some("low"));
    assert_eq!(
        config.turn,
        values::LoopConfig {
            max_steps_per_turn: 7,
            max_attempts_per_step: 1
        }
    );
    assert_eq!(
        config.limits,
        values::LimitsConfig {
            max_message_bytes: 1,
            max_in_flight: 2,
            max_queued_turns: 0
        }
    );
    assert!(config.permission.auto_ask_denies && config.permission.approval_timeout.is_none());
    assert_eq!(config.permission.detached_wait.as_secs(), 5);
    assert_eq!(rules(&config)[0].1, "Bash");
    assert_eq!(
        (config.sensitive_extra, config.sensitive_allow),
        (vec!["*.pem".into()], vec![".env.test".into()])
    );
    assert_eq!(
        config.shell.path.as_deref(),
        Some(Path::new("/home/u/bin/sh"))
    );
    assert_eq!(
        (config.shell.env_exclude, config.shell.output_kill_bytes),
        (vec!["AWS_*".to_owned()], 9)
    );
    assert_eq!(
        config.trusted_link_targets,
        [Path::new("/home/u/shared"), Path::new("/opt/lib")]
    );
    assert!(!config.files_fsync);
    assert_eq!(config.files_freshness, Freshness::Strict);
    assert_eq!(config.log_level.as_deref(), Some("debug"));
}

#[test]
fn a_faulty_key_costs_that_key_only() {
    let mut text = "\u{feff}default_modl = \"m\"\n[loop]\nmax_steps_per_turn = \"many\"\nmax_attempts_per_step = 4\n".to_owned();
    write!(
        text,
        "[limits]\nmax_in_flight = 0\nmax_queued_turns = 3\n[log]\nlevel = \"loud\"\n{MODEL}"
    )
    .expect("text");
    let config = file(&text);
    says(
        &config,
        &[
            "FILE:1:1: `default_modl` is unknown; did you mean `default_model`?",
            "FILE:6:1: `limits.max_in_flight` is 0, but should be a whole number, 1 or more; it is ignored.",
            "FILE:3:1: `loop.max_steps_per_turn` is a string, but should be a whole number, 0 or more; it is ignored.",
            "FILE:9:1: `log.level` should be off, error, warn, info, debug, trace or directives; it is ignored.",
        ],
    );
    assert_eq!(
        config.turn,
        values::LoopConfig {
            max_steps_per_turn: 0,
            max_attempts_per_step: 4
        }
    );
    assert_eq!(
        (config.limits.max_in_flight, config.limits.max_queued_turns),
        (256, 3)
    );
    assert!(config.models.contains_key("m"));
    let warning = &config.warnings[2];
    assert_eq!(
        (
            warning.topic.as_str(),
            warning.file.as_deref(),
            warning.line
        ),
        ("config", Some(FILE), Some(3))
    );
    assert_eq!(warning.key.as_deref(), Some("loop.max_steps_per_turn"));
}

#[test]
fn broken_syntax_leaves_the_defaults_and_says_where() {
    let config =
        file("default_permission_mode = \"yolo\"\n[permission]\ndeny = [\"Bash\"\nx = 1\n");
    let broken = config.broken.clone().expect("broken");
    assert_eq!(
        (broken.file.to_str(), broken.line),
        (Some(FILE), 4),
        "{}",
        broken.message
    );
    let lines: Vec<&str> = broken.message.lines().collect();
    assert_eq!(lines[1], "4 | x = 1");
    assert_eq!(lines[2].find('^'), Some(4 + broken.column as usize - 1));
    assert_eq!(config.default_permission_mode.as_str(), "manual");
    assert_eq!(config.warnings.len(), 1);
    assert!(
        config.warnings[0]
            .message
            .contains("No turn runs until this is mended")
    );
    assert_eq!(config.warnings[0].line, Some(4));
}

#[test]
fn files_that_are_no_text_or_can_not_be_read_are_broken() {
    let user = |content| {
        Some(UserFile {
            path: FILE.into(),
            content,
        })
    };
    let config = load(LoadInput {
        user: user(Ok(b"a = 1\n\xff".to_vec())),
        ..LoadInput::default()
    });
    assert_eq!(
        config.broken.map(|broken| (broken.line, broken.column)),
        Some((2, 1))
    );
    let config = load(LoadInput {
        user: user(Err("permission denied".to_owned())),
        ..LoadInput::default()
    });
    says(
        &config,
        &["FILE: No turn runs until this is mended: permission denied"],
    );
    assert_eq!(config.broken.map(|broken| broken.line), Some(0));
}

#[test]
fn a_bad_provider_or_model_is_dropped_alone() {
    let config = file(&format!(
        r#"{MODEL}
[providers.typed]
type = "openai"
headers = 5

[providers.later]
type = "anthropic"

[providers.wrong]
type = "opnai"

[providers.none]

[providers.url]
type = "openai"
base_url = "example.org"

[models.orphan]
provider = "later"
model = "x"
max_context_size = 1

[models.contextless]
provider = "p"
model = "x"

[models.mistyped]
provider = "p"
model = "x"
max_contxt_size = 1
max_context_size = "big"
"#
    ));
    says(
        &config,
        &[
            "FILE:40:1: `models.mistyped.max_contxt_size` is unknown; did you mean `max_context_size`?",
            "FILE:41:1: `models.mistyped.max_context_size` is a string, but should be a whole number, 1 or more; \
             `models.mistyped` is ignored.",
            "FILE:14:1: `providers.typed.headers` is a number, but should be a table; `providers.typed` is ignored.",
            "FILE:17:1: Providers of type `anthropic` are not available yet; `later` is ignored.",
            "FILE:22:12: The provider `none` has no `type` and is ignored.",
            "FILE:26:1: `base_url` is no http or https address; the provider is ignored.",
            "FILE:20:1: There is no provider type `opnai`, so `wrong` is ignored; did you mean `openai`?",
            "FILE:33:9: The model `contextless` has no `max_context_size` and is ignored.",
            "FILE:29:1: There is no usable provider `later`, so the model `orphan` is ignored.",
        ],
    );
    assert_eq!(config.providers.keys().collect::<Vec<_>>(), ["p"]);
    assert_eq!(config.models.keys().collect::<Vec<_>>(), ["m"]);
}

#[test]
fn names_with_dots_are_explained() {
    let config = file(&format!(
        "{MODEL}[models.gpt-4.1]\nprovider = \"p\"\nmodel = \"gpt-4.1\"\nmax_context_size = 1\n"
    ));
    assert!(messages(&config)[0].ends_with(
        "`models.gpt-4.1` is unknown. A name with a dot needs quotes: `[models.\"gpt-4.1\"]`."
    ));
    let config = file(&format!(
        "{MODEL}[models.\"gpt-4.1\"]\nprovider = \"p\"\nmodel = \"g\"\nmax_context_size = 1\n"
    ));
    says(&config, &[]);
    assert!(config.models.contains_key("gpt-4.1"));
}

#[test]
fn values_are_never_quoted() {
    let config = file(
        "[providers.p]\ntype = \"openai\"\napi_key = [\"sk-topsecret\"]\nconnect_timeout_s = \"sk-other\"\n",
    );
    assert!(!messages(&config).is_empty());
    assert!(
        !messages(&config).concat().contains("sk-"),
        "{:?}",
        messages(&config)
    );
}

#[test]
fn overrides_win() {
    let config = file(&format!(
        r#"{MODEL}
support_efforts = ["low", "high"]
default_effort = "high"
[models.m.overrides]
max_context_size = 5
support_efforts = ["none", "low"]
provider = "q"
"#
    ));
    says(
        &config,
        &["FILE:14:11: `provider`, `model` and `overrides` can't be overridden; they are ignored."],
    );
    let model = &config.models["m"];
    assert_eq!((model.max_context_size, model.provider.as_str()), (5, "p"));
    assert_eq!(model.default_effort, None);
    assert_eq!(model.support_efforts, ["none", "low"]);
}

#[test]
fn keys_without_effect_are_said() {
    let config = file(
        "default_plan_mode = true\n[goal]\nauto_resume = true\n[mcp.servers.x]\ncommand = \"y\"\n[loop]\ncompaction_ratio = 0.5\n",
    );
    says(
        &config,
        &[
            "FILE:1:1: `default_plan_mode` has no effect yet.",
            "FILE:2:2: `goal` has no effect yet.",
            "FILE:7:1: `loop.compaction_ratio` has no effect yet.",
            "FILE:4:2: `mcp` has no effect yet.",
        ],
    );
}

#[test]
fn tasks() {
    let config = Given {
        file: "[shell]\nkill_survivors = true\n[task]\nmax_running = 0\nbash_timeout_s = 0\nkill_grace_ms = 0\n\
               bash_auto_background_on_timeout = false\nlog_max_bytes = 1024\nheadless_mode = \"drain\"\n\
               headless_wait_ceiling_s = 90\nheadless_max_turns = 3\n",
        variables: &[
            ("LONGSHORE_MAX_RUNNING_TASKS", "9"),
            ("LONGSHORE_TASK_KEEP_ALIVE", "yes"),
        ],
        ..Given::default()
    }
    .load();
    assert!(config.shell.kill_survivors);
    let expected = TaskConfig {
        max_running: 9,
        bash_timeout: None,
        auto_background: false,
        keep_alive: true,
        kill_grace: std::time::Duration::ZERO,
        log_max_bytes: 1024,
        headless: HeadlessConfig {
            mode: HeadlessMode::Drain,
            wait_ceiling: Some(std::time::Duration::from_secs(90)),
            max_turns: 3,
        },
        ..TaskConfig::default()
    };
    assert_eq!(config.task, expected);
    let config = Given {
        variables: &[("LONGSHORE_MAX_RUNNING_TASKS", "many")],
        ..Given::default()
    }
    .load();
    assert_eq!(config.task, TaskConfig::default());
    assert_eq!(config.warnings.len(), 1);
    for (file, expected) in [
        ("", None),
        (
            "[task]\nbash_timeout_s = 7\n",
            Some(std::time::Duration::from_secs(7)),
        ),
    ] {
        let config = Given {
            file,
            is_headless: true,
            ..Given::default()
        }
        .load();
        assert_eq!(config.task.bash_timeout, expected, "{file}");
    }
}

#[test]
fn layers_fall_back_one_by_one() {
    let base = "[loop]\nmax_steps_per_turn = 1\nmax_attempts_per_step = 2\n";
    let config = Given {
        file: base,
        variables: &[
            ("LONGSHORE_MAX_STEPS", "5"),
            ("LONGSHORE_MAX_ATTEMPTS", "-1"),
            ("LONGSHORE_PERMISSION_MODE", "Yolo"),
            ("LONGSHORE_CFG__files__fsync", "off"),
            ("LONGSHORE_CFG__limits__max_in_flight", " 9 "),
            ("LONGSHORE_CFG__log__level", "trace"),
            ("LONGSHORE_CFG__loop__max_stps_per_turn", "1"),
            ("LONGSHORE_LOG", ""),
            ("LONGSHORE_SKILLS_DIR", "/s"),
        ],
        options: &[
            "loop.max_steps_per_turn=6",
            "log.level=",
            "limits.max_queued_turns=two",
        ],
        ..Given::default()
    }
    .load();
    assert_eq!(
        config.turn,
        values::LoopConfig {
            max_steps_per_turn: 6,
            max_attempts_per_step: 2
        }
    );
    assert!(!config.files_fsync);
    assert_eq!(
        (config.limits.max_in_flight, config.limits.max_queued_turns),
        (9, 64)
    );
    assert_eq!(
        (
            config.log_level.clone(),
            config.default_permission_mode.as_str()
        ),
        (None, "manual")
    );
    says(
        &config,
        &[
            "LONGSHORE_SKILLS_DIR: This variable has no effect yet.",
            "LONGSHORE_CFG__loop__max_stps_per_turn: `loop.max_stps_per_turn` is unknown; did you mean \
             `max_steps_per_turn`?",
            "LONGSHORE_PERMISSION_MODE: `default_permission_mode` should be one of `manual`, `auto`, \
             `yolo`; it is ignored.",
            "LONGSHORE_MAX_ATTEMPTS: `loop.max_attempts_per_step` should be a whole number, 0 or more; \
             it is ignored.",
            "-c limits.max_queued_turns: `limits.max_queued_turns` should be a whole number, 0 or more; \
             it is ignored.",
        ],
    );
}

#[test]
fn untyped_values_take_the_type_that_fits() {
    let config = Given {
        file: MODEL,
        options: &[
            "models.m.model=5",
            "models.m.display_name=yes",
            "models.m.capabilities=[\"thinking\"]",
            "default_model=m",
        ],
        ..Given::default()
    }
    .load();
    says(&config, &[]);
    let model = &config.models["m"];
    assert_eq!(
        (model.model.as_str(), model.display_name.as_deref()),
        ("5", Some("yes"))
    );
    assert_eq!(model.capabilities, ["thinking"]);
    assert_eq!(config.default_model.as_deref(), Some("m"));
}

#[test]
fn the_model_is_chosen_by_the_highest_layer() {
    let models = format!(
        "default_model = \"m\"\n{MODEL}\n[models.n]\nprovider = \"p\"\nmodel = \"n\"\nmax_context_size = 1\n"
    );
    let one_shot = [
        ("LONGSHORE_MODEL_NAME", "big"),
        ("LONGSHORE_MODEL_API_KEY", "sk-from-env"),
    ];
    let with = |variables, model| {
        Given {
            file: &models,
            variables,
            model,
            ..Given::default()
        }
        .load()
    };
    let cases = [
        (with(&[], None), Some("m")),
        (with(&[("LONGSHORE_MODEL", "n")], None), Some("n")),
        (with(&[("LONGSHORE_MODEL", "n")], Some("m")), Some("m")),
        (with(&one_shot, None), Some("env/big")),
        (with(&one_shot, Some("m")), Some("m")),
        (with(&[("LONGSHORE_MODEL", "demo")], None), Some("demo")),
        (with(&[], Some("mm")), None),
    ];
    for (config, expected) in &cases {
        assert_eq!(
            config.default_model.as_deref(),
            *expected,
            "{:?}",
            messages(config)
        );
    }
    says(
        &cases[6].0,
        &["--model: There is no usable model `mm`; did you mean `m`?"],
    );
}

#[test]
fn a_one_shot_model_is_whole_or_refused() {
    let with = |variables: &[(&str, &str)]| {
        Given {
            variables,
            ..Given::default()
        }
        .load()
    };
    let config = with(&[
        ("LONGSHORE_MODEL_NAME", "big"),
        ("LONGSHORE_MODEL_TYPE", "moonshot"),
        ("LONGSHORE_MODEL_API_KEY", "sk-from-env"),
        ("LONGSHORE_MODEL_MAX_OUTPUT_SIZE", "99"),
        ("LONGSHORE_MODEL_EFFORT", "high"),
    ]);
    says(&config, &[]);
    let model = &config.models["env/big"];
    assert_eq!(
        (
            model.model.as_str(),
            model.max_context_size,
            model.max_output_size
        ),
        ("big", 262_144, Some(99))
    );
    assert_eq!(model.capabilities, ["image_in", "thinking"]);
    assert_eq!(config.thinking_effort.as_deref(), Some("high"));
    assert_eq!(
        key(&config, &model.provider),
        Some(Ok("sk-from-env".to_owned()))
    );
    assert_eq!(config.shell.env_exclude, ["LONGSHORE_MODEL_API_KEY"]);

    let config = Given {
        variables: &[
            ("LONGSHORE_MODEL_NAME", "big"),
            ("LONGSHORE_MODEL_API_KEY", "sk-from-env"),
            ("LONGSHORE_MODEL_EFFORT", "high"),
        ],
        model: Some("demo"),
        ..Given::default()
    }
    .load();
    assert_eq!(
        (config.default_model.as_deref(), config.thinking_effort),
        (Some("demo"), None)
    );

    let config = with(&[
        ("LONGSHORE_MODEL_NAME", "q"),
        ("LONGSHORE_MODEL_TYPE", "ollama"),
        ("LONGSHORE_MODEL_CAPABILITIES", "tool_use , thinking"),
    ]);
    says(&config, &[]);
    assert_eq!(
        config.models["env/q"].capabilities,
        ["tool_use", "thinking"]
    );
    assert_eq!(
        config.providers["env/q"].base_url.as_deref(),
        Some("http://localhost:11434/v1")
    );

    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[], "LONGSHORE_MODEL_API_KEY"),
        (
            &[
                ("LONGSHORE_MODEL_API_KEY", "k"),
                ("LONGSHORE_MODEL_MAX_CONTEXT_SIZE", "0"),
            ],
            "LONGSHORE_MODEL_MAX_CONTEXT_SIZE",
        ),
        (
            &[("LONGSHORE_MODEL_TYPE", "gemini")],
            "LONGSHORE_MODEL_TYPE",
        ),
        (
            &[
                ("LONGSHORE_MODEL_API_KEY", "k"),
                ("LONGSHORE_MODEL_BASE_URL", "nowhere"),
            ],
            "LONGSHORE_MODEL_BASE_URL",
        ),
    ];
    for (variables, at_fault) in cases {
        let variables: Vec<_> = [("LONGSHORE_MODEL_NAME", "x")]
            .iter()
            .chain(variables)
            .copied()
            .collect();
        let config = with(&variables);
        let broken = config.broken.clone().expect("broken");
        assert_eq!(broken.file.to_str(), Some(at_fault), "{}", broken.message);
        assert!(broken.message.contains(at_fault), "{}", broken.message);
        assert_eq!(config.default_model, None);
    }
}

#[test]
fn keys_come_from_where_they_belong() {
    let exported = [
        ("OPENAI_API_KEY", "sk-exported"),
        ("KIMI_API_KEY", "sk-kimi"),
        ("MY_KEY", "sk-mine"),
    ];
    let cases = [
        ("type = \"openai\"", Some(Ok("sk-exported"))),
        (
            "type = \"openai\"\nbase_url = \"https://api.openai.com/v1/\"",
            Some(Ok("sk-exported")),
        ),
        (
            "type = \"openai\"\nbase_url = \"https://other.example/v1\"",
            None,
        ),
        (
            "type = \"openai\"\napi_key = \"sk-written\"",
            Some(Ok("sk-written")),
        ),
        ("type = \"openai\"\napi_key = \"\"", Some(Ok("sk-exported"))),
        (
            "type = \"openai\"\nenv = { OPENAI_API_KEY = \"sk-own\" }",
            Some(Ok("sk-own")),
        ),
        (
            "type = \"openai\"\napi_key = \"${env:MY_KEY}\"",
            Some(Ok("sk-mine")),
        ),
        (
            "type = \"openai\"\napi_key = \"${file:key}\"",
            Some(Ok("file-secret")),
        ),
        (
            "type = \"openai\"\napi_key = \"${env:NOPE}\"",
            Some(Err("The variable NOPE is not set.")),
        ),
        (
            "type = \"openai\"\napi_key = \"${env:NOPE:-}\"",
            Some(Err("The key is empty.")),
        ),
        (
            "type = \"openai\"\nbase_url = \"${env:NOPE}\"",
            Some(Err("The variable NOPE is not set.")),
        ),
        (
            "type = \"openai\"\nquery = { v = \"${env:NOPE}\" }",
            Some(Err("The variable NOPE is not set.")),
        ),
        (
            "type = \"openai\"\nextra_body = { v = [\"${env:NOPE}\"] }",
            Some(Err("The variable NOPE is not set.")),
        ),
        (
            "type = \"openai\"\napi_key = \"a\\nb\"",
            Some(Err(
                "The key holds a line break or another control character.",
            )),
        ),
        ("type = \"kimi\"", Some(Ok("sk-kimi"))),
        ("type = \"ollama\"", None),
    ];
    for (entry, expected) in cases {
        let text = format!("[providers.p]\n{entry}\n[providers.other]\ntype = \"lmstudio\"\n");
        let config = Given {
            file: &text,
            variables: &exported,
            ..Given::default()
        }
        .load();
        let key = key(&config, "p");
        let key = key
            .as_ref()
            .map(|key| key.as_deref().map_err(String::as_str));
        assert_eq!(key, expected, "{entry}");
        assert!(config.providers.contains_key("other"));
        if let Some(Err(error)) = expected {
            assert!(
                messages(&config)[0].ends_with(&format!("{error} The provider `p` can't be used.")),
                "{entry}"
            );
        }
    }
}

#[test]
fn secrets_stay_here() {
    let text = "[providers.p]\ntype = \"openai\"\nbase_url = \"${env:BASE}\"\napi_key = \"${file:key}\"\n\
                headers = { X-Token = \"t ${env:TOKEN}\", \"bad name\" = \"x\", x-token = \"twice\" }\n\
                extra_body = { k = \"${env:BODY_KEY}\" }\n";
    let variables = [
        ("BASE", "https://u:url-password@h.example/v1"),
        ("TOKEN", "token-1234"),
        ("BODY_KEY", "body-1234"),
    ];
    let config = Given {
        file: text,
        variables: &variables,
        ..Given::default()
    }
    .load();
    assert_eq!(config.shell.env_exclude, ["BODY_KEY", "TOKEN"]);
    for secret in ["file-secret", "t token-1234", "body-1234", "url-password"] {
        assert_eq!(
            config.redactor.text(&format!("<{secret}>")),
            "<[redacted]>",
            "{secret}"
        );
    }
    for secret in ["file-secret", "t token-1234"] {
        assert!(!format!("{config:?}").contains(secret), "{secret}");
    }
    assert_eq!(config.providers["p"].extra_body["k"], "body-1234");
    let said = messages(&config).join("\n");
    for part in [
        "`bad name` is no name for a header",
        "`x-token` stands there twice",
        "can be read by others",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn keys_over_plain_http_are_warned_about() {
    let cases = [
        ("http://gateway.example/v1", true),
        ("http://10.0.0.1/v1", true),
        ("https://gateway.example/v1", false),
        ("http://localhost:1/v1", false),
        ("http://x.localhost/v1", false),
        ("http://127.0.0.1:1/v1", false),
        ("http://[::1]:1/v1", false),
    ];
    for (url, warned) in cases {
        let config = file(&format!(
            "[providers.p]\ntype = \"openai\"\nbase_url = \"{url}\"\napi_key = \"k\"\n"
        ));
        assert_eq!(
            messages(&config)
                .iter()
                .any(|m| m.contains("without encryption")),
            warned,
            "{url}"
        );
    }
    says(
        &file("[providers.p]\ntype = \"openai\"\nbase_url = \"http://gateway.example/v1\"\n"),
        &[],
    );
}

#[test]
fn variables_for_all_providers_and_models() {
    let text = format!("{MODEL}\n[providers.p.headers]\nx-own = \"1\"\n");
    let config = Given {
        file: &text,
        variables: &[
            (
                "LONGSHORE_HEADERS",
                "X-Own: 2\nX-All: 3\nUser-Agent: me\nno header\n",
            ),
            ("LONGSHORE_TEMPERATURE", "0.25"),
            ("LONGSHORE_TOP_P", "7"),
            ("LONGSHORE_SCRIPT", "~/s.yaml"),
        ],
        ..Given::default()
    }
    .load();
    let headers: Vec<_> = config.providers["p"]
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str(),
                value.as_ref().map(|v| v.expose_secret().to_owned()),
            )
        })
        .collect();
    assert_eq!(
        headers,
        [("X-All", Ok("3".to_owned())), ("x-own", Ok("1".to_owned()))]
    );
    assert_eq!(
        (config.models["m"].temperature, config.models["m"].top_p),
        (Some(0.25), None)
    );
    assert_eq!(config.script.as_deref(), Some(Path::new("/home/u/s.yaml")));
    assert_eq!(config.warnings.len(), 3, "{:?}", messages(&config));
}

#[test]
fn rules_keep_their_order_and_place() {
    use RuleDecision::{Allow, Ask, Deny};
    let config = Given {
        file: "[permission]\nauto_ask = \"allow\"\ndeny = [\"Bash(rm *)\",\n  \"Write\"]\nallow = [\"Read\"]\n\
               [[permission.rules]]\ndecision = \"ask\"\npattern = \"Edit\"\nreason = \"why\"\n",
        variables: &[("LONGSHORE_CFG__permission__deny", "[\"Grep\"]")],
        options: &["permission.ask=[\"Glob\"]", "permission.deny=", "permission="],
        ..Given::default()
    }
    .load();
    assert_eq!(
        rules(&config),
        [
            (Ask, "Glob", "-c permission.ask"),
            (Deny, "Grep", "LONGSHORE_CFG__permission__deny"),
            (Deny, "Bash(rm *)", &format!("{FILE}:3")),
            (Deny, "Write", &format!("{FILE}:4")),
            (Allow, "Read", &format!("{FILE}:5")),
            (Ask, "Edit", &format!("{FILE}:6")),
        ]
    );
    assert_eq!(config.permission.rules[5].reason.as_deref(), Some("why"));
    says(
        &config,
        &[
            "-c permission.deny: Rules can't be taken away from here, only added to.",
            "-c permission: Rules can't be taken away from here, only added to.",
        ],
    );
}

#[test]
fn rules_that_can_not_be_read_never_vanish() {
    use RuleDecision::{Deny, Unreadable};
    // Text, the rules that come of it, what is said.
    type Rules<'a> = &'a [(RuleDecision, &'a str)];
    let cases: [(&str, Rules<'_>, &str); 14] = [
        (
            "[permission]\ndeny = [\"Bash\", 5]",
            &[(Deny, "Bash"), (Unreadable, "*")],
            "all calls are asked about",
        ),
        ("[permission]\nallow = [5]", &[], "it allows nothing"),
        (
            "[permission]\ndeny = \"Bash\"",
            &[(Unreadable, "*")],
            "should be a list of patterns",
        ),
        (
            "[permission]\nallow = \"Bash\"",
            &[],
            "should be a list of patterns; it allows nothing",
        ),
        (
            "permission = 5",
            &[(Unreadable, "*")],
            "all calls are asked about",
        ),
        (
            "[permission.rules]\ndecision = \"deny\"",
            &[(Unreadable, "*")],
            "`[[permission.rules]]`",
        ),
        (
            "[[permission.rules]]\ndecision = \"block\"\npattern = \"Edit(a)\"",
            &[(Unreadable, "Edit(a)")],
            "no `decision`",
        ),
        (
            "[[permission.rules]]\npattern = \"Edit\"",
            &[(Unreadable, "Edit")],
            "no `decision`",
        ),
        (
            "[[permission.rules]]\ndecision = \"deny\"\npatern = \"Edit\"",
            &[(Unreadable, "*")],
            "no `pattern`",
        ),
        (
            "[[permission.rules]]\ndecision = \"allow\"\npattern = 5",
            &[],
            "it allows nothing",
        ),
        (
            "[[permission.rules]]\ndecision = \"deny\"\npattern = \"Edit\"\nscope = \"session-runtime\"",
            &[(Unreadable, "Edit")],
            "`scope` or `reason`",
        ),
        (
            "[[permission.rules]]\ndecision = \"deny\"\npattern = \"Edit\"\nscope = \"project\"\nroot = \"/w\"",
            &[(Deny, "Edit")],
            "this one holds everywhere",
        ),
        (
            "[[permission.rules]]\ndecision = \"allow\"\npattern = \"Edit\"\nscope = \"project\"",
            &[],
            "this one allows nothing",
        ),
        (
            "[permission]\ndney = [\"Bash\"]",
            &[],
            "did you mean `deny`?",
        ),
    ];
    for (text, expected, said) in cases {
        let config = file(text);
        let found: Vec<_> = rules(&config)
            .into_iter()
            .map(|(decision, pattern, _)| (decision, pattern))
            .collect();
        assert_eq!(found, expected, "{text}");
        assert!(
            messages(&config).concat().contains(said),
            "{text}: {:?}",
            messages(&config)
        );
    }
}

#[test]
fn ask_rules_without_a_word_about_auto_are_pointed_out() {
    let config = file("[permission]\nask = [\"Edit\"]\n");
    assert!(
        messages(&config)[0].contains("no effect in auto mode"),
        "{:?}",
        messages(&config)
    );
}

#[test]
fn the_schema_names_every_key() {
    let schema = schema();
    for key in [
        "default_model",
        "providers",
        "models",
        "loop",
        "limits",
        "permission",
        "sensitive",
        "paths",
        "shell",
        "task",
        "files",
    ] {
        assert!(schema["properties"].get(key).is_some(), "{key}");
    }
    let text = schema.to_string();
    for key in [
        "max_context_size",
        "overrides",
        "auto_ask",
        "pattern",
        "output_kill_bytes",
    ] {
        assert!(text.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn project_files_are_said_to_be_ignored() {
    let warning = project_file_ignored(Path::new("/w/.longshore/config.toml"));
    assert_eq!(
        warning.message,
        "/w/.longshore/config.toml: Configuration of projects is not read yet."
    );
    assert_eq!(warning.file.as_deref(), Some("/w/.longshore/config.toml"));
}

#[test]
fn images() {
    let defaults = file("").image;
    assert_eq!(
        (defaults.max_edge_px, defaults.read_byte_budget),
        (2000, 262_144)
    );
    let given = Given {
        file: "[image]\nmax_edge_px = 900\nread_byte_budget = 5000\n",
        variables: &[("LONGSHORE_IMAGE_MAX_EDGE_PX", "800")],
        ..Given::default()
    };
    let config = given.load();
    says(&config, &[]);
    assert_eq!(
        (config.image.max_edge_px, config.image.read_byte_budget),
        (800, 5000)
    );
    // What is no positive whole number has no effect, and the layer below holds.
    for value in ["0", "-3", "1.5", "many"] {
        let given = Given {
            variables: &[
                ("LONGSHORE_IMAGE_MAX_EDGE_PX", value),
                ("LONGSHORE_IMAGE_READ_BYTE_BUDGET", value),
            ],
            ..Given {
                file: given.file,
                ..Given::default()
            }
        };
        let config = given.load();
        assert_eq!(
            (config.image.max_edge_px, config.image.read_byte_budget),
            (900, 5000)
        );
        let said = messages(&config);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said.iter()
                .all(|message| message.contains("should be a whole number, 1 or more")),
            "{said:?}"
        );
    }
}

#[test]
fn cron_jobs() {
    assert_eq!(file("").cron, values::CronConfig::default());
    let all = "[cron]\nenabled = false\njitter = \"off\"\nmax_age_days = 3\nmax_jobs = 4\nwake_closed_sessions = true\n\
               max_unattended_fires = 5\n";
    let config = file(all);
    says(&config, &[]);
    let expected = values::CronConfig {
        enabled: false,
        jitter: false,
        max_age_days: 3,
        max_jobs: 4,
        wake_closed_sessions: true,
        max_unattended_fires: 5,
    };
    assert_eq!(config.cron, expected);
    let config = file("[cron]\njitter = \"some\"\nmax_jobs = -1\nmax_job = 2\n");
    let said = messages(&config).join("\n");
    for key in [
        "`cron.jitter`",
        "`cron.max_jobs`",
        "`cron.max_job` is unknown",
    ] {
        assert!(said.contains(key), "{key}: {said}");
    }
    assert_eq!(config.cron, values::CronConfig::default());
}

#[test]
fn switches_of_cron_jobs_beat_the_file() {
    let config = Given {
        file: "[cron]\nenabled = true\njitter = \"auto\"\nmax_age_days = 30\n",
        variables: &[
            ("LONGSHORE_CRON_NO_JITTER", "on"),
            ("LONGSHORE_CRON_NO_STALE", "1"),
            ("LONGSHORE_DISABLE_CRON", "TRUE"),
        ],
        ..Given::default()
    }
    .load();
    says(&config, &[]);
    let cron = config.cron;
    assert_eq!(
        (cron.enabled, cron.jitter, cron.max_age_days),
        (false, false, 0)
    );
    let config = Given {
        file: "[cron]\nmax_age_days = 30\n",
        variables: &[
            ("LONGSHORE_CRON_NO_JITTER", "0"),
            ("LONGSHORE_CRON_NO_STALE", "perhaps"),
        ],
        ..Given::default()
    }
    .load();
    let said = messages(&config);
    assert!(
        said.len() == 1 && said[0].contains("LONGSHORE_CRON_NO_STALE: It is a switch"),
        "{said:?}"
    );
    assert!(config.cron.enabled && config.cron.jitter && config.cron.max_age_days == 30);
}
