//! Hosts' files for the tests of the layers above.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::{HostId, SessionId, TurnId};

use super::host_fs::{FsAbilities, FsHost, HostFsError};
use super::port::HostFs;

/// One host that holds texts in memory. The default offers nothing.
#[derive(Default)]
pub(crate) struct FakeHostFs(Mutex<State>);

#[derive(Default)]
struct State {
    offers: FsAbilities,
    texts: HashMap<String, String>,
    read_error: Option<HostFsError>,
    write_error: Option<HostFsError>,
    asked: Vec<String>,
}

impl FakeHostFs {
    /// From now on it offers this.
    pub(crate) fn offer(&self, read: bool, write: bool) {
        self.with(|state| state.offers = FsAbilities { read, write });
    }

    /// It holds this text.
    pub(crate) fn hold(&self, path: &str, text: &str) {
        self.with(|state| state.texts.insert(path.to_owned(), text.to_owned()));
    }

    /// What it holds.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.with(|state| state.texts.get(path).cloned())
    }

    /// From now on reading and writing fail so; `None` is as usual.
    pub(crate) fn fail(&self, read: Option<HostFsError>, write: Option<HostFsError>) {
        self.with(|state| (state.read_error, state.write_error) = (read, write));
    }

    /// What it was asked since the last time, as `read path` and `write path`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.asked))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HostFs for FakeHostFs {
    fn host_for(&self, _: &SessionId, _: &TurnId) -> Option<FsHost> {
        let offers = self.with(|state| state.offers);
        offers.any().then(|| FsHost {
            id: HostId::from("h1".to_owned()),
            offers,
        })
    }

    fn read_text(
        &self,
        _: &HostId,
        _: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>> {
        let answer = self.with(|state| {
            state.asked.push(format!("read {path}"));
            match &state.read_error {
                Some(error) => Err(error.clone()),
                None => state.texts.get(path).cloned().ok_or(HostFsError::NotFound),
            }
        });
        futures::future::ready(answer).boxed()
    }

    fn write_text(
        &self,
        _: &HostId,
        _: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>> {
        let answer = self.with(|state| {
            state.asked.push(format!("write {path}"));
            if let Some(error) = &state.write_error {
                return Err(error.clone());
            }
            state.texts.insert(path.to_owned(), text);
            Ok(())
        });
        futures::future::ready(answer).boxed()
    }
}
