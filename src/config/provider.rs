//! Provider entries: from what is written to what can be connected to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use longshore_protocol::value::failure::Warning;
use reqwest::Url;
use reqwest::header::HeaderName;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use super::file::ProviderFile;
use super::known;
use super::secret::Resolver;
use super::tree::{Node, Place, dotted, path};
use super::values::{ProviderConfig, Wire};
use crate::kernel::limits;

/// A kind of provider.
struct Kind {
    names: &'static [&'static str],
    wire: Wire,
    base_url: Option<&'static str>,
    /// Variables that hold its key by convention. They are used for its own address only.
    variables: &'static [&'static str],
    /// The field it wants the output's limit in, where it is not the wire's own choice.
    max_tokens_field: Option<&'static str>,
}

const KINDS: &[Kind] = &[
    Kind {
        names: &["openai"],
        wire: Wire::Chat,
        base_url: Some("https://api.openai.com/v1"),
        variables: &["OPENAI_API_KEY"],
        max_tokens_field: None,
    },
    Kind {
        names: &["moonshot", "kimi"],
        wire: Wire::Chat,
        base_url: Some("https://api.moonshot.ai/v1"),
        variables: &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
        max_tokens_field: Some("max_completion_tokens"),
    },
    local(&["ollama"], "http://localhost:11434/v1"),
    local(&["llamacpp"], "http://localhost:8080/v1"),
    local(&["vllm"], "http://localhost:8000/v1"),
    local(&["lmstudio"], "http://localhost:1234/v1"),
    Kind {
        names: &["scripted"],
        wire: Wire::Scripted,
        base_url: None,
        variables: &[],
        max_tokens_field: None,
    },
];

/// Kinds whose wire is not built.
const UNAVAILABLE: &[&str] = &["anthropic", "echo", "gemini", "openai_responses", "vertex"];

/// A server on this machine, which needs no key.
const fn local(names: &'static [&'static str], base_url: &'static str) -> Kind {
    Kind {
        names,
        wire: Wire::Chat,
        base_url: Some(base_url),
        variables: &[],
        max_tokens_field: None,
    }
}

/// Where an entry stands, and where to complain.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) tree: &'a Node,
    pub(super) warnings: &'a mut Vec<Warning>,
}

impl Entry<'_> {
    fn place(&self, key: &str) -> (Place, String) {
        let entry = path(["providers", self.name]);
        let whole = path(["providers", self.name, key]);
        let node = self
            .tree
            .get(&whole)
            .or_else(|| self.tree.get(&entry))
            .unwrap_or(self.tree);
        (
            node.place.clone(),
            dotted(if self.tree.get(&whole).is_some() {
                &whole
            } else {
                &entry
            }),
        )
    }

    fn warn(&mut self, key: &str, message: &str) {
        let (place, key) = self.place(key);
        self.warnings.push(place.warning(Some(key), message));
    }
}

/// Makes a provider of an entry; `None`, with a warning, where it can't be one. Resolved secrets are added to `secrets`.
pub(super) fn build(
    written: &ProviderFile,
    entry: &mut Entry<'_>,
    resolver: &mut Resolver<'_>,
    secrets: &mut Vec<SecretString>,
) -> Option<ProviderConfig> {
    let kind = kind(written, entry)?;
    let mut unusable = None;
    let base_url = match written.base_url.as_deref().map(|url| resolver.resolve(url)) {
        None => kind.base_url.map(str::to_owned),
        Some(Ok(url)) if url.text.trim().is_empty() => kind.base_url.map(str::to_owned),
        Some(Ok(url)) => Some(url.text.trim().to_owned()),
        Some(Err(error)) => {
            unusable = Some(error);
            None
        }
    };
    // An address is no secret, so the variables in it stay with commands.
    resolver.used.clear();
    let url = match &base_url {
        Some(base_url) => {
            let Some(url) = Url::parse(base_url)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"))
            else {
                entry.warn(
                    "base_url",
                    "`base_url` is no http or https address; the provider is ignored.",
                );
                return None;
            };
            Some(url)
        }
        None => None,
    };
    if let Some(password) = url.as_ref().and_then(Url::password) {
        secrets.push(SecretString::from(password));
    }
    let is_default = kind.base_url.is_some_and(|default| {
        base_url
            .as_deref()
            .is_some_and(|url| url.trim_end_matches('/') == default)
    });
    let mut api_key = key(written, kind, is_default, resolver);
    let headers = headers(written, entry, resolver);
    let mut query = BTreeMap::new();
    for (name, value) in &written.query {
        match resolver.resolve(value) {
            Ok(resolved) => {
                if resolved.referred {
                    secrets.push(SecretString::from(resolved.text.as_str()));
                }
                query.insert(name.clone(), resolved.text);
            }
            Err(error) => unusable = Some(error),
        }
    }
    let extra_body = match resolve_all(
        &Value::Object(written.extra_body.clone()),
        resolver,
        secrets,
    ) {
        Ok(Value::Object(body)) => body,
        Ok(_) => Map::new(),
        Err(error) => {
            unusable = Some(error);
            Map::new()
        }
    };
    if let Some(error) = unusable {
        api_key = Some(Err(error));
    }
    for resolved in api_key.iter().chain(headers.values()) {
        match resolved {
            Ok(secret) => secrets.push(secret.clone()),
            Err(error) => entry.warn(
                "",
                &format!("{error} The provider `{}` can't be used.", entry.name),
            ),
        }
    }
    if let Some(url) = &url
        && url.scheme() == "http"
        && !is_loopback(url)
        && api_key.is_some()
    {
        entry.warn(
            "base_url",
            "The key is sent to another machine without encryption; use https.",
        );
    }
    for remark in std::mem::take(&mut resolver.remarks) {
        entry.warn("", &remark);
    }
    let mut compat = Map::new();
    if let Some(field) = kind.max_tokens_field {
        compat.insert("max_tokens_field".to_owned(), json!(field));
    }
    compat.extend(written.compat.clone());
    let seconds = |written: Option<u32>, default: Duration| {
        written.map_or(default, |seconds| Duration::from_secs(u64::from(seconds)))
    };
    Some(ProviderConfig {
        wire: kind.wire,
        base_url,
        api_key,
        headers,
        query,
        extra_body,
        connect_timeout: seconds(written.connect_timeout_s, limits::CONNECT_TIMEOUT),
        headers_timeout: seconds(written.headers_timeout_s, limits::HEADERS_TIMEOUT),
        idle_timeout: seconds(written.idle_timeout_s, limits::STREAM_IDLE_TIMEOUT),
        script: written
            .script
            .as_deref()
            .map(|script| -> PathBuf { resolver.path(script) }),
        compat,
    })
}

fn kind(written: &ProviderFile, entry: &mut Entry<'_>) -> Option<&'static Kind> {
    let Some(name) = written.kind.as_deref() else {
        entry.warn(
            "type",
            &format!(
                "The provider `{}` has no `type` and is ignored.",
                entry.name
            ),
        );
        return None;
    };
    let kind = KINDS.iter().find(|kind| kind.names.contains(&name));
    if kind.is_none() {
        let message = if UNAVAILABLE.contains(&name) {
            format!(
                "Providers of type `{name}` are not available yet; `{}` is ignored.",
                entry.name
            )
        } else {
            let names = KINDS.iter().flat_map(|kind| kind.names.iter().copied());
            let hint = known::hint(name, names);
            format!(
                "There is no provider type `{name}`, so `{}` is ignored{hint}",
                entry.name
            )
        };
        entry.warn("type", &message);
    }
    kind
}

/// The key: as written, else from the entry's own variables, else from the process's where the address is the vendor's.
fn key(
    written: &ProviderFile,
    kind: &Kind,
    is_default: bool,
    resolver: &mut Resolver<'_>,
) -> Option<Result<SecretString, String>> {
    let own = kind
        .variables
        .iter()
        .find_map(|name| written.env.get(*name));
    let found = [written.api_key.as_ref(), own]
        .into_iter()
        .flatten()
        .find(|key| !key.trim().is_empty());
    let resolved = match found {
        Some(key) => resolver.resolve(key).map(|resolved| resolved.text),
        None => Ok(kind
            .variables
            .iter()
            .filter(|_| is_default)
            .find_map(|name| resolver.variable(name))?),
    };
    Some(resolved.and_then(|key| {
        let key = key.trim();
        if key.is_empty() {
            Err("The key is empty.".to_owned())
        } else if key.chars().any(char::is_control) {
            Err("The key holds a line break or another control character.".to_owned())
        } else {
            Ok(SecretString::from(key))
        }
    }))
}

fn headers(
    written: &ProviderFile,
    entry: &mut Entry<'_>,
    resolver: &mut Resolver<'_>,
) -> BTreeMap<String, Result<SecretString, String>> {
    let mut headers: BTreeMap<String, Result<SecretString, String>> = BTreeMap::new();
    for (name, value) in &written.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            entry.warn(
                "headers",
                &format!("`{name}` is no name for a header; it is ignored."),
            );
            continue;
        }
        if headers.keys().any(|other| other.eq_ignore_ascii_case(name)) {
            entry.warn(
                "headers",
                &format!("The header `{name}` stands there twice; the second is ignored."),
            );
            continue;
        }
        let value = resolver.resolve(value).and_then(|resolved| {
            if resolved.text.chars().any(|c| c.is_control() && c != '\t') {
                Err(format!(
                    "The header `{name}` holds a line break or another control character."
                ))
            } else {
                Ok(resolved.text)
            }
        });
        match value {
            Ok(text) if text.trim().is_empty() => {}
            value => {
                headers.insert(name.clone(), value.map(SecretString::from));
            }
        }
    }
    headers
}

/// Resolves the strings of a value, however deep.
fn resolve_all(
    value: &Value,
    resolver: &mut Resolver<'_>,
    secrets: &mut Vec<SecretString>,
) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => {
            let resolved = resolver.resolve(text)?;
            if resolved.referred {
                secrets.push(SecretString::from(resolved.text.as_str()));
            }
            Value::String(resolved.text)
        }
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| resolve_all(item, resolver, secrets))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| Ok((name.clone(), resolve_all(member, resolver, secrets)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Adds the headers that `LONGSHORE_HEADERS` gives to every provider, a line each; an entry's own win.
pub(super) fn shared_headers(
    lines: &str,
    providers: &mut BTreeMap<String, ProviderConfig>,
    secrets: &mut Vec<SecretString>,
    mut complain: impl FnMut(&str),
) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, value)) = line
            .split_once(':')
            .map(|(name, value)| (name.trim(), value.trim()))
        else {
            complain("A line is not of the form `Name: value`; it is ignored.");
            continue;
        };
        if HeaderName::from_bytes(name.as_bytes()).is_err()
            || value.chars().any(|c| c.is_control() && c != '\t')
        {
            complain("A line is no valid header; it is ignored.");
            continue;
        }
        if name.eq_ignore_ascii_case("user-agent") {
            complain("`User-Agent` can't be set for all providers; it is ignored.");
            continue;
        }
        let secret = SecretString::from(value);
        for provider in providers
            .values_mut()
            .filter(|provider| provider.wire == Wire::Chat)
        {
            let has_own = provider
                .headers
                .keys()
                .any(|own| own.eq_ignore_ascii_case(name));
            if !has_own && !secret.expose_secret().is_empty() {
                provider.headers.insert(name.to_owned(), Ok(secret.clone()));
            }
        }
        secrets.push(secret);
    }
}
