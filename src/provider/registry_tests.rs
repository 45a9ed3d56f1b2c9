use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use secrecy::SecretString;
use serde_json::{Map, json};

use super::{DEMO_CAPABILITIES, DEMO_CONTEXT, Registry, ScriptSources, distance};
use crate::config::values::{Config, ModelConfig, ProviderConfig, Wire};
use crate::http::Http;
use crate::kernel::time::Timestamp;
use crate::provider::scripted::DEMO;

pub(crate) fn provider(wire: Wire) -> ProviderConfig {
    ProviderConfig {
        wire,
        base_url: Some("http://127.0.0.1:9/v1".into()),
        api_key: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        extra_body: Map::new(),
        connect_timeout: Duration::from_secs(15),
        headers_timeout: Duration::from_secs(300),
        idle_timeout: Duration::from_secs(300),
        script: None,
        compat: Map::new(),
    }
}

pub(crate) fn model(provider: &str) -> ModelConfig {
    ModelConfig {
        provider: provider.into(),
        model: "m-1".into(),
        max_context_size: 100_000,
        max_output_size: None,
        capabilities: vec![],
        display_name: None,
        support_efforts: vec![],
        default_effort: None,
        reasoning_key: None,
        inline_think: false,
        temperature: None,
        top_p: None,
        extra_body: Map::new(),
    }
}

fn config(providers: Vec<(&str, ProviderConfig)>, models: Vec<(&str, ModelConfig)>) -> Config {
    Config {
        providers: providers
            .into_iter()
            .map(|(name, provider)| (name.to_owned(), provider))
            .collect(),
        models: models
            .into_iter()
            .map(|(name, model)| (name.to_owned(), model))
            .collect(),
        ..Config::default()
    }
}

fn registry(config: &Config, env_script: Option<&str>) -> Registry {
    let scripts = ScriptSources {
        env_script: env_script.map(PathBuf::from),
        read: Arc::new(|path| match path.to_str() {
            Some("good.echo") => Ok("text: hi".to_owned()),
            Some("bad.yaml") => Ok("turns: [{}]".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }),
        trace: None,
    };
    Registry::new(
        config,
        Arc::new(Http::new(Arc::new(|| Timestamp(0)))),
        scripts,
    )
}

fn refusal(registry: &Registry, alias: &str) -> (ErrorKind, String) {
    let fault = registry.get(alias).err().expect("a refusal");
    (fault.kind, fault.message)
}

#[test]
fn without_configuration_there_is_the_demo_alone() {
    let registry = registry(&config(vec![], vec![]), None);
    let models = registry.models();
    assert_eq!(
        models.iter().map(|model| &*model.id).collect::<Vec<_>>(),
        ["demo"]
    );
    let demo = registry.get("demo").unwrap();
    assert_eq!(demo.info(), &models[0]);
    assert!(
        Arc::ptr_eq(&demo, &registry.get("demo").unwrap()),
        "its place in the script is kept"
    );
    let fault = registry.default_alias().unwrap_err();
    assert_eq!(fault.kind, ErrorKind::ModelNotConfigured);
    for word in [
        "[providers.NAME]",
        "[models.NAME]",
        "default_model",
        "config.toml",
        "demo",
    ] {
        assert!(fault.message.contains(word), "{}", fault.message);
    }
}

#[test]
fn the_demos_facts_agree_with_its_script() {
    let head = format!(
        "model: {{name: demo, max_context_size: {DEMO_CONTEXT}, capabilities: [{}]}}",
        DEMO_CAPABILITIES.join(", ")
    );
    assert!(DEMO.contains(&head), "{head}");
}

#[test]
fn the_default_is_named_or_asked_for() {
    let mut config = config(
        vec![("p", provider(Wire::Chat))],
        vec![("fast", model("p")), ("smart", model("p"))],
    );
    let fault = registry(&config, None).default_alias().unwrap_err();
    assert!(
        fault.message.contains("default_model") && fault.message.contains("fast, smart"),
        "{}",
        fault.message
    );
    config.default_model = Some("fast".into());
    let registry = registry(&config, None);
    assert_eq!(registry.default_alias().unwrap(), "fast");
    assert_eq!(registry.get("fast").unwrap().info().name, "m-1");
    assert_eq!(registry.models().len(), 3);
}

#[test]
fn unknown_names_get_near_ones() {
    let registry = registry(
        &config(
            vec![("p", provider(Wire::Chat))],
            vec![("kimi-k2", model("p")), ("gpt-5", model("p"))],
        ),
        None,
    );
    for (alias, near) in [
        ("kimi-k3", json!(["kimi-k2"])),
        ("KIMI-K2", json!(["kimi-k2"])),
        ("gpt5", json!(["gpt-5"])),
        ("kimi", json!(["kimi-k2"])),
        ("dmeo", json!(["demo"])),
        ("something else", json!([])),
    ] {
        let fault = registry.get(alias).err().unwrap();
        assert_eq!(fault.kind, ErrorKind::ModelUnknown);
        assert_eq!(fault.data["near"], near, "{alias}");
    }
}

#[test]
fn entries_that_cannot_be_used_say_why() {
    let key = |key: Result<&str, &str>| ProviderConfig {
        api_key: Some(
            key.map(|key| SecretString::from(key.to_owned()))
                .map_err(str::to_owned),
        ),
        ..provider(Wire::Chat)
    };
    let script = |path: &str| ProviderConfig {
        script: Some(path.into()),
        ..provider(Wire::Scripted)
    };
    let compat = |value| ProviderConfig {
        compat: Map::from_iter([("stream_usage".into(), value)]),
        ..provider(Wire::Chat)
    };
    let base = |url: &str| ProviderConfig {
        base_url: Some(url.into()),
        ..provider(Wire::Chat)
    };
    for (provider, words) in [
        (
            key(Err("environment variable NOPE is not set")),
            vec!["provider `p`", "api_key", "NOPE"],
        ),
        (key(Ok("bad\nkey")), vec!["api_key", "characters"]),
        (base("not a url"), vec!["base_url", "not a url"]),
        (base("ftp://x/"), vec!["http://"]),
        (
            compat(json!("yes")),
            vec!["compat.stream_usage", "true or false"],
        ),
        (script("bad.yaml"), vec!["bad.yaml", "turn 1"]),
        (script("gone.yaml"), vec!["gone.yaml", "cannot be read"]),
    ] {
        let registry = registry(
            &config(vec![("p", provider)], vec![("m", model("p"))]),
            None,
        );
        let (kind, message) = refusal(&registry, "m");
        assert_eq!(kind, ErrorKind::ModelNotConfigured);
        for word in words {
            assert!(message.contains(word), "{message}");
        }
        assert!(registry.get("demo").is_ok(), "others work");
    }
    let registry = registry(&config(vec![], vec![("m", model("gone"))]), None);
    assert!(refusal(&registry, "m").1.contains("[providers.gone]"));
}

#[test]
fn the_environments_script_wins_over_the_providers_and_the_demos() {
    let own = ProviderConfig {
        script: Some("bad.yaml".into()),
        ..provider(Wire::Scripted)
    };
    let registry = registry(
        &config(vec![("p", own)], vec![("m", model("p"))]),
        Some("good.echo"),
    );
    assert!(registry.get("m").is_ok());
    assert!(registry.get("demo").is_ok());
    assert!(
        refusal(
            &self::registry(&config(vec![], vec![]), Some("gone.yaml")),
            "demo"
        )
        .1
        .contains("gone.yaml")
    );
}

#[test]
fn an_entry_named_demo_takes_the_built_in_ones_place() {
    let registry = registry(
        &config(
            vec![("p", provider(Wire::Chat))],
            vec![("demo", model("p"))],
        ),
        None,
    );
    assert_eq!(registry.models().len(), 1);
    assert_eq!(registry.get("demo").unwrap().info().provider, "p");
}

#[test]
fn distances() {
    for (a, b, n) in [
        ("", "", 0),
        ("a", "", 1),
        ("demo", "dmeo", 2),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(distance(a, b), n, "{a} {b}");
    }
}
