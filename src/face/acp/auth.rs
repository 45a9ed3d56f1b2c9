//! The gate before sessions and prompts: a model that can be used.
//!
//! Keys live in longshore's own configuration, so there is nothing to log in to: the one method checks again, and says
//! what to configure where that does not help.

use agent_client_protocol_schema::v1::{AuthMethod, AuthMethodAgent};
use longshore_protocol::error::{ErrorKind, RpcError};

use super::error;
use crate::kernel::fault::Fault;
use crate::session::Sessions;

/// The id of the one method.
pub(super) const METHOD: &str = "configure-model";

/// The methods on offer.
pub(super) fn methods() -> Vec<AuthMethod> {
    let method = AuthMethodAgent::new(METHOD, "Configure a model").description(
        "Name a provider, a model and default_model in longshore's config.toml (`longshore doctor` says where it is and \
         what is missing), or set LONGSHORE_MODEL; then try again.",
    );
    vec![AuthMethod::Agent(method)]
}

/// Whether a session of this model could run a turn.
///
/// # Errors
/// -32000 with the reason.
pub(super) fn check(sessions: &Sessions, model: Option<&str>) -> Result<(), RpcError> {
    let checked = match model {
        Some(alias) => sessions.check_model(alias),
        None => sessions.check_default_model().map(|_| ()),
    };
    checked.map_err(|fault| error::no_model(reason(&fault)))
}

fn reason(fault: &Fault) -> String {
    match fault.kind {
        ErrorKind::InternalError => {
            "The model could not be checked; the log of the agent says more.".to_owned()
        }
        _ => fault.message.clone(),
    }
}
