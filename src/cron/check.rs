//! What a job may be: why one is refused, and the checks that need neither a clock nor the other jobs.

use longshore_protocol::error::ErrorKind;

use super::expr::{Expression, ExpressionError};
use super::zone::Zone;
use crate::config::values::CronConfig;
use crate::kernel::cron::NewJob;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{CRON_HORIZON_DAYS, CRON_ONE_SHOT_DAYS, CRON_PROMPT_BYTES};

/// Why something can't be done with a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Nobody may make jobs.
    #[error("cron jobs are switched off here (cron.enabled)")]
    Disabled,
    /// The expression can't be read.
    #[error("{0}")]
    Expression(#[from] ExpressionError),
    /// There is no such zone.
    #[error("there is no time zone named `{0}`; use an IANA name such as Europe/Berlin")]
    UnknownZone(String),
    /// It would never fire.
    #[error("`{0}` has no time within the next 5 years")]
    Never(String),
    /// There are too many.
    #[error("this session has {0} cron jobs, which is all it may have; delete one first")]
    TooMany(u32),
    /// There is nothing to be told.
    #[error("the prompt is empty")]
    NoPrompt,
    /// There is too much.
    #[error("the prompt has {0} bytes; at most {CRON_PROMPT_BYTES} are kept")]
    LongPrompt(usize),
    /// A one-shot job almost a year ahead.
    #[error(
        "`{cron}` comes next at {at}, more than {CRON_ONE_SHOT_DAYS} days from now: this year's time has passed. For a job that fires once, name a time that is still to come"
    )]
    Passed {
        /// The expression.
        cron: String,
        /// Its next time.
        at: String,
    },
    /// Not an id.
    #[error("`{0}` is no job id: an id has 8 lower-case hex digits, such as 0badcafe")]
    BadId(String),
    /// No job has it.
    #[error("there is no cron job {0} in this session")]
    NotFound(String),
}

/// What can be said about a new job without looking at the clock: it may be made, its expression and its zone can be read.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check_written(
    rules: &CronConfig,
    new: &NewJob,
) -> Result<(Expression, Option<Zone>), CronError> {
    if !rules.enabled {
        return Err(CronError::Disabled);
    }
    let expression = new.cron.parse::<Expression>()?;
    let zone = match &new.timezone {
        None => None,
        Some(name) => Some(Zone::find(name).ok_or_else(|| CronError::UnknownZone(name.clone()))?),
    };
    Ok((expression, zone))
}

/// Checks the prompt of a new job.
///
/// # Errors
/// It is empty or too long.
pub fn check_prompt(prompt: &str) -> Result<(), CronError> {
    match prompt.len() {
        _ if prompt.trim().is_empty() => Err(CronError::NoPrompt),
        n if n > CRON_PROMPT_BYTES => Err(CronError::LongPrompt(n)),
        _ => Ok(()),
    }
}

/// Checks that a text could be the id of a job.
///
/// # Errors
/// It has another form.
pub fn check_id(id: &str) -> Result<(), CronError> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if id.len() == 8 && id.bytes().all(is_hex) {
        Ok(())
    } else {
        Err(CronError::BadId(id.chars().take(20).collect()))
    }
}

impl From<CronError> for Fault {
    fn from(error: CronError) -> Self {
        let message = error.to_string();
        match error {
            CronError::Disabled => Self::new(ErrorKind::NotSupported, message),
            CronError::TooMany(max) => Self::new(ErrorKind::LimitExceeded, message)
                .with("name", "max_jobs")
                .with("value", max),
            CronError::NotFound(_) => Self::new(ErrorKind::JobNotFound, message),
            CronError::Expression(_) | CronError::Never(_) | CronError::Passed { .. } => {
                Self::new(ErrorKind::InvalidParams, message).with("path", "/cron")
            }
            CronError::UnknownZone(_) => {
                Self::new(ErrorKind::InvalidParams, message).with("path", "/timezone")
            }
            CronError::NoPrompt | CronError::LongPrompt(_) => {
                Self::new(ErrorKind::InvalidParams, message).with("path", "/prompt")
            }
            CronError::BadId(_) => {
                Self::new(ErrorKind::InvalidParams, message).with("path", "/jobId")
            }
        }
    }
}

const _: () = assert!(CRON_HORIZON_DAYS == 5 * 366, "the message says 5 years");
