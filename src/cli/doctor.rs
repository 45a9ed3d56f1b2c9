//! `longshore doctor`: looks at configuration and models and says what to fix.

use std::process::ExitCode;
use std::sync::Arc;

use super::args::Common;
use super::server;
use super::terminal::{complain, say};
use crate::app::{self, App};
use crate::os::env::Env;
use crate::os::fs;
use crate::os::process::Processes;

/// Reports. Fails where something has to be fixed before a turn can run.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    let settings = match app::settings(env, &server::options(common)) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return ExitCode::from(2);
        }
    };
    let mut report = Report::default();
    let home = settings.home.clone();
    match fs::create_private_dirs(&home) {
        Ok(()) => Report::good(&format!("home: {}", home.display())),
        Err(error) => report.bad(&format!(
            "home: {error}; choose another with LONGSHORE_HOME"
        )),
    }
    let config = settings.config.clone();
    match &config.broken {
        Some(broken) => report.bad(&format!(
            "configuration: {}:{}:{} can't be read, and no turn runs until it is mended\n{}",
            broken.file.display(),
            broken.line,
            broken.column,
            broken.message
        )),
        None => Report::good("configuration: readable"),
    }
    for warning in &config.warnings {
        let place = match (&warning.file, warning.line) {
            (Some(file), Some(line)) => format!("{file}:{line}: "),
            (Some(file), None) => format!("{file}: "),
            _ => String::new(),
        };
        Report::note(&format!("configuration: {place}{}", warning.message));
    }
    let runtime = match server::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("longshore: the runtime could not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        let app = Arc::new(App::new(settings, Processes::new(None)));
        models(&app, &mut report);
    });
    report.end()
}

fn models(app: &App, report: &mut Report) {
    for model in app.sessions.models() {
        match app.sessions.check_model(&model.id) {
            Ok(()) => Report::good(&format!("model {}: ready ({})", model.id, model.provider)),
            Err(fault) => Report::note(&format!("model {}: {}", model.id, fault.message)),
        }
    }
    match app.sessions.check_default_model() {
        Ok(model) => Report::good(&format!("default model: {model}")),
        Err(fault) => report.bad(&format!("default model: {}", fault.message)),
    }
}

/// What was found.
#[derive(Default)]
struct Report {
    n_bad: u32,
}

impl Report {
    fn good(text: &str) {
        say(&format!("ok    {text}"));
    }

    fn note(text: &str) {
        say(&format!("note  {text}"));
    }

    fn bad(&mut self, text: &str) {
        self.n_bad += 1;
        say(&format!("FIX   {text}"));
    }

    fn end(&self) -> ExitCode {
        if self.n_bad == 0 {
            say("Everything a turn needs is there.");
            ExitCode::SUCCESS
        } else {
            say(&format!("{} thing(s) to fix.", self.n_bad));
            ExitCode::FAILURE
        }
    }
}
