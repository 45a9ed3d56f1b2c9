//! Files of a workspace.

use longshore_protocol::method::file::{FoundFile, SearchParams, SearchResult};

use super::page_limit;
use crate::face::native::dispatch::Cx;
use crate::face::native::error::invalid_params;
use crate::kernel::fault::Fault;
use crate::session::files::Place;

pub(in crate::face::native) async fn search(
    cx: Cx,
    params: SearchParams,
) -> Result<SearchResult, Fault> {
    let place = match (params.session_id, params.cwd) {
        (Some(session), None) => Place::Session(session),
        (None, Some(cwd)) => Place::Dir(cwd),
        _ => {
            let expected = "either sessionId or cwd";
            return Err(invalid_params(
                "",
                expected,
                "Name a session or a directory, not both.",
            ));
        }
    };
    let limit = page_limit(params.limit);
    let found = cx
        .deps()
        .sessions
        .find_files(place, &params.query, limit)
        .await?;
    let items = found.items.into_iter().map(|item| FoundFile {
        path: item.path,
        is_directory: item.is_dir,
        score: item.score,
        positions: item.positions,
    });
    Ok(SearchResult {
        items: items.collect(),
        incomplete: !found.is_complete,
    })
}
