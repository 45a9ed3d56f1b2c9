//! temp
use serde::{Serialize,Deserialize}; use schemars::JsonSchema;
/// t
#[derive(Clone,Copy,Debug,PartialEq,Eq,Hash,Serialize,Deserialize,JsonSchema)]
#[serde(rename_all="snake_case")]
#[allow(missing_docs)]
pub enum ErrorKind { ConnectionError, RateLimited, QuotaExhausted, Overloaded, AuthRequired, ContextOverflow, RequestTooLarge, Filtered, EmptyResponse, StreamInterrupted, ScriptError, RequestCancelled, ProviderError, ModelNotConfigured, ModelUnknown, ConfigInvalid }
impl ErrorKind { /// t
 pub fn retryable(self)->bool{false} /// t
 pub fn as_str(self)->&'static str{""} }
