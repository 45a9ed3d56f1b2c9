//! A workspace on the disk, and calls taken through every stage they go through in the engine.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::tool::ProgressStream;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{FileDeps, Freshness};
use crate::config::values::ImageConfig;
use crate::kernel::access::RealAccess;
use crate::kernel::fakes::FakeHostFs;
use crate::kernel::message::Part;
use crate::media::pool::ImagePool;
use crate::os::fs::Durability;
use crate::path::{Workspace, WorkspaceOptions};
use crate::schema::Validator;
use crate::tool::host_files::HostFiles;
use crate::tool::{Call, CallCx, ExecCx, Outcome, Progress, Refusal, Tool, args};

/// See the module.
pub(super) struct Bench {
    _dir: TempDir,
    /// The workspace, links resolved.
    pub ws: PathBuf,
    pub workspace: Arc<Workspace>,
    /// What a host holds; none until it offers something.
    pub host: Arc<FakeHostFs>,
    pub deps: FileDeps,
}

struct Silent;

impl Progress for Silent {
    fn output(&self, _: ProgressStream, _: &str) {}

    fn status(&self, _: &str) {}
}

impl Bench {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ws = dir.path().canonicalize().unwrap().join("ws");
        fs::create_dir(&ws).unwrap();
        let workspace = Arc::new(Workspace::open(WorkspaceOptions {
            cwd: ws.clone(),
            ..WorkspaceOptions::default()
        }));
        let deps = FileDeps {
            freshness: Arc::default(),
            locks: Arc::default(),
            search: Arc::default(),
            durability: Durability::Kernel,
            temps: None,
            must_be_fresh: crate::config::values::Freshness::Default,
            image_input: true,
            video_input: false,
            images: ImagePool::default(),
            image: ImageConfig::default(),
        };
        Self {
            _dir: dir,
            ws,
            workspace,
            host: Arc::default(),
            deps,
        }
    }

    /// The same for another agent, which has seen nothing yet.
    pub(super) fn other_agent(&self) -> FileDeps {
        FileDeps {
            freshness: Arc::new(Freshness::default()),
            ..self.deps.clone()
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.ws.join(name)
    }

    pub(super) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Validates and resolves.
    pub(super) fn resolve(&self, tool: &dyn Tool, mut value: Value) -> Result<Call, Refusal> {
        let spec = tool.spec();
        args::normalize(&mut value, &spec.parameters);
        Validator::compile(&spec.parameters)
            .unwrap()
            .check(&value)
            .map_err(Refusal::new)?;
        let cx = CallCx {
            session: "s".into(),
            agent: "main".into(),
            workspace: Arc::clone(&self.workspace),
            todos: Arc::default(),
            host_files: Some(HostFiles::new(self.host.clone(), "s".into(), "t1".into())),
        };
        tool.resolve(value, &cx)
    }

    /// Resolves and looks at the disk.
    pub(super) async fn judge(
        &self,
        tool: &dyn Tool,
        value: Value,
    ) -> Result<(Call, Vec<RealAccess>), Refusal> {
        let call = self.resolve(tool, value)?;
        let accesses = self.workspace.real_accesses(&call.accesses).await?;
        Ok((call, accesses))
    }

    pub(super) fn cx(&self, accesses: Vec<RealAccess>, cancel: &CancellationToken) -> ExecCx {
        ExecCx {
            call: "call_1".into(),
            cancel: cancel.clone(),
            accesses,
            progress: Arc::new(Silent),
            ask_user: None,
            results_dir: self.ws.join("../results"),
        }
    }

    /// The whole way; a refusal becomes a failed outcome.
    pub(super) async fn run(&self, tool: &dyn Tool, value: Value) -> Outcome {
        match self.judge(tool, value).await {
            Ok((call, accesses)) => {
                (call.execute)(self.cx(accesses, &CancellationToken::new())).await
            }
            Err(refusal) => Outcome::failed(refusal.message),
        }
    }

    /// The kind of the refusal.
    pub(super) async fn refused(&self, tool: &dyn Tool, value: Value) -> Option<ErrorKind> {
        match self.judge(tool, value).await {
            Ok(_) => panic!("not refused"),
            Err(refusal) => refusal.kind,
        }
    }

    /// What a person would be shown before deciding.
    pub(super) async fn preview(&self, tool: &dyn Tool, value: Value) -> Option<Display> {
        let (call, accesses) = self.judge(tool, value).await.unwrap();
        match call.preview {
            Some(preview) => preview(accesses).await,
            None => None,
        }
    }
}

/// The text of an outcome.
pub(super) fn text(outcome: &Outcome) -> String {
    let texts = outcome.output.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect()
}

/// The text of a success.
pub(super) fn ok(outcome: &Outcome) -> String {
    assert!(!outcome.is_error, "{outcome:?}");
    text(outcome)
}

/// The text of a failure.
pub(super) fn failed(outcome: &Outcome) -> String {
    assert!(outcome.is_error, "{outcome:?}");
    text(outcome)
}

/// The side text.
pub(super) fn note(outcome: &Outcome) -> String {
    outcome.note.clone().unwrap_or_default()
}
