//! What `longshore run` does from the start of its turn on: it shows, asks and waits, and goes on while the session has
//! something before it.
//!
//! | `task.headless_mode` | Once the turn has ended |
//! |---|---|
//! | `exit` | that is the end; what runs in the background is ended |
//! | `drain` | tasks are waited for; no turn begins |
//! | `steer` | each end of a task and each job begins a turn; the end is where nothing is left that could begin one |
//!
//! A turn that fails or is cancelled ends the run, whatever is left. So do `task.headless_wait_ceiling_s`, counted from
//! the end of the first turn, and `task.headless_max_turns`.

use std::time::Duration;

use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::method::{session, spec, turn};
use longshore_protocol::value::session::Pending;
use longshore_protocol::value::turn::{CancelTasks, TurnReason};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::Output;
use super::driver::{Driver, Said};
use super::person;
use super::run::{CANCELLED, DENIED, FAILED};
use super::terminal::{complain, say};
use crate::config::values::{HeadlessConfig, HeadlessMode};
use crate::os::signal::StopSignals;

/// How often is asked what is left, besides at every event that can change it. Chosen: rare enough to cost nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A session that is followed to its end.
pub(super) struct Conversation<'a> {
    driver: &'a mut Driver,
    session: SessionId,
    output: Output,
    headless: HeadlessConfig,
    /// Calls that were refused.
    n_denied: u32,
    n_turns: u32,
    /// The turn that ended last.
    last: Option<turn::WaitResult>,
    /// The turn that runs.
    running: Option<TurnId>,
    /// When waiting is over, once the first turn has ended.
    deadline: Option<Instant>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        driver: &'a mut Driver,
        session: SessionId,
        output: Output,
        headless: HeadlessConfig,
    ) -> Self {
        Self {
            driver,
            session,
            output,
            headless,
            n_denied: 0,
            n_turns: 0,
            last: None,
            running: None,
            deadline: None,
        }
    }

    /// Follows the session, whose first turn was just started, to its end. Returns the exit code.
    pub(super) async fn run(mut self, first: TurnId) -> Result<u8, String> {
        self.running = Some(first);
        let mut signals = StopSignals::listen().map_err(|error| error.to_string())?;
        let mut is_over = false;
        let is_cancelled = loop {
            // What was said before the answer that nothing is left is heard, too: whole turns may be in it.
            if is_over && self.driver.has_heard_all() {
                break false;
            }
            let said = tokio::select! {
                said = self.driver.next() => said.ok_or("the connection ended in mid-turn")?,
                _ = signals.recv() => match self.running {
                    Some(_) => {
                        self.cancel().await?;
                        continue;
                    }
                    None => break true,
                },
                () = tokio::time::sleep(LOOK_AGAIN), if self.running.is_none() => {
                    is_over = self.is_over().await?;
                    continue;
                }
            };
            match said {
                Said::Event { method, params } => {
                    self.show(&method, &params);
                    if self.take(&method, &params).await? {
                        is_over = self.is_over().await?;
                    } else if self.running.is_some() {
                        is_over = false;
                    }
                }
                Said::Approval(request, respond) => {
                    respond.approval(&person::approve(&request).await);
                }
            }
        };
        if self.output == Output::Json {
            let mut last = serde_json::to_value(&self.last).map_err(|error| error.to_string())?;
            if let Some(members) = last.as_object_mut() {
                // What the next run can go on with.
                members.insert("sessionId".to_owned(), json!(self.session));
            }
            say(&last.to_string());
        }
        Ok(if is_cancelled { CANCELLED } else { self.code() })
    }

    fn show(&self, method: &str, params: &Value) {
        if self.output == Output::StreamJson {
            say(&json!({"method": method, "params": params}).to_string());
        }
    }

    /// Takes in an event. True where it may have been the last that matters.
    async fn take(&mut self, method: &str, params: &Value) -> Result<bool, String> {
        match method {
            "tool/completed" if params["display"]["code"] == "denied" => {
                self.n_denied += 1;
                let message = params["display"]["message"].as_str().unwrap_or_default();
                complain(&format!("longshore: denied: {message}"));
            }
            "turn/started" => {
                self.running = params["turnId"].as_str().map(TurnId::from);
            }
            "turn/ended" => {
                if let Some(turn) = params["turnId"].as_str().map(TurnId::from) {
                    self.ended(turn).await?;
                }
            }
            "task/ended" | "cron/changed" => {}
            _ => return Ok(false),
        }
        Ok(self.running.is_none())
    }

    async fn ended(&mut self, turn_id: TurnId) -> Result<(), String> {
        self.running = None;
        self.n_turns += 1;
        let ceiling = self.headless.wait_ceiling;
        self.deadline = self
            .deadline
            .or_else(|| ceiling.and_then(|ceiling| Instant::now().checked_add(ceiling)));
        let wait = turn::WaitParams {
            session_id: self.session.clone(),
            turn_id,
        };
        let end = self.driver.call::<spec::TurnWait>(&wait).await;
        let end = end.map_err(|error| error.to_string())?;
        if self.output == Output::Text {
            say(&end.text);
        }
        if let Some(error) = &end.error {
            complain(&format!("longshore: {}", error.message));
        }
        self.last = Some(end);
        Ok(())
    }

    /// Whether nothing more is to be waited for. Asked between turns only.
    async fn is_over(&mut self) -> Result<bool, String> {
        let completed = |end: &turn::WaitResult| end.reason == TurnReason::Completed;
        if self.headless.mode == HeadlessMode::Exit || !self.last.as_ref().is_some_and(completed) {
            return Ok(true);
        }
        let get = session::GetParams {
            session_id: self.session.clone(),
        };
        let got = self.driver.call::<spec::SessionGet>(&get).await;
        let pending = got.map_err(|error| error.to_string())?.pending;
        let left = self.left(&pending.unwrap_or_default());
        if left.is_empty() {
            return Ok(true);
        }
        let why = if self.n_turns >= self.headless.max_turns {
            "there were as many turns as task.headless_max_turns allows"
        } else if self.deadline.is_some_and(|at| Instant::now() >= at) {
            "task.headless_wait_ceiling_s is over"
        } else {
            return Ok(false);
        };
        complain(&format!("longshore: {why}; left behind: {left}"));
        Ok(true)
    }

    /// What is to be waited for, in words.
    fn left(&self, pending: &Pending) -> String {
        let begins_turns = self.headless.mode == HeadlessMode::Steer;
        let kinds = [
            (pending.tasks, "tasks", true),
            (pending.turns, "turns", begins_turns),
            (pending.notices, "notices", begins_turns),
            (pending.jobs, "cron jobs", begins_turns),
        ];
        let left = kinds
            .iter()
            .filter(|(n, _, counts)| *counts && *n > 0)
            .map(|(n, what, _)| format!("{what} ({n})"));
        left.collect::<Vec<_>>().join(", ")
    }

    async fn cancel(&self) -> Result<(), String> {
        let cancel = turn::CancelParams {
            session_id: self.session.clone(),
            turn_id: None,
            tasks: CancelTasks::Keep,
        };
        let cancelled = self.driver.call::<spec::TurnCancel>(&cancel).await;
        cancelled.map(drop).map_err(|error| error.to_string())
    }

    fn code(&self) -> u8 {
        match self.last.as_ref().map(|end| end.reason) {
            Some(TurnReason::Cancelled) => CANCELLED,
            Some(TurnReason::Failed) | None => FAILED,
            Some(TurnReason::Completed) if self.n_denied > 0 => DENIED,
            Some(TurnReason::Completed) => 0,
        }
    }
}
