//! Read: lines of a text file.

use std::fmt::Write as _;
use std::fs::File;
use std::hash::Hasher;
use std::io::{Cursor, Read as _, Seek, SeekFrom};
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::FileDeps;
use super::buffer::{self, Buffer, Buffers, Held, Look};
use super::target::{self, Failed, Target, io_reason};
use super::text::check::NotText;
use super::text::encoding::{self, Encoding, Text, Unreadable};
use super::text::{BOM, MAX_DECODED_BYTES, SNIFF_BYTES};
use super::window::{self, Limits, Source, Wanted, Window, WindowError};
use crate::kernel::access::Access;
use crate::kernel::rule::Subject;
use crate::media::kind::{self, AsText, Kind};
use crate::os::blocking;
use crate::os::fs::FileStamp;
use crate::tool::{Call, CallCx, Execute, Outcome, Refusal, Tool, ToolSpec, args};

/// Lines of one call.
const MAX_LINES: usize = 1000;

/// Bytes from the first bad one on by which an encoding is guessed.
const GUESS_BYTES: u64 = 64 << 10;

/// Line numbers listed in a note.
const MAX_LISTED: usize = 50;

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    /// Path of the file; relative paths start at the working directory.
    path: String,
    /// First line to read, from 1; or -1 to -1000: so many lines from the end.
    #[serde(default = "first_line")]
    #[schemars(range(min = -1000))]
    line_offset: i64,
    /// How many lines to read at most.
    #[serde(default = "all_lines")]
    #[schemars(range(min = 1))]
    n_lines: u64,
}

fn first_line() -> i64 {
    1
}

fn all_lines() -> u64 {
    MAX_LINES as u64
}

/// See the module.
#[derive(Debug)]
pub struct Read {
    spec: ToolSpec,
    deps: FileDeps,
}

impl Read {
    /// The tool's name.
    pub const NAME: &'static str = "Read";

    /// Makes the tool.
    pub fn new(deps: FileDeps) -> Self {
        let images = if deps.image_input {
            "\n- Images are no text; look at them with ReadMediaFile."
        } else {
            ""
        };
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("read.md")
                .trim()
                .replace("{images}", images)
                .into(),
            parameters: Arc::new(args::schema_of::<ReadArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: ReadArgs = args::typed(args)?;
        if args.line_offset == 0 {
            return Err(Refusal::new(
                "line_offset can't be 0: lines are counted from 1, and from the end by -1, -2, …",
            ));
        }
        let path = cx.workspace.resolve(&args.path)?.path;
        let line = (args.line_offset != 1).then_some(args.line_offset);
        Ok(Call {
            accesses: vec![Access::read(&path)],
            title: format!("Read {}", cx.workspace.show(&path)),
            display: Display::FileRead {
                path: path.display().to_string(),
                line,
            },
            subject: Subject::Path(path),
            preview: None,
            execute: ReadJob {
                args,
                deps: self.deps.clone(),
                buffers: Buffers::of(cx),
            }
            .execute(),
        })
    }
}

struct ReadJob {
    args: ReadArgs,
    deps: FileDeps,
    buffers: Buffers,
}

/// Where a text comes from.
enum Origin {
    Host(Held),
    /// With what the model has to be told about it.
    Disk {
        more: Option<String>,
    },
}

impl ReadJob {
    fn execute(self) -> Execute {
        Box::new(move |cx| {
            async move {
                let Some(target) = target::of_call(&cx.accesses, &self.args.path) else {
                    return target::no_access().into();
                };
                let origin = match self.origin(&target, &cx.cancel).await {
                    Ok(origin) => origin,
                    Err(failed) => return failed.into(),
                };
                blocking::run(move || {
                    let (read, more) = match origin {
                        Origin::Host(held) => {
                            let more = held.is_unsaved().then(|| buffer::UNSAVED.to_owned());
                            (self.read_held(&target, &held, &cx.cancel), more)
                        }
                        Origin::Disk { more } => (self.read(&target, &cx.cancel), more),
                    };
                    let mut outcome = read.unwrap_or_else(Outcome::from);
                    if let Some(more) = more {
                        outcome.add_note(&more);
                    }
                    outcome
                })
                .await
            }
            .boxed()
        })
    }

    /// Where the text comes from: the host of the turn where it holds the file, else the disk.
    async fn origin(&self, target: &Target, cancel: &CancellationToken) -> Result<Origin, Failed> {
        let Some(buffer) = self.buffers.find(target).filter(Buffer::gives) else {
            return Ok(Origin::Disk { more: None });
        };
        let look = buffer.look(target, &self.deps.freshness);
        Ok(match buffer::unless_cancelled(cancel, look).await? {
            Ok(Look::Held(held)) => Origin::Host(held),
            Ok(Look::Disk | Look::NotHeld { .. }) => Origin::Disk { more: None },
            Err(error) => Origin::Disk {
                more: Some(buffer::read_from_disk(&error)),
            },
        })
    }

    /// What a host holds.
    fn read_held(
        &self,
        target: &Target,
        held: &Held,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let outcome = self.read_text(target, held.body(), Encoding::Utf8, cancel)?;
        held.saw(target, &self.deps.freshness);
        Ok(outcome)
    }

    fn read(&self, target: &Target, cancel: &CancellationToken) -> Result<Outcome, Failed> {
        target::check_cancel(cancel)?;
        let (mut file, meta) = target.open()?;
        let stamp = FileStamp::from(&meta);
        let mut head = Vec::new();
        file.by_ref()
            .take(SNIFF_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(|error| unreadable(target, &error))?;
        match kind::as_text(&head, target.real()) {
            AsText::Open => {}
            AsText::Media(kind) => return Err(self.media(target, kind)),
            AsText::Misnamed(family) => {
                return Err(Failed::new(format!(
                    "{} is named like {}, but its bytes are not one, so it was not read.",
                    target.shown,
                    family.describe()
                )));
            }
        }
        match Encoding::sniff(&head) {
            Some(_) => self.decoded(target, file, stamp, cancel),
            None => self.utf8(target, file, stamp, &head, cancel),
        }
    }

    /// A file of any size, as long as it is UTF-8 where it is looked at.
    fn utf8(
        &self,
        target: &Target,
        file: File,
        stamp: FileStamp,
        head: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let mut hasher = self.deps.freshness.hasher();
        let start = if head.starts_with(BOM) {
            hasher.write(BOM);
            BOM.len() as u64
        } else {
            0
        };
        let mut source = Source {
            file,
            start,
            end: stamp.size,
            cancel,
        };
        let window = match window::read(&mut source, self.wanted(), Limits::READ, &mut hasher) {
            Ok(window) => window,
            Err(WindowError::NotText(NotText::Invalid(at))) => {
                return self.not_utf8(target, source.file, stamp, at, cancel);
            }
            Err(error) => return Err(window_error(target, error)),
        };
        let hash = window.total_is_exact.then(|| hasher.finish());
        self.deps.freshness.record(target.real(), stamp, hash);
        Ok(self.outcome(window, Encoding::Utf8))
    }

    /// A file with a byte at `at` that UTF-8 does not have: in an older encoding, or none.
    fn not_utf8(
        &self,
        target: &Target,
        mut file: File,
        stamp: FileStamp,
        at: u64,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        if stamp.size <= MAX_DECODED_BYTES {
            return self.decoded(target, file, stamp, cancel);
        }
        let mut sample = Vec::new();
        file.seek(SeekFrom::Start(at))
            .and_then(|_| file.take(GUESS_BYTES).read_to_end(&mut sample))
            .map_err(|error| unreadable(target, &error))?;
        Err(no_text(
            target,
            Unreadable::Unknown(at, encoding::guess_at(&sample, 0)),
        ))
    }

    /// A file that has to be decoded whole.
    fn decoded(
        &self,
        target: &Target,
        mut file: File,
        stamp: FileStamp,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        // One byte more than can be decoded tells what is wrong without reading the rest.
        let n_read = stamp.size.min(MAX_DECODED_BYTES + 1);
        let bytes = read_all(&mut file, n_read).map_err(|error| unreadable(target, &error))?;
        let text = Text::of(&bytes).map_err(|reason| no_text(target, reason))?;
        let outcome = self.read_text(target, &text.body, text.encoding, cancel)?;
        self.deps
            .freshness
            .record(target.real(), stamp, Some(self.deps.freshness.hash(&bytes)));
        Ok(outcome)
    }

    /// A text that is in memory already.
    fn read_text(
        &self,
        target: &Target,
        body: &str,
        encoding: Encoding,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let mut source = Source {
            end: body.len() as u64,
            file: Cursor::new(body.as_bytes()),
            start: 0,
            cancel,
        };
        let mut unused = self.deps.freshness.hasher();
        let window = window::read(&mut source, self.wanted(), Limits::READ, &mut unused)
            .map_err(|error| window_error(target, error))?;
        Ok(self.outcome(window, encoding))
    }

    /// Media, for which there may be another tool.
    fn media(&self, target: &Target, kind: Kind) -> Failed {
        let (shown, what, mime) = (&target.shown, kind.describe(), kind.mime());
        Failed::new(if self.deps.image_input {
            format!("{shown} is {what} ({mime}), not text; use ReadMediaFile.")
        } else {
            format!("{shown} is {what} ({mime}), not text; the model in use takes none.")
        })
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            offset: self.args.line_offset,
            n_lines: self.n_lines(),
        }
    }

    fn n_lines(&self) -> usize {
        usize::try_from(self.args.n_lines)
            .unwrap_or(MAX_LINES)
            .min(MAX_LINES)
    }

    fn outcome(&self, window: Window, encoding: Encoding) -> Outcome {
        let note = self.note(&window, encoding);
        let mut outcome = Outcome::text(window.text).with_note(note);
        outcome.truncated = window.hit_bytes;
        outcome
    }

    fn note(&self, window: &Window, encoding: Encoding) -> String {
        let mut note = match window.n_lines {
            0 => "No lines read.".to_owned(),
            1 => format!("1 line read, line {}.", window.first),
            n => format!("{n} lines read, from line {}.", window.first),
        };
        // Writing to a string cannot fail.
        let at_least = if window.total_is_exact {
            ""
        } else {
            "at least "
        };
        let _ = write!(note, " Total: {at_least}{}.", lines(window.total));
        let has_more = window.first + window.n_lines as i64 - 1 < window.total as i64
            || !window.total_is_exact;
        if window.hit_bytes {
            let left_out = if self.args.line_offset < 0 {
                "earlier"
            } else {
                "further"
            };
            let _ = write!(
                note,
                " Stopped at the limit of 102,400 bytes; {left_out} lines were left out."
            );
        } else if window.n_lines < self.n_lines() {
            note.push_str(" End of file reached.");
        } else if window.n_lines == MAX_LINES && has_more {
            note.push_str(" Stopped at the limit of 1,000 lines.");
        }
        if !window.cut.is_empty() {
            let _ = write!(
                note,
                " Lines cut at 2,000 characters: {}.",
                listed(&window.cut)
            );
        }
        if window.mixed {
            note.push_str(" Line endings are mixed: \\r in the text stands for a carriage return.");
            if !window.lookalikes.is_empty() {
                let lines = listed(&window.lookalikes);
                let _ = write!(
                    note,
                    " These lines also hold a backslash and an r in the file itself: {lines}."
                );
            }
        }
        if encoding != Encoding::Utf8 {
            let _ = write!(
                note,
                " The file is {} text, decoded here; Edit keeps it so.",
                encoding.name()
            );
        }
        note
    }
}

fn lines(count: u64) -> String {
    if count == 1 {
        "1 line".to_owned()
    } else {
        format!("{count} lines")
    }
}

fn listed(numbers: &[i64]) -> String {
    let shown: Vec<_> = numbers
        .iter()
        .take(MAX_LISTED)
        .map(i64::to_string)
        .collect();
    let more = if numbers.len() > MAX_LISTED {
        ", …"
    } else {
        ""
    };
    shown.join(", ") + more
}

fn read_all(file: &mut File, size: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(target: &Target, error: &std::io::Error) -> Failed {
    Failed::new(format!(
        "{} can't be read: {}.",
        target.shown,
        io_reason(error)
    ))
}

fn no_text(target: &Target, reason: Unreadable) -> Failed {
    let advice = match reason {
        Unreadable::NotText(NotText::Nul(_)) => "",
        Unreadable::NotText(NotText::Invalid(_))
        | Unreadable::Unknown(..)
        | Unreadable::Broken(_)
        | Unreadable::TooLarge(_) => " Convert a copy with a shell command (iconv) and read that.",
    };
    Failed::new(format!(
        "{} can't be read as text: {}.{advice}",
        target.shown,
        reason.reason()
    ))
}

fn window_error(target: &Target, error: WindowError) -> Failed {
    match error {
        WindowError::NotText(reason) => no_text(target, Unreadable::NotText(reason)),
        WindowError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Failed::new(format!(
                "{} became shorter while it was read. Read it again.",
                target.shown
            ))
        }
        WindowError::Io(error) => unreadable(target, &error),
        WindowError::Cancelled => target::cancelled(),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
