//! The list of stored sessions, answered without opening their journals.
//!
//! `sessions/index.jsonl` holds the facts of each session, `sessions/prompts.jsonl` the beginnings of its prompts; the
//! last line of a session counts. Both are caches that all processes append to: the directories say which sessions there
//! are, and what the index does not know of one, or knows from a process that died while it had the session open, is
//! read from the session itself and noted again.
//!
//! Start with [`Index::page`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use longshore_protocol::id::SessionId;
use longshore_protocol::value::page::Page;
use longshore_protocol::value::session::{Session, Status};
use serde::{Deserialize, Serialize};

use super::list::{ListFilter, Place, page_limit, write_cursor};
use super::store;
use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Disk, FileKind};
use crate::os::lock::FileLock;
use crate::store::shared_log::SharedLog;

/// Lines beyond twice the sessions there are before the index is rewritten.
const SLACK_LINES: usize = 1024;
/// Bytes of prompts, and so many for each session, before they are rewritten.
const SLACK_PROMPT_BYTES: usize = 4 << 20;
/// How often it is tried to forget a session while others write.
const FORGET_TRIES: usize = 1000;
/// A directory that changed less than this ago may change again within the same tick of its clock.
const UNSETTLED_MS: i64 = 2000;

/// What is known of all sessions below one home.
#[derive(Debug)]
pub(super) struct Index {
    root: PathBuf,
    log: SharedLog,
    prompts: SharedLog,
    /// The sessions of each directory as they were when it last changed (nanoseconds).
    dirs: Mutex<HashMap<OsString, (i64, Vec<String>)>>,
}

/// Whether a process has a session open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Its facts may change without a note until it is closed.
    Open,
    /// They are what the note says.
    Closed,
}

/// What a session was prompted with.
#[derive(Debug)]
pub(super) enum Prompts {
    /// Since the last note.
    More(Vec<String>),
    /// At all: some that were noted before may not count any more.
    All(Vec<String>),
}

/// A line of the index as it is written.
#[derive(Serialize)]
struct Note<'a> {
    open: bool,
    session: &'a Session,
}

/// A line of the index as it is read: no more than choosing takes.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    open: bool,
    #[serde(borrow)]
    session: Facts<'a>,
}

/// What sessions are chosen and ordered by.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts<'a> {
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) updated_at: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) cwd: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) last_prompt: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) archived: bool,
}

/// A line of the prompts.
#[derive(Serialize, Deserialize)]
struct Prompt<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    /// True where the lines of this session before this one count no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    anew: bool,
}

/// A session that may be on a page.
struct Row<'a> {
    facts: Facts<'a>,
    /// True where it stands with the sessions of the directory that is asked for.
    is_here: bool,
    whole: Whole<'a>,
}

/// Where the whole of a session is.
enum Whole<'a> {
    Line(&'a [u8]),
    Session(&'a Session),
}

/// The last line of a session.
struct Known<'a> {
    open: bool,
    facts: Facts<'a>,
    line: &'a [u8],
}

impl<'a> From<&'a Session> for Facts<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            session_id: session.session_id.as_str().into(),
            updated_at: session.updated_at.as_str().into(),
            cwd: session.cwd.as_str().into(),
            title: session.title.as_str().into(),
            last_prompt: session.last_prompt.as_deref().map(Into::into),
            archived: session.archived,
        }
    }
}

impl Facts<'_> {
    fn place(&self) -> (&str, &str) {
        (&self.updated_at, &self.session_id)
    }
}

impl Index {
    /// The index below a home.
    pub(super) fn new(home: &Path, disk: &Arc<dyn Disk>) -> Self {
        let root = home.join("sessions");
        Self {
            log: SharedLog::on(root.join("index.jsonl"), disk.clone()),
            prompts: SharedLog::on(root.join("prompts.jsonl"), disk.clone()),
            root,
            dirs: Mutex::default(),
        }
    }

    /// Notes a session as it is, and what it was prompted with. A failure costs speed only, and stale facts of a session
    /// that is not asked again. Blocking.
    pub(super) fn note(&self, session: &Session, state: Use, prompts: &Prompts) {
        let note = Note {
            open: state == Use::Open,
            session,
        };
        let noted = serde_json::to_vec(&note)
            .map_err(std::io::Error::other)
            .and_then(|line| self.log.append(&line).map_err(std::io::Error::other))
            .and_then(|()| self.note_prompts(session.session_id.as_str(), prompts));
        if let Err(error) = noted {
            tracing::warn!(session = %session.session_id, %error, "a session could not be noted in the index");
        }
    }

    fn note_prompts(&self, id: &str, prompts: &Prompts) -> std::io::Result<()> {
        let (mut anew, mut texts) = match prompts {
            Prompts::More(texts) => (false, texts.as_slice()),
            Prompts::All(texts) => (true, texts.as_slice()),
        };
        let none = [String::new()];
        if texts.is_empty() {
            if !anew {
                return Ok(());
            }
            texts = &none;
        }
        let mut lines = String::new();
        for text in texts {
            let prompt = Prompt {
                id: id.into(),
                text: text.into(),
                anew: std::mem::take(&mut anew),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{}", serde_json::to_string(&prompt)?);
        }
        self.prompts
            .append(lines.trim_end().as_bytes())
            .map_err(std::io::Error::other)
    }

    /// Forgets a session that is gone, the words it was prompted with above all. Blocking.
    pub(super) fn forget(&self, id: &SessionId) {
        let without = |old: &[u8]| -> Vec<u8> {
            let mut kept = Vec::with_capacity(old.len());
            let lines = old.split(|byte| *byte == b'\n');
            for line in
                lines.filter(|line| memchr::memmem::find(line, id.as_str().as_bytes()).is_none())
            {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
            kept
        };
        for log in [&self.log, &self.prompts] {
            // Whoever is writing is done in a moment.
            let rewritten = (0..FORGET_TRIES).find_map(|_| match log.rewrite(without) {
                Ok(false) => {
                    std::thread::yield_now();
                    None
                }
                done => Some(done.map(drop)),
            });
            match rewritten {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::warn!(session = %id, %error, "the index could not be made to forget a session");
                }
                None => {
                    tracing::warn!(session = %id, "the index is in use; a deleted session stands in it for a while");
                }
            }
        }
    }

    /// One page of the sessions that a filter takes, the newest first. `loaded` are those of this process, as they are
    /// now. Blocking.
    pub(super) fn page(
        &self,
        loaded: &HashMap<SessionId, Session>,
        filter: &ListFilter,
        start: Option<&Place>,
        now: Timestamp,
    ) -> Page<Session> {
        let bytes = self.log.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "the index of sessions can't be read");
            Vec::new()
        });
        let (mut known, n_lines) = read(&bytes);
        let mut unknown = Vec::new();
        let mut rows: Vec<Row<'_>> = Vec::new();
        let mut n_sessions = 0;
        let here = filter
            .cwd
            .as_deref()
            .and_then(|cwd| fs::real_path(Path::new(cwd)).ok())
            .map(|cwd| OsString::from(store::cwd_key(&cwd)));
        for (dir, ids) in self.directories(now) {
            let is_here = here.is_some() && dir.file_name() == here.as_deref();
            for id in ids {
                n_sessions += 1;
                let found = known.remove(id.as_str());
                if let Some(session) = loaded.get(&SessionId::from(id.as_str())) {
                    rows.push(Row::of(session, is_here));
                } else if let Some(found) =
                    found.filter(|found| !found.open || is_held(&dir.join(&id)))
                {
                    rows.push(Row {
                        facts: found.facts,
                        is_here,
                        whole: Whole::Line(found.line),
                    });
                } else {
                    unknown.push((SessionId::from(id.as_str()), dir.join(&id), is_here));
                }
            }
        }
        let rebuilt: Vec<(Session, bool)> = unknown
            .iter()
            .filter_map(|(id, dir, is_here)| Some((self.rebuild(id, dir)?, *is_here)))
            .collect();
        rows.extend(
            rebuilt
                .iter()
                .map(|(session, is_here)| Row::of(session, *is_here)),
        );
        let page = self.choose(rows, filter, start);
        if n_lines > 2 * n_sessions + SLACK_LINES {
            self.compact(now);
        }
        page
    }

    /// What is known from a session itself.
    fn rebuild(&self, id: &SessionId, dir: &Path) -> Option<Session> {
        let session = store::cached(id, dir)?;
        let prompts = store::prompts(dir);
        self.note(&session, Use::Closed, &prompts);
        Some(session)
    }

    /// One page of the sessions that are not to be kept: they are in no index, since nothing outlives this process.
    pub(super) fn page_of_ephemeral(
        loaded: &HashMap<SessionId, Session>,
        filter: &ListFilter,
        start: Option<&Place>,
    ) -> Page<Session> {
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let rows = loaded.values().filter(|session| session.ephemeral);
        let rows = rows.map(|session| Row::of(session, false));
        pick(rows.collect(), filter, start, text.as_deref(), None)
    }

    fn choose(
        &self,
        rows: Vec<Row<'_>>,
        filter: &ListFilter,
        start: Option<&Place>,
    ) -> Page<Session> {
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let prompted = text.as_deref().map(|text| self.prompted_with(text));
        pick(rows, filter, start, text.as_deref(), prompted.as_ref())
    }

    /// The sessions with a prompt that holds a text (lower case).
    fn prompted_with(&self, text: &str) -> HashSet<String> {
        let bytes = self.prompts.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "the prompts of sessions can't be read");
            Vec::new()
        });
        let mut found = HashSet::new();
        for prompt in values::<Prompt<'_>>(&bytes).map(|(prompt, _)| prompt) {
            if prompt.anew {
                found.remove(&*prompt.id);
            }
            if !found.contains(&*prompt.id) && prompt.text.to_lowercase().contains(text) {
                found.insert(prompt.id.into_owned());
            }
        }
        found
    }

    /// The directories of sessions, each with the names in it.
    fn directories(&self, now: Timestamp) -> Vec<(PathBuf, Vec<String>)> {
        let mut seen = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settled = HashMap::with_capacity(seen.len());
        let mut all = Vec::new();
        for key in fs::list_dir(&self.root).unwrap_or_default() {
            if key.kind != FileKind::Dir {
                continue;
            }
            let Ok(stamp) = fs::stamp_of(&key.path) else {
                continue;
            };
            let ids = match seen.remove(&key.name) {
                Some((at, ids)) if at == stamp.mtime_ns => ids,
                _ => session_names(&key.path),
            };
            if now.0 - stamp.mtime_ns / 1_000_000 > UNSETTLED_MS {
                settled.insert(key.name, (stamp.mtime_ns, ids.clone()));
            }
            all.push((key.path, ids));
        }
        *seen = settled;
        all
    }

    /// Leaves one line for each session that is there.
    fn compact(&self, now: Timestamp) {
        let there: HashSet<String> = self
            .directories(now)
            .into_iter()
            .flat_map(|(_, ids)| ids)
            .collect();
        let facts = self.log.rewrite(|old| {
            let (known, _) = read(old);
            let mut kept = Vec::with_capacity(old.len() / 2);
            for (id, known) in known {
                if there.contains(id.as_ref()) {
                    kept.extend_from_slice(known.line);
                    kept.push(b'\n');
                }
            }
            kept
        });
        let prompts = match self.prompts.read() {
            Ok(bytes) if bytes.len() > SLACK_PROMPT_BYTES => self.prompts.rewrite(|old| {
                let mut kept: HashMap<Cow<'_, str>, Vec<&[u8]>> = HashMap::new();
                let mut seen = HashSet::new();
                for (prompt, line) in values::<Prompt<'_>>(old) {
                    if !there.contains(prompt.id.as_ref()) {
                        continue;
                    }
                    let lines = kept.entry(prompt.id).or_default();
                    if prompt.anew {
                        for line in lines.drain(..) {
                            seen.remove(line);
                        }
                    }
                    if seen.insert(line) {
                        lines.push(line);
                    }
                }
                let mut rest = Vec::with_capacity(old.len() / 2);
                for line in kept.into_values().flatten() {
                    rest.extend_from_slice(line);
                    rest.push(b'\n');
                }
                rest
            }),
            Ok(_) => Ok(true),
            Err(error) => Err(error),
        };
        if let Err(error) = facts.and(prompts) {
            tracing::warn!(%error, "the index of sessions could not be rewritten");
        }
    }
}

impl<'a> Row<'a> {
    fn of(session: &'a Session, is_here: bool) -> Self {
        Self {
            facts: session.into(),
            is_here,
            whole: Whole::Session(session),
        }
    }

    fn into_session(self) -> Option<Session> {
        #[derive(Deserialize)]
        struct Full {
            session: Session,
        }
        match self.whole {
            Whole::Session(session) => Some(session.clone()),
            Whole::Line(line) => match serde_json::from_slice::<Full>(line) {
                Ok(full) => Some(Session {
                    status: Status::Closed,
                    ..full.session
                }),
                Err(error) => {
                    tracing::warn!(session = %self.facts.session_id, %error, "a line of the index can't be used");
                    None
                }
            },
        }
    }
}

/// The page of those that are wanted, the newest first. `text` is the wanted text in lower case.
fn pick(
    mut rows: Vec<Row<'_>>,
    filter: &ListFilter,
    start: Option<&Place>,
    text: Option<&str>,
    prompted: Option<&HashSet<String>>,
) -> Page<Session> {
    rows.retain(|row| {
        filter.takes(&row.facts, row.is_here, text, prompted)
            && start.is_none_or(|(at, id)| row.facts.place() < (at.as_str(), id.as_str()))
    });
    rows.sort_unstable_by(|a, b| b.facts.place().cmp(&a.facts.place()));
    let limit = page_limit(filter.limit);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let items: Vec<Session> = rows.into_iter().filter_map(Row::into_session).collect();
    let next_cursor = more.then(|| items.last().map(write_cursor)).flatten();
    Page { items, next_cursor }
}

/// The last line of each session, and how many lines there are.
fn read(bytes: &[u8]) -> (HashMap<Cow<'_, str>, Known<'_>>, usize) {
    let mut known = HashMap::new();
    let mut n_lines = 0;
    for (Line { open, session }, line) in values::<Line<'_>>(bytes) {
        n_lines += 1;
        let id = session.session_id.clone();
        let facts = session;
        known.insert(id, Known { open, facts, line });
    }
    (known, n_lines)
}

/// The values of a file of lines with their bytes; also where two stand on one line. What is no such value is skipped,
/// as is the rest of its line.
fn values<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> impl Iterator<Item = (T, &'a [u8])> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).flat_map(|line| {
        let mut stream = serde_json::Deserializer::from_slice(line).into_iter::<T>();
        let mut begin = 0;
        std::iter::from_fn(move || {
            let value = stream.next()?.ok()?;
            let end = stream.byte_offset();
            let text = line.get(begin..end)?;
            begin = end;
            Some((value, text))
        })
    })
}

fn session_names(dir: &Path) -> Vec<String> {
    let entries = fs::list_dir(dir).unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| entry.kind == FileKind::Dir)
        .filter_map(|entry| entry.name.into_string().ok())
        .collect()
}

/// Whether a living process has a session open.
fn is_held(dir: &Path) -> bool {
    FileLock::holder(&dir.join("lock")).is_ok_and(|holder| holder.is_some())
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
