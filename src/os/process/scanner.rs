use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::table::Snapshot;

/// Reads the process table for whoever asks, once for all who ask at the same time: stopping a thousand children
/// must not read it a thousand times.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<oneshot::Sender<Arc<Snapshot>>>,
    is_scanning: bool,
}

impl Scanner {
    /// Gives a snapshot whose reading began after the call.
    pub(super) async fn snapshot(&self) -> Arc<Snapshot> {
        let (sender, receiver) = oneshot::channel();
        let must_scan = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiting.push(sender);
            !std::mem::replace(&mut state.is_scanning, true)
        };
        if must_scan {
            let this = self.clone();
            drop(tokio::task::spawn_blocking(move || this.scan_until_idle()));
        }
        // An error means that the runtime is going away: nothing is found any more.
        receiver.await.unwrap_or_default()
    }

    fn scan_until_idle(&self) {
        loop {
            let waiting = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.waiting.is_empty() {
                    state.is_scanning = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let snapshot = Arc::new(Snapshot::take());
            for asker in waiting {
                // Whoever stopped waiting needs no answer.
                drop(asker.send(Arc::clone(&snapshot)));
            }
        }
    }
}
