//! Turns that are remembered by their journal only.

use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::value::page::Page;
use longshore_protocol::value::transcript::{Item, Turn};

use super::command::TurnEnd;
use super::journal::convert::Fact;
use super::journal::read::{Damage, Flow, each};
use super::journal::storage_fault;
use super::list::{bad_cursor, page_limit};
use super::store::Store;
use super::transcript::Fold;
use crate::kernel::fault::Fault;
use crate::os::blocking;

/// One page of a session's turns: the newest first to fetch, the oldest first in the page.
pub(super) async fn page(
    store: &Arc<Store>,
    id: &SessionId,
    cursor: Option<String>,
    limit: Option<u32>,
) -> Result<Page<Turn>, Fault> {
    let end = match cursor {
        Some(cursor) => Some(cursor.parse::<usize>().map_err(|_| bad_cursor())?),
        None => None,
    };
    let mut turns = all_turns(store, id).await?;
    turns.truncate(end.unwrap_or(turns.len()));
    let start = turns.len().saturating_sub(page_limit(limit));
    let next_cursor = (start > 0).then(|| start.to_string());
    Ok(Page {
        items: turns.split_off(start),
        next_cursor,
    })
}

/// How a turn ended that is remembered by its journal only.
pub(super) async fn ended_turn(
    store: &Arc<Store>,
    id: &SessionId,
    turn: TurnId,
) -> Result<TurnEnd, Fault> {
    let turns = all_turns(store, id).await?;
    let found = turns.into_iter().find(|found| found.turn_id == turn);
    let Some(Turn {
        items,
        reason: Some(reason),
        stop_reason: Some(stop),
        error,
        usage,
        ..
    }) = found
    else {
        return Err(Fault::new(
            ErrorKind::TurnNotFound,
            format!("turn {turn} never began"),
        ));
    };
    let text = items.into_iter().rev().find_map(|item| match item {
        Item::Message { text, .. } => Some(text),
        _ => None,
    });
    Ok(TurnEnd {
        turn,
        reason,
        stop,
        text: text.unwrap_or_default(),
        usage,
        error,
    })
}

async fn all_turns(store: &Arc<Store>, id: &SessionId) -> Result<Vec<Turn>, Fault> {
    let (store, id) = (store.clone(), id.clone());
    blocking::run(move || {
        let dir = store.find(&id).ok_or_else(|| super::not_found(&id))?;
        let mut fold = Fold::new();
        each(&dir, &mut Damage::default(), |entry| {
            if let Fact::Event(event) = &entry.fact {
                fold.take(entry.at, event);
            }
            Flow::On
        })
        .map_err(|error| storage_fault(error, &dir))?;
        Ok(fold.finish())
    })
    .await
}
