//! Sessions.

use longshore_protocol::method::session::{
    ArchiveParams, ArchiveResult, AttachParams, AttachResult, ClearParams, ClearResult,
    CloseParams, CloseResult, CreateParams, CreateResult, DeleteParams, DeleteResult, DetachParams,
    DetachResult, EventsParams, EventsResult, ExportParams, ExportResult, ForkParams, ForkResult,
    GetParams, GetResult, ListParams, ListResult, Replay, ResumeParams, ResumeResult, SetParams,
    SetResult, TranscriptParams, TranscriptResult, UndoParams, UndoResult,
};
use longshore_protocol::value::page::Page;
use longshore_protocol::value::session::{Pending, Snapshot, Status};

use super::page_limit;
use crate::face::native::dispatch::Cx;
use crate::face::native::error::invalid_params;
use crate::face::native::project;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PAGE;
use crate::session::export::{ExportOptions, Exported};
use crate::session::fork::ForkOptions;
use crate::session::list::ListFilter;
use crate::session::{CreateOptions, View, not_found};

/// What one page of `session/events` holds at most, about. Chosen: a reply that any host can take in one line.
const EVENTS_BYTES: usize = 4 << 20;

pub(in crate::face::native) async fn create(
    cx: Cx,
    params: CreateParams,
) -> Result<CreateResult, Fault> {
    let options = CreateOptions {
        cwd: params.cwd.into(),
        additional_dirs: params.additional_dirs.into_iter().map(Into::into).collect(),
        model: params.model,
        thinking: params.thinking,
        mode: params.mode,
        title: params.title,
        ephemeral: params.ephemeral,
        metadata: params.metadata,
        unattended: params.unattended,
        timezone: params.timezone,
        script: params.script,
    };
    let (handle, session) = cx.deps().sessions.create(options).await?;
    let attaching = cx.attach(&session.session_id)?;
    let last_seq = handle.view().await?.last_seq;
    let (sessions, created) = (cx.deps().sessions.clone(), session.clone());
    cx.after(move || {
        // The maker sees everything from the first event on.
        attaching.go(0, last_seq);
        handle.door().look();
        sessions.announce(created);
    });
    Ok(CreateResult { session })
}

pub(in crate::face::native) async fn resume(
    cx: Cx,
    params: ResumeParams,
) -> Result<ResumeResult, Fault> {
    let id = params.session_id;
    // Watched first: a session with a watcher is not unloaded.
    let attaching = cx.attach(&id)?;
    let handle = cx.deps().sessions.open(&id).await?;
    let View {
        session,
        last_seq,
        warnings,
        ..
    } = handle.view().await?;
    let transcript = match params.replay {
        Replay::Transcript => Some(
            cx.deps()
                .sessions
                .transcript(&id, None, params.limit)
                .await?,
        ),
        Replay::None | Replay::Events => None,
    };
    let cursor = match params.replay {
        Replay::Events => 0,
        Replay::None | Replay::Transcript => last_seq,
    };
    cx.after(move || {
        attaching.go(cursor, last_seq);
        handle.door().look();
    });
    Ok(ResumeResult {
        session,
        last_seq,
        transcript,
        warnings: warnings.to_vec(),
    })
}

pub(in crate::face::native) async fn attach(
    cx: Cx,
    params: AttachParams,
) -> Result<AttachResult, Fault> {
    let id = params.session_id;
    // Attached before the look at the session: what happens in between is in the journal, and is sent after the reply. And
    // a session with a watcher is not unloaded.
    let attaching = cx.attach(&id)?;
    let handle = cx.deps().sessions.open(&id).await?;
    let view = handle.view().await?;
    let last_seq = view.last_seq;
    let wanted = params.after_seq.map(u64::try_from);
    let (cursor, resync) = match wanted {
        None => (last_seq, false),
        Some(Ok(after)) if after <= last_seq => (after, false),
        Some(_) => (last_seq, true),
    };
    // A host that says how far it has got has the turns before that: they are not read for it again.
    let turns = if wanted.is_some() && !resync {
        Page {
            items: Vec::new(),
            next_cursor: None,
        }
    } else {
        cx.deps()
            .sessions
            .transcript(&id, None, Some(PAGE as u32))
            .await?
    };
    let snapshot = Snapshot {
        status: view.session.status,
        session: view.session,
        last_seq,
        open_asks: cx.deps().hub.open_asks(&id),
        turns: turns.items,
        next_cursor: turns.next_cursor,
        warnings: view.warnings.to_vec(),
    };
    cx.after(move || {
        attaching.go(cursor, last_seq);
        handle.door().look();
    });
    Ok(AttachResult {
        last_seq,
        resync,
        snapshot,
    })
}

pub(in crate::face::native) fn detach(cx: &Cx, params: DetachParams) -> DetachResult {
    cx.deps().hub.detach(cx.host_id(), &params.session_id);
    DetachResult {}
}

pub(in crate::face::native) async fn list(cx: Cx, params: ListParams) -> Result<ListResult, Fault> {
    let ListParams {
        cwd,
        text,
        archived,
        ephemeral,
        cursor,
        limit,
    } = params;
    cx.deps()
        .sessions
        .list(ListFilter {
            cwd,
            text,
            archived,
            ephemeral,
            cursor,
            limit,
        })
        .await
}

pub(in crate::face::native) async fn get(cx: Cx, params: GetParams) -> Result<GetResult, Fault> {
    let view = cx.deps().sessions.view(&params.session_id).await?;
    let pending = (view.session.status != Status::Closed).then(|| Pending {
        turns: count(view.queued.len() + usize::from(view.running.is_some())),
        tasks: count(view.n_tasks),
        notices: count(view.n_notices),
        jobs: count(view.n_jobs),
    });
    Ok(GetResult {
        session: view.session,
        pending,
    })
}

pub(in crate::face::native) async fn set(cx: Cx, params: SetParams) -> Result<SetResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let session = handle.set(params.changes()).await?;
    Ok(SetResult {
        session,
        pending: None,
    })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(in crate::face::native) async fn transcript(
    cx: Cx,
    params: TranscriptParams,
) -> Result<TranscriptResult, Fault> {
    let TranscriptParams {
        session_id,
        cursor,
        limit,
    } = params;
    cx.deps()
        .sessions
        .transcript(&session_id, cursor, limit)
        .await
}

pub(in crate::face::native) async fn events(
    cx: Cx,
    params: EventsParams,
) -> Result<EventsResult, Fault> {
    let id = params.session_id;
    let last_seq = cx.deps().sessions.view(&id).await?.last_seq;
    let limit = page_limit(params.limit);
    let mut items = Vec::new();
    if params.after_seq < last_seq {
        let events = cx
            .deps()
            .log
            .read_events(&id, params.after_seq, EVENTS_BYTES)
            .await?;
        items.extend(events.iter().take(limit).map(|event| project::value(event)));
    }
    Ok(EventsResult { items, last_seq })
}

pub(in crate::face::native) async fn fork(cx: Cx, params: ForkParams) -> Result<ForkResult, Fault> {
    let options = ForkOptions {
        turn: params.turn_id,
        title: params.title,
        cwd: params.cwd.map(Into::into),
        additional_dirs: params
            .additional_dirs
            .map(|dirs| dirs.into_iter().map(Into::into).collect()),
    };
    let forked = cx.deps().sessions.fork(&params.session_id, options).await?;
    let (handle, session) = forked;
    let attaching = cx.attach(&session.session_id)?;
    let last_seq = handle.view().await?.last_seq;
    let (sessions, created) = (cx.deps().sessions.clone(), session.clone());
    cx.after(move || {
        attaching.go(last_seq, last_seq);
        handle.door().look();
        sessions.announce(created);
    });
    Ok(ForkResult { session, last_seq })
}

pub(in crate::face::native) async fn archive(
    cx: Cx,
    params: ArchiveParams,
) -> Result<ArchiveResult, Fault> {
    let archived = params.archived.unwrap_or(true);
    let session = cx
        .deps()
        .sessions
        .archive(&params.session_id, archived)
        .await?;
    Ok(ArchiveResult {
        session,
        pending: None,
    })
}

pub(in crate::face::native) async fn export(
    cx: Cx,
    params: ExportParams,
) -> Result<ExportResult, Fault> {
    let options = ExportOptions {
        path: params.path.map(Into::into),
        overwrite: params.overwrite,
    };
    let Exported {
        path,
        bytes,
        n_files,
        n_redacted,
        left_out,
    } = cx
        .deps()
        .sessions
        .export(&params.session_id, options)
        .await?;
    Ok(ExportResult {
        path: path.display().to_string(),
        bytes,
        files: n_files as u64,
        redacted: n_redacted as u64,
        left_out,
    })
}

pub(in crate::face::native) async fn undo(cx: Cx, params: UndoParams) -> Result<UndoResult, Fault> {
    let turns = params.turns.unwrap_or(1);
    if turns == 0 {
        let message = "An undo takes back one turn or more.";
        return Err(invalid_params("/turns", "a number from 1 on", message));
    }
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let undone = handle.undo(turns as usize).await?;
    Ok(UndoResult {
        undone: undone.turns,
        undoable: u32::try_from(undone.undoable).unwrap_or(u32::MAX),
        files_restored: false,
        session: undone.session,
    })
}

pub(in crate::face::native) async fn clear(
    cx: Cx,
    params: ClearParams,
) -> Result<ClearResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let session = handle.clear().await?;
    Ok(ClearResult {
        session,
        pending: None,
    })
}

pub(in crate::face::native) async fn close(
    cx: Cx,
    params: CloseParams,
) -> Result<CloseResult, Fault> {
    cx.deps().sessions.close(&params.session_id).await?;
    Ok(CloseResult {})
}

pub(in crate::face::native) async fn delete(
    cx: Cx,
    params: DeleteParams,
) -> Result<DeleteResult, Fault> {
    let id = params.session_id;
    if cx.deps().sessions.delete(&id).await? {
        Ok(DeleteResult {})
    } else {
        Err(not_found(&id))
    }
}
