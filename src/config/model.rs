//! Model entries, the default model, and the model that variables alone describe.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use longshore_protocol::value::failure::Warning;

use super::file::{ModelFile, ProviderFile};
use super::known;
use super::tree::{Node, dotted, path};
use super::values::{ModelConfig, ProviderConfig, Wire};

/// The model that is always there.
pub const DEMO: &str = "demo";

/// What a scripted model claims to hold where neither entry nor script says otherwise.
const SCRIPTED_CONTEXT: u64 = 200_000;
/// What a model that variables describe holds where they do not say.
const ONE_SHOT_CONTEXT: u64 = 262_144;

/// What models are known to be capable of.
const CAPABILITIES: [&str; 7] = [
    "always_thinking",
    "audio_in",
    "dynamic_tools",
    "image_in",
    "thinking",
    "tool_use",
    "video_in",
];

/// Makes a model of an entry; `None`, with a warning, where it can't be one.
pub(super) fn build(
    alias: &str,
    written: &ModelFile,
    providers: &BTreeMap<String, ProviderConfig>,
    tree: &Node,
    warnings: &mut Vec<Warning>,
) -> Option<ModelConfig> {
    let mut warn = |key: &str, message: &str| {
        let (entry, whole) = (path(["models", alias]), path(["models", alias, key]));
        let at = if tree.get(&whole).is_some() {
            whole
        } else {
            entry
        };
        let place = tree.get(&at).unwrap_or(tree).place.clone();
        warnings.push(place.warning(Some(dotted(&at)), message));
    };
    let over = written.overrides.as_deref();
    if over.is_some_and(|over| {
        over.provider.is_some() || over.model.is_some() || over.overrides.is_some()
    }) {
        warn(
            "overrides",
            "`provider`, `model` and `overrides` can't be overridden; they are ignored.",
        );
    }
    let missing = [
        ("provider", written.provider.is_none()),
        ("model", written.model.is_none()),
    ];
    if let Some((key, _)) = missing.iter().find(|(_, missing)| *missing) {
        let has_table = tree.get(&path(["models", alias])).is_some_and(|entry| {
            entry
                .entries()
                .any(|(key, child)| key != "overrides" && child.kind() == "a table")
        });
        let quotes = if has_table {
            " A name with a dot needs quotes."
        } else {
            ""
        };
        warn(
            key,
            &format!("The model `{alias}` has no `{key}` and is ignored.{quotes}"),
        );
        return None;
    }
    let (provider, model) = (written.provider.clone()?, written.model.clone()?);
    let Some(target) = providers.get(&provider) else {
        let hint = known::hint(&provider, providers.keys().map(String::as_str));
        warn(
            "provider",
            &format!(
                "There is no usable provider `{provider}`, so the model `{alias}` is ignored{hint}"
            ),
        );
        return None;
    };
    let context = over
        .and_then(|over| over.max_context_size)
        .or(written.max_context_size)
        .map(NonZeroU64::get);
    let Some(max_context_size) =
        context.or((target.wire == Wire::Scripted).then_some(SCRIPTED_CONTEXT))
    else {
        warn(
            "max_context_size",
            &format!("The model `{alias}` has no `max_context_size` and is ignored."),
        );
        return None;
    };
    let over = over.cloned().unwrap_or_default();
    let capabilities = over
        .capabilities
        .or_else(|| written.capabilities.clone())
        .unwrap_or_default();
    for capability in &capabilities {
        let plain = capability.strip_prefix('-').unwrap_or(capability);
        if !CAPABILITIES.contains(&plain) {
            let hint = known::hint(plain, CAPABILITIES);
            warn(
                "capabilities",
                &format!("`{capability}` is no capability that is known{hint}"),
            );
        }
    }
    let efforts_overridden = over.support_efforts.is_some() && over.default_effort.is_none();
    let support_efforts = over
        .support_efforts
        .or_else(|| written.support_efforts.clone())
        .unwrap_or_default();
    let mut default_effort = over
        .default_effort
        .or_else(|| written.default_effort.clone());
    if let Some(effort) = default_effort
        .take_if(|effort| !support_efforts.is_empty() && !support_efforts.contains(effort))
        && !efforts_overridden
    {
        warn(
            "default_effort",
            &format!("`{effort}` is not among `support_efforts`; it is ignored."),
        );
    }
    let mut sampling = |key: &str, value: Option<f64>, most: f64| {
        let valid = value.filter(|value| (0.0..=most).contains(value));
        if value.is_some() && valid.is_none() {
            warn(
                key,
                &format!("`{key}` should be between 0 and {most}; it is ignored."),
            );
        }
        valid
    };
    let temperature = sampling("temperature", over.temperature.or(written.temperature), 2.0);
    let top_p = sampling("top_p", over.top_p.or(written.top_p), 1.0);
    Some(ModelConfig {
        provider,
        model,
        max_context_size,
        max_output_size: over
            .max_output_size
            .or(written.max_output_size)
            .map(NonZeroU64::get),
        capabilities,
        display_name: over.display_name.or_else(|| written.display_name.clone()),
        support_efforts,
        default_effort,
        reasoning_key: over
            .reasoning_key
            .or_else(|| written.reasoning_key.clone())
            .filter(|key| !key.trim().is_empty()),
        inline_think: over.inline_think.or(written.inline_think).unwrap_or(false),
        temperature,
        top_p,
        extra_body: over
            .extra_body
            .or_else(|| written.extra_body.clone())
            .unwrap_or_default(),
    })
}

/// The model that `LONGSHORE_MODEL_NAME` and its companions describe: never written anywhere.
pub(super) struct OneShot {
    /// The name of both entries.
    pub(super) alias: String,
    pub(super) provider: ProviderFile,
    pub(super) model: ModelFile,
    pub(super) effort: Option<String>,
}

/// Reads the variables of a one-shot model; `None` where there is none.
///
/// # Errors
/// The variable at fault and one sentence about it.
pub(super) fn one_shot(
    variables: &BTreeMap<String, String>,
) -> Option<Result<OneShot, (&'static str, String)>> {
    let get = |name: &str| {
        variables
            .get(name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    };
    let name = get("LONGSHORE_MODEL_NAME")?;
    let number = |name: &'static str| match get(name).map(str::parse::<NonZeroU64>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err((name, format!("{name} should be a whole number, 1 or more."))),
    };
    let read = || {
        let kind = get("LONGSHORE_MODEL_TYPE").unwrap_or("openai");
        let needs_key = matches!(kind, "openai" | "moonshot" | "kimi");
        let api_key = get("LONGSHORE_MODEL_API_KEY").map(str::to_owned);
        if needs_key && api_key.is_none() {
            let key = "LONGSHORE_MODEL_API_KEY";
            return Err((
                key,
                format!("LONGSHORE_MODEL_NAME is set, but {key} is not."),
            ));
        }
        let capabilities = get("LONGSHORE_MODEL_CAPABILITIES").unwrap_or("image_in,thinking");
        Ok(OneShot {
            alias: format!("env/{name}"),
            provider: ProviderFile {
                kind: Some(kind.to_owned()),
                base_url: get("LONGSHORE_MODEL_BASE_URL").map(str::to_owned),
                // The key is in a variable already: a reference keeps that variable from commands.
                api_key: api_key.map(|_| "${env:LONGSHORE_MODEL_API_KEY}".to_owned()),
                ..ProviderFile::default()
            },
            model: ModelFile {
                provider: Some(format!("env/{name}")),
                model: Some(name.to_owned()),
                max_context_size: number("LONGSHORE_MODEL_MAX_CONTEXT_SIZE")?
                    .or(NonZeroU64::new(ONE_SHOT_CONTEXT)),
                max_output_size: number("LONGSHORE_MODEL_MAX_OUTPUT_SIZE")?,
                capabilities: Some(
                    capabilities
                        .split(',')
                        .map(str::trim)
                        .filter(|c| !c.is_empty())
                        .map(str::to_owned)
                        .collect(),
                ),
                ..ModelFile::default()
            },
            effort: get("LONGSHORE_MODEL_EFFORT").map(str::to_owned),
        })
    };
    Some(read())
}
