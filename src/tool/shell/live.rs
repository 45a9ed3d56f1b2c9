//! Output as hosts see it while a command runs.
//!
//! Text goes out in pieces, at most one per stream and interval unless a piece is full. After a certain amount only the
//! size is told. Once the end of the command was asked for nothing goes out any more.

use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::value::tool::ProgressStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::utf8::{Utf8, cut_before};
use crate::kernel::limits::COMMAND_LIVE_BYTES;
use crate::os::process::Stream;
use crate::tool::Progress;

/// How long text waits for more. Quick enough to look live, slow enough to spare hosts.
const TEXT_INTERVAL: Duration = Duration::from_millis(50);

/// How often the size is told.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// A piece of text that does not wait.
const PIECE_BYTES: usize = 16 << 10;

/// See the module.
pub(super) struct Live {
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
    stdout: Channel,
    stderr: Channel,
    /// The stream whose text has waited longer.
    first: Stream,
    mode: Mode,
    total_bytes: u64,
    text_bytes: usize,
    due: Option<Instant>,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Text,
    Size,
    Nothing,
}

#[derive(Default)]
struct Channel {
    decoder: Utf8,
    text: String,
}

impl Live {
    /// Shows output through `progress`, until `cancel`.
    pub(super) fn new(progress: Arc<dyn Progress>, cancel: CancellationToken) -> Self {
        Self {
            progress,
            cancel,
            stdout: Channel::default(),
            stderr: Channel::default(),
            first: Stream::Stdout,
            mode: Mode::Text,
            total_bytes: 0,
            text_bytes: 0,
            due: None,
        }
    }

    /// When [`Self::flush`] is to be called next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes output.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        match self.mode {
            Mode::Text => self.push_text(stream, bytes),
            Mode::Size => {
                self.due
                    .get_or_insert_with(|| Instant::now() + STATUS_INTERVAL);
            }
            Mode::Nothing => {}
        }
    }

    /// Shows what waits.
    pub(super) fn flush(&mut self) {
        self.due = None;
        match self.mode {
            Mode::Text => {
                let second = match self.first {
                    Stream::Stdout => Stream::Stderr,
                    Stream::Stderr => Stream::Stdout,
                };
                for stream in [self.first, second] {
                    let text = std::mem::take(&mut self.channel(stream).text);
                    self.show(stream, &text);
                }
            }
            Mode::Size => {
                let text = format!(
                    "{} bytes of output so far; no longer shown as text",
                    self.total_bytes
                );
                self.progress.status(&text);
            }
            Mode::Nothing => {}
        }
    }

    /// Shows the rest; the command has ended by itself.
    pub(super) fn finish(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let channel = self.channel(stream);
            let rest = channel.decoder.finish();
            channel.text.push_str(rest);
        }
        self.flush();
        self.stop();
    }

    /// Shows only the size from now on.
    pub(super) fn size_only(&mut self) {
        if self.mode == Mode::Text {
            self.mode = Mode::Size;
            self.stdout = Channel::default();
            self.stderr = Channel::default();
            self.due.get_or_insert_with(Instant::now);
        }
    }

    /// Shows nothing any more.
    pub(super) fn stop(&mut self) {
        self.mode = Mode::Nothing;
        self.due = None;
    }

    fn push_text(&mut self, stream: Stream, bytes: &[u8]) {
        if self.due.is_none() {
            self.due = Some(Instant::now() + TEXT_INTERVAL);
            self.first = stream;
        }
        let channel = self.channel(stream);
        let text = channel.decoder.push(bytes);
        channel.text.push_str(&text);
        if channel.text.len() < PIECE_BYTES {
            return;
        }
        let text = std::mem::take(&mut channel.text);
        let mut rest = text.as_str();
        while rest.len() >= PIECE_BYTES && self.mode == Mode::Text {
            let (piece, after) = rest.split_at(cut_before(rest, PIECE_BYTES));
            rest = after;
            self.show(stream, piece);
        }
        if self.mode == Mode::Text {
            self.channel(stream).text.push_str(rest);
        }
    }

    fn show(&mut self, stream: Stream, text: &str) {
        if self.cancel.is_cancelled() {
            // It may have come between two pieces of one read.
            self.stop();
        }
        if text.is_empty() || self.mode != Mode::Text {
            return;
        }
        let text = &text[..cut_before(text, COMMAND_LIVE_BYTES - self.text_bytes)];
        self.text_bytes += text.len();
        let progress_stream = match stream {
            Stream::Stdout => ProgressStream::Stdout,
            Stream::Stderr => ProgressStream::Stderr,
        };
        if !text.is_empty() {
            self.progress.output(progress_stream, text);
        }
        // A character that did not fit leaves up to three bytes unused.
        if COMMAND_LIVE_BYTES - self.text_bytes < 4 {
            self.size_only();
        }
    }

    fn channel(&mut self, stream: Stream) -> &mut Channel {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(Option<ProgressStream>, String)>>);

    impl Progress for Seen {
        fn output(&self, stream: ProgressStream, text: &str) {
            self.0.lock().unwrap().push((Some(stream), text.to_owned()));
        }

        fn status(&self, text: &str) {
            self.0.lock().unwrap().push((None, text.to_owned()));
        }
    }

    impl Seen {
        fn take(&self) -> Vec<(Option<ProgressStream>, String)> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    const OUT: Option<ProgressStream> = Some(ProgressStream::Stdout);
    const ERR: Option<ProgressStream> = Some(ProgressStream::Stderr);

    #[tokio::test(start_paused = true)]
    async fn small_pieces_wait_for_one_another() {
        let seen = Arc::new(Seen::default());
        let mut live = Live::new(seen.clone(), CancellationToken::new());
        assert_eq!(live.due(), None);
        live.push(Stream::Stderr, b"e1");
        live.push(Stream::Stdout, b"o1\xe2");
        live.push(Stream::Stderr, b"e2");
        assert_eq!(live.due(), Some(Instant::now() + TEXT_INTERVAL));
        assert_eq!(seen.take(), []);
        live.flush();
        assert_eq!(live.due(), None);
        assert_eq!(
            seen.take(),
            [(ERR, "e1e2".to_owned()), (OUT, "o1".to_owned())]
        );
        live.push(Stream::Stdout, b"\x82\xac");
        live.finish();
        assert_eq!(seen.take(), [(OUT, "€".to_owned())]);
        live.push(Stream::Stdout, b"late");
        live.flush();
        assert_eq!((seen.take(), live.due()), (vec![], None));
    }

    /// Cancels at the first piece.
    struct Impatient(CancellationToken, Mutex<usize>);

    impl Progress for Impatient {
        fn output(&self, _: ProgressStream, _: &str) {
            *self.1.lock().unwrap() += 1;
            self.0.cancel();
        }

        fn status(&self, _: &str) {
            self.output(ProgressStream::Status, "");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_shown_after_a_cancel() {
        let cancel = CancellationToken::new();
        let progress = Arc::new(Impatient(cancel.clone(), Mutex::default()));
        let mut live = Live::new(progress.clone(), cancel);
        live.push(Stream::Stdout, &vec![b'x'; 4 * PIECE_BYTES]);
        live.push(Stream::Stderr, b"more");
        live.flush();
        live.finish();
        assert_eq!(*progress.1.lock().unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_becomes_a_size() {
        let seen = Arc::new(Seen::default());
        let mut live = Live::new(seen.clone(), CancellationToken::new());
        let chunk = "é".repeat(32 << 10);
        for _ in 0..20 {
            live.push(Stream::Stdout, chunk.as_bytes());
        }
        let pieces = seen.take();
        assert_eq!(
            pieces.iter().map(|(_, text)| text.len()).sum::<usize>(),
            COMMAND_LIVE_BYTES
        );
        assert!(
            pieces
                .iter()
                .all(|(stream, text)| *stream == OUT && text.len() == PIECE_BYTES)
        );
        assert!(live.due().is_some());
        live.flush();
        live.push(Stream::Stdout, b"more");
        assert_eq!(live.due(), Some(Instant::now() + STATUS_INTERVAL));
        live.flush();
        let total = 20 * chunk.len();
        let status = |n: usize| {
            (
                None,
                format!("{n} bytes of output so far; no longer shown as text"),
            )
        };
        assert_eq!(seen.take(), [status(total), status(total + 4)]);
    }
}
