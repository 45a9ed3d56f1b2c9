//! Modes and config options: what a client may choose, and what a choice changes in the session.
//!
//! The permission mode is both a mode and an option, since some clients show only one of the two.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue,
    SessionConfigSelectGroup, SessionConfigSelectOption, SessionMode, SessionModeState,
};
use longshore_protocol::error::RpcError;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::session::{Mode, Session, SessionPatch};

use super::error;

/// The option that chooses the model.
pub(super) const MODEL: &str = "model";
const THINKING: &str = "thinking";
const MODE: &str = "mode";
/// The thinking of a session that was never given one: whatever the model does by itself.
const MODEL_DEFAULT: &str = "default";
const OFF: &str = "off";

/// The settings of a session that a client can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) mode: Mode,
}

impl Settings {
    /// Those of a session.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            model: session.model.clone(),
            thinking: session.thinking.clone(),
            mode: session.mode,
        }
    }

    /// Changes the settings that a patch names. True where something is different now.
    pub(super) fn apply(&mut self, patch: &SessionPatch) -> bool {
        let before = self.clone();
        if let Some(model) = &patch.model {
            self.model = Some(model.clone());
        }
        if let Some(thinking) = &patch.thinking {
            self.thinking = Some(thinking.clone());
        }
        if let Some(mode) = patch.mode {
            self.mode = mode;
        }
        *self != before
    }
}

/// The id of a mode on this wire.
pub(super) fn mode_id(mode: Mode) -> &'static str {
    match mode {
        Mode::Manual => "default",
        Mode::Auto => "auto",
        Mode::Yolo => "yolo",
    }
}

/// The mode of an id.
///
/// # Errors
/// -32602.
pub(super) fn mode_of(id: &str, path: &str) -> Result<Mode, RpcError> {
    MODES
        .iter()
        .map(|(mode, ..)| *mode)
        .find(|mode| mode_id(*mode) == id)
        .ok_or_else(|| {
            error::invalid(
                path,
                format!("There is no mode {id:?}; there are default, auto and yolo."),
            )
        })
}

const MODES: [(Mode, &str, &str); 3] = [
    (Mode::Manual, "Ask", "Asks before calls with effects"),
    (
        Mode::Auto,
        "Auto",
        "Runs calls without asking, except denied, sensitive and guarded ones, which are refused",
    ),
    (
        Mode::Yolo,
        "Yolo",
        "Runs everything that is not denied; sensitive and guarded calls still ask",
    ),
];

/// The modes, and the current one.
pub(super) fn modes(settings: &Settings) -> SessionModeState {
    let all = MODES
        .iter()
        .map(|(mode, name, what)| SessionMode::new(mode_id(*mode), *name).description(*what));
    SessionModeState::new(mode_id(settings.mode), all.collect())
}

/// All config options, with their current values.
pub(super) fn config_options(
    settings: &Settings,
    models: &[ModelInfo],
) -> Vec<SessionConfigOption> {
    let mut options = Vec::with_capacity(3);
    if let Some(model) = &settings.model {
        options.push(model_option(model, models));
        options.extend(thinking_option(settings, models));
    }
    let modes: Vec<SessionConfigSelectOption> = MODES
        .iter()
        .map(|(mode, name, what)| {
            SessionConfigSelectOption::new(mode_id(*mode), *name).description(*what)
        })
        .collect();
    options.push(
        SessionConfigOption::select(MODE, "Mode", mode_id(settings.mode), modes)
            .category(SessionConfigOptionCategory::Mode)
            .description("When calls are asked about"),
    );
    options
}

fn model_option(current: &str, models: &[ModelInfo]) -> SessionConfigOption {
    let mut by_provider: BTreeMap<&str, Vec<SessionConfigSelectOption>> = BTreeMap::new();
    for model in models {
        let option = SessionConfigSelectOption::new(model.id.clone(), model.name.clone());
        by_provider.entry(&model.provider).or_default().push(option);
    }
    if !models.iter().any(|model| model.id == current) {
        // The current value is always among the values, even where the configuration has lost it.
        let option = SessionConfigSelectOption::new(current.to_owned(), current.to_owned());
        by_provider.entry("other").or_default().push(option);
    }
    let option = if by_provider.len() > 1 {
        let groups: Vec<SessionConfigSelectGroup> = by_provider
            .into_iter()
            .map(|(provider, options)| {
                SessionConfigSelectGroup::new(provider.to_owned(), provider.to_owned(), options)
            })
            .collect();
        SessionConfigOption::select(MODEL, "Model", current.to_owned(), groups)
    } else {
        let options: Vec<SessionConfigSelectOption> = by_provider.into_values().flatten().collect();
        SessionConfigOption::select(MODEL, "Model", current.to_owned(), options)
    };
    option.category(SessionConfigOptionCategory::Model)
}

/// The efforts a model takes; none where it has none to choose from.
fn efforts(settings: &Settings, models: &[ModelInfo]) -> Vec<String> {
    let model = models
        .iter()
        .find(|model| Some(&model.id) == settings.model.as_ref());
    let Some(model) = model.filter(|model| !model.efforts.is_empty()) else {
        return Vec::new();
    };
    let mut values = model.efforts.clone();
    if !values.iter().any(|value| value == OFF) {
        values.insert(0, OFF.to_owned());
    }
    let current = settings.thinking.as_deref().unwrap_or(MODEL_DEFAULT);
    if !values.iter().any(|value| value == current) {
        values.insert(0, current.to_owned());
    }
    values
}

fn thinking_option(settings: &Settings, models: &[ModelInfo]) -> Option<SessionConfigOption> {
    let values = efforts(settings, models);
    if values.is_empty() {
        return None;
    }
    let options: Vec<SessionConfigSelectOption> = values
        .into_iter()
        .map(|value| SessionConfigSelectOption::new(value.clone(), value))
        .collect();
    let current = settings
        .thinking
        .clone()
        .unwrap_or_else(|| MODEL_DEFAULT.to_owned());
    let option = SessionConfigOption::select(THINKING, "Thinking", current, options)
        .category(SessionConfigOptionCategory::ThoughtLevel)
        .description("How much the model thinks before it answers");
    Some(option)
}

/// A value of an option that is no switch.
pub(super) fn value(id: String) -> SessionConfigOptionValue {
    SessionConfigOptionValue::value_id(id)
}

/// What choosing a value of an option changes; nothing where it is the current one.
///
/// # Errors
/// -32602 for an unknown option or value.
pub(super) fn choose(
    settings: &Settings,
    models: &[ModelInfo],
    option: &str,
    value: &SessionConfigOptionValue,
) -> Result<SessionPatch, RpcError> {
    let Some(value) = value.as_value_id() else {
        return Err(error::invalid(
            "/value",
            format!("The option {option} takes a value id, not true or false."),
        ));
    };
    let value: &str = &value.0;
    let unknown = |known: Vec<&str>| {
        error::invalid(
            "/value",
            format!(
                "The option {option} has no value {value:?}; it has {}.",
                known.join(", ")
            ),
        )
    };
    let mut patch = SessionPatch::default();
    match option {
        MODEL => {
            let is_known = models.iter().any(|model| model.id == value)
                || settings.model.as_deref() == Some(value);
            if !is_known {
                return Err(unknown(
                    models.iter().map(|model| model.id.as_str()).collect(),
                ));
            }
            patch.model =
                Some(value.to_owned()).filter(|model| settings.model.as_ref() != Some(model));
        }
        THINKING => {
            let known = efforts(settings, models);
            if known.is_empty() {
                return Err(no_option(option));
            }
            if !known.iter().any(|known| known == value) {
                return Err(unknown(known.iter().map(String::as_str).collect()));
            }
            let current = settings.thinking.as_deref().unwrap_or(MODEL_DEFAULT);
            patch.thinking = Some(value.to_owned()).filter(|value| value != current);
        }
        MODE => patch.mode = Some(mode_of(value, "/value")?).filter(|mode| *mode != settings.mode),
        _ => return Err(no_option(option)),
    }
    Ok(patch)
}

fn no_option(option: &str) -> RpcError {
    error::invalid(
        "/configId",
        format!("There is no config option {option:?} now."),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn model(id: &str, provider: &str, efforts: &[&str]) -> ModelInfo {
        ModelInfo {
            id: id.to_owned(),
            name: id.to_uppercase(),
            provider: provider.to_owned(),
            max_context_size: 1000,
            capabilities: Vec::new(),
            efforts: efforts.iter().map(|&effort| effort.to_owned()).collect(),
        }
    }

    fn settings(model: &str, thinking: Option<&str>) -> Settings {
        Settings {
            model: Some(model.to_owned()),
            thinking: thinking.map(str::to_owned),
            mode: Mode::Manual,
        }
    }

    fn shown(settings: &Settings, models: &[ModelInfo]) -> Value {
        let options = serde_json::to_value(config_options(settings, models)).unwrap();
        options.as_array().unwrap().iter().map(brief).collect()
    }

    /// `id=current[values]`, groups in parentheses.
    fn brief(option: &Value) -> Value {
        let names = |options: &Value| -> String {
            let values = options.as_array().unwrap().iter();
            values
                .map(|value| value["value"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let options = option["options"].as_array().unwrap();
        let values = match options.first().and_then(|first| first.get("group")) {
            None => names(&option["options"]),
            Some(_) => options
                .iter()
                .map(|group| {
                    format!(
                        "{}({})",
                        group["group"].as_str().unwrap(),
                        names(&group["options"])
                    )
                })
                .collect::<Vec<_>>()
                .join(" "),
        };
        json!(format!(
            "{}={} [{values}] {}",
            option["id"].as_str().unwrap(),
            option["currentValue"].as_str().unwrap(),
            option["category"].as_str().unwrap()
        ))
    }

    #[test]
    fn options_follow_the_model() {
        let models = [model("a", "p", &["low", "high"]), model("b", "p", &[])];
        let mode = "mode=default [default auto yolo] mode";
        for (settings, models, expected) in [
            (
                settings("b", None),
                &models[..],
                json!(["model=b [a b] model", mode]),
            ),
            (
                settings("a", None),
                &models[..],
                json!([
                    "model=a [a b] model",
                    "thinking=default [default off low high] thought_level",
                    mode
                ]),
            ),
            (
                settings("a", Some("low")),
                &models[..],
                json!([
                    "model=a [a b] model",
                    "thinking=low [off low high] thought_level",
                    mode
                ]),
            ),
            (
                settings("gone", None),
                &models[..1],
                json!(["model=gone [other(gone) p(a)] model", mode]),
            ),
            (
                settings("c", None),
                &[models[0].clone(), model("c", "q", &[])],
                json!(["model=c [p(a) q(c)] model", mode]),
            ),
            (Settings::default(), &models[..], json!([mode])),
        ] {
            assert_eq!(shown(&settings, models), expected);
        }
    }

    #[test]
    fn a_choice_is_a_change_or_nothing_or_refused() {
        let models = [model("a", "p", &["low", "high"]), model("b", "p", &[])];
        let a = settings("a", None);
        let check = |settings: &Settings, option: &str, value: SessionConfigOptionValue| {
            choose(settings, &models, option, &value)
                .map(|patch| serde_json::to_value(patch).unwrap())
                .map_err(|error| (error.code, error.data.extra["path"].clone()))
        };
        let id = |value: &str| SessionConfigOptionValue::value_id(value.to_owned());
        for (option, value, expected) in [
            ("model", id("b"), Ok(json!({"model": "b"}))),
            ("model", id("a"), Ok(json!({}))),
            ("model", id("x"), Err((-32602, json!("/value")))),
            ("thinking", id("high"), Ok(json!({"thinking": "high"}))),
            ("thinking", id("default"), Ok(json!({}))),
            ("thinking", id("huge"), Err((-32602, json!("/value")))),
            ("mode", id("yolo"), Ok(json!({"mode": "yolo"}))),
            ("mode", id("default"), Ok(json!({}))),
            ("mode", id("plan"), Err((-32602, json!("/value")))),
            (
                "mode",
                SessionConfigOptionValue::boolean(true),
                Err((-32602, json!("/value"))),
            ),
            ("colour", id("red"), Err((-32602, json!("/configId")))),
        ] {
            assert_eq!(check(&a, option, value), expected, "{option}");
        }
        assert_eq!(
            check(&settings("b", None), "thinking", id("low")),
            Err((-32602, json!("/configId")))
        );
    }

    #[test]
    fn modes_have_ids_of_this_wire() {
        let state = serde_json::to_value(modes(&Settings::default())).unwrap();
        assert_eq!(state["currentModeId"], "default");
        for mode in [Mode::Manual, Mode::Auto, Mode::Yolo] {
            assert_eq!(mode_of(mode_id(mode), "/modeId"), Ok(mode));
        }
        assert!(mode_of("manual", "/modeId").is_err());
    }
}
