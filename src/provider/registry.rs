//! The models that are configured, and the built-in scripted `demo`, which is used only when named.
//!
//! Building a registry reads no file, opens no socket and sets up no TLS; a client is made when its model is asked for.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;

use super::ModelClient;
use super::chat::ChatClient;
use super::scripted::{self, Format, Script, ScriptedClient, TraceSink};
use crate::config::values::{Config, ModelConfig, ProviderConfig, Wire};
use crate::http::Http;
use crate::kernel::fault::Fault;
use crate::kernel::limits::STREAM_IDLE_TIMEOUT;

/// The built-in scripted model.
pub const DEMO_MODEL: &str = "demo";
/// The provider that hosts see behind it.
const DEMO_PROVIDER: &str = "scripted";
/// Tokens its context holds; its script says the same.
const DEMO_CONTEXT: u64 = 200_000;
/// What it can do; its script says the same.
const DEMO_CAPABILITIES: [&str; 3] = ["thinking", "tool_use", "image_in"];
/// Names this many letters apart are taken for slips.
const MAX_DISTANCE: usize = 2;

/// Reads a file.
pub type ReadScript = Arc<dyn Fn(&Path) -> io::Result<String> + Send + Sync>;

/// Where scripted models get their scripts, and where they write what they were asked.
#[derive(Clone)]
pub struct ScriptSources {
    /// The file that `LONGSHORE_SCRIPT` names: it wins over every provider's own.
    pub env_script: Option<PathBuf>,
    /// Reads a script's file.
    pub read: ReadScript,
    /// Where `LONGSHORE_SCRIPT_TRACE` goes.
    pub trace: Option<Arc<dyn TraceSink>>,
}

/// All models.
pub struct Registry {
    /// Where people write what is missing.
    config_file: String,
    default_model: Option<String>,
    providers: BTreeMap<String, ProviderConfig>,
    models: BTreeMap<String, ModelConfig>,
    http: Arc<Http>,
    scripts: ScriptSources,
    clients: Mutex<HashMap<String, Arc<dyn ModelClient>>>,
}

impl Registry {
    /// The models of a configuration.
    pub fn new(config: &Config, http: Arc<Http>, scripts: ScriptSources) -> Self {
        Self {
            config_file: config.file.display().to_string(),
            default_model: config.default_model.clone(),
            providers: config.providers.clone(),
            models: config.models.clone(),
            http,
            scripts,
            clients: Mutex::default(),
        }
    }

    /// All models by alias. `demo` is always among them; an entry of the user's with that name takes its place.
    pub fn models(&self) -> Vec<ModelInfo> {
        let mut models: Vec<ModelInfo> = self
            .models
            .iter()
            .map(|(alias, model)| info(alias, model))
            .collect();
        if !self.models.contains_key(DEMO_MODEL) {
            models.push(demo_info());
        }
        models
    }

    /// The model that is used where a session names none.
    ///
    /// # Errors
    /// `model_not_configured` where there is none, saying what to write where.
    pub fn default_alias(&self) -> Result<&str, Fault> {
        self.default_model.as_deref().ok_or_else(|| {
            let message = if self.models.is_empty() {
                format!(
                    "no model is configured: add a [providers.NAME] and a [models.NAME] entry to {} and set \
                     default_model, or name the scripted model `demo`",
                    self.config_file
                )
            } else {
                let known: Vec<&str> = self.models.keys().map(String::as_str).collect();
                format!(
                    "no model is chosen: set default_model in {}, or name one of {}",
                    self.config_file,
                    known.join(", ")
                )
            };
            Fault::new(ErrorKind::ModelNotConfigured, message)
        })
    }

    /// The client of a model. Asking again gives the same one.
    ///
    /// # Errors
    /// `model_unknown` with near names; `model_not_configured` where its provider entry is missing or cannot be used,
    /// such as for a key that could not be resolved or a script that could not be read.
    pub fn get(&self, alias: &str) -> Result<Arc<dyn ModelClient>, Fault> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(alias) {
            return Ok(client.clone());
        }
        let client = self.make(alias)?;
        clients.insert(alias.to_owned(), client.clone());
        Ok(client)
    }

    /// A session is gone: what clients hold for it is dropped.
    pub fn forget(&self, session: &SessionId) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        for client in clients.values() {
            client.forget(session);
        }
    }

    fn make(&self, alias: &str) -> Result<Arc<dyn ModelClient>, Fault> {
        let Some(model) = self.models.get(alias) else {
            if alias == DEMO_MODEL {
                return Ok(Arc::new(self.scripted(
                    demo_info(),
                    None,
                    STREAM_IDLE_TIMEOUT,
                )?));
            }
            return Err(self.unknown(alias));
        };
        let info = info(alias, model);
        let Some(provider) = self.providers.get(&model.provider) else {
            let name = &model.provider;
            return Err(unusable(
                alias,
                &format!(
                    "its provider `{name}` is missing: add [providers.{name}] to {}",
                    self.config_file
                ),
            ));
        };
        match provider.wire {
            Wire::Scripted => Ok(Arc::new(self.scripted(
                info,
                provider.script.as_deref(),
                provider.idle_timeout,
            )?)),
            Wire::Chat => {
                let client =
                    ChatClient::new(info, provider, model, self.http.clone()).map_err(|why| {
                        unusable(alias, &format!("provider `{}`: {why}", model.provider))
                    })?;
                Ok(Arc::new(client))
            }
        }
    }

    fn scripted(
        &self,
        info: ModelInfo,
        own: Option<&Path>,
        idle_timeout: Duration,
    ) -> Result<ScriptedClient, Fault> {
        let script = match self.scripts.env_script.as_deref().or(own) {
            None => Script::parse(scripted::DEMO, Some(Format::Yaml)).map_err(|error| {
                unusable(
                    &info.id,
                    &format!("its built-in script cannot be played: {error}"),
                )
            })?,
            Some(path) => {
                let text = (self.scripts.read)(path).map_err(|error| {
                    unusable(
                        &info.id,
                        &format!("its script {} cannot be read: {error}", path.display()),
                    )
                })?;
                Script::parse(&text, Format::of_path(path)).map_err(|error| {
                    unusable(&info.id, &format!("its script {}: {error}", path.display()))
                })?
            }
        };
        Ok(ScriptedClient::new(
            info,
            script,
            idle_timeout,
            self.scripts.trace.clone(),
        ))
    }

    fn unknown(&self, alias: &str) -> Fault {
        let mut near: Vec<(usize, &str)> = self
            .models
            .keys()
            .map(String::as_str)
            .chain([DEMO_MODEL])
            .map(|known| {
                (
                    distance(&alias.to_lowercase(), &known.to_lowercase()),
                    known,
                )
            })
            .filter(|(distance, known)| {
                *distance <= MAX_DISTANCE || (alias.len() > 2 && known.contains(alias))
            })
            .collect();
        near.sort_unstable();
        near.dedup_by_key(|(_, known)| *known);
        let near: Vec<&str> = near.into_iter().map(|(_, known)| known).take(3).collect();
        let hint = match near.as_slice() {
            [] => format!(
                "add [models.NAME] to {}, or choose one of model/list",
                self.config_file
            ),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        Fault::new(
            ErrorKind::ModelUnknown,
            format!("there is no model `{alias}`: {hint}"),
        )
        .with("near", near)
    }
}

fn unusable(alias: &str, why: &str) -> Fault {
    Fault::new(
        ErrorKind::ModelNotConfigured,
        format!("model `{alias}` cannot be used: {why}"),
    )
}

fn info(alias: &str, model: &ModelConfig) -> ModelInfo {
    ModelInfo {
        id: alias.to_owned(),
        name: model
            .display_name
            .clone()
            .unwrap_or_else(|| model.model.clone()),
        provider: model.provider.clone(),
        max_context_size: model.max_context_size,
        capabilities: model.capabilities.clone(),
        efforts: model.support_efforts.clone(),
    }
}

fn demo_info() -> ModelInfo {
    ModelInfo {
        id: DEMO_MODEL.to_owned(),
        name: "Scripted demo".to_owned(),
        provider: DEMO_PROVIDER.to_owned(),
        max_context_size: DEMO_CONTEXT,
        capabilities: DEMO_CAPABILITIES.map(str::to_owned).to_vec(),
        efforts: Vec::new(),
    }
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let here = (corner + usize::from(ca != *cb))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = here;
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "registry_tests.rs"]
pub(crate) mod tests;
