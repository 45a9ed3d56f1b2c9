//! A call that waits for its command: takes the output for the model and for hosts.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, Captured};
use super::live::Live;
use crate::background::{Released, Ring, Tap};
use crate::os::process::Chunk;
use crate::tool::Progress;

/// See the module.
pub(super) struct CallTap {
    capture: Option<Capture>,
    captured: Option<Captured>,
    live: Live,
    done: oneshot::Sender<Seen>,
}

/// What a call is given when its command has ended, or goes on without it.
#[derive(Debug)]
pub(super) struct Seen {
    /// What it wrote until then.
    pub(super) captured: Captured,
    /// What has become of it.
    pub(super) released: Released,
}

impl CallTap {
    /// A tap that shows output through `progress` until `cancel`, and what the call is told through.
    pub(super) fn new(
        progress: &Arc<dyn Progress>,
        cancel: &CancellationToken,
    ) -> (Self, oneshot::Receiver<Seen>) {
        let (done, seen) = oneshot::channel();
        let tap = Self {
            capture: Some(Capture::new()),
            captured: None,
            live: Live::new(Arc::clone(progress), cancel.clone()),
            done,
        };
        (tap, seen)
    }
}

impl Tap for CallTap {
    fn output(&mut self, chunk: &Chunk) {
        if let Some(capture) = &mut self.capture {
            capture.push(chunk);
            if capture.is_binary() {
                self.live.size_only();
            }
        }
        self.live.push(chunk.stream, &chunk.bytes);
    }

    fn wants_log(&self) -> bool {
        self.capture.as_ref().is_some_and(Capture::wants_log)
    }

    fn due(&self) -> Option<Instant> {
        self.live.due()
    }

    fn flush(&mut self) {
        self.live.flush();
    }

    fn stopping(&mut self) {
        self.live.stop();
    }

    fn settle(&mut self, ring: &mut Ring) -> bool {
        self.live.finish();
        if let Some(capture) = self.capture.take() {
            self.captured = Some(capture.finish(ring));
        }
        self.captured
            .as_ref()
            .is_some_and(|captured| !captured.is_whole)
    }

    fn release(self: Box<Self>, released: Released) {
        let captured = self.captured.unwrap_or_default();
        // The call may be gone.
        let _ = self.done.send(Seen { captured, released });
    }
}
