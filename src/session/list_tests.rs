#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::session::Status;

use super::list::ListFilter;
use super::testing::{Home, run};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";

async fn titles(home: &Home, filter: ListFilter) -> (Vec<String>, Option<String>) {
    let page = home.sessions.list(filter).await.unwrap();
    (
        page.items
            .into_iter()
            .map(|session| session.title)
            .collect(),
        page.next_cursor,
    )
}

#[tokio::test(start_paused = true)]
async fn lists_page_by_page_the_newest_first() {
    let home = Home::new();
    for n in 0..5 {
        let mut options = home.options(SAYS_OK);
        options.title = Some(format!("s{n}"));
        let (handle, _) = home.sessions.create(options).await.unwrap();
        // Sessions of one millisecond are in the order of their ids.
        if n == 2 {
            home.clock.advance(std::time::Duration::from_secs(1));
            run(&handle, "Something about ROOFS").await;
        }
        handle.close().await.unwrap();
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (titles, next) = titles(
            &home,
            ListFilter {
                limit: Some(2),
                cursor,
                ..ListFilter::default()
            },
        )
        .await;
        assert!(titles.len() <= 2);
        seen.extend(titles);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["s4", "s3", "s2", "s1", "s0"]);
    for (filter, expected) in [
        (
            ListFilter {
                text: Some("roofs".into()),
                ..ListFilter::default()
            },
            vec!["s2"],
        ),
        (
            ListFilter {
                text: Some("S1".into()),
                ..ListFilter::default()
            },
            vec!["s1"],
        ),
        (
            ListFilter {
                cwd: Some("/elsewhere".into()),
                ..ListFilter::default()
            },
            vec![],
        ),
        (
            ListFilter {
                archived: true,
                ..ListFilter::default()
            },
            vec![],
        ),
        (
            ListFilter {
                cwd: Some(home.ws.display().to_string()),
                limit: Some(1),
                ..ListFilter::default()
            },
            vec!["s4"],
        ),
    ] {
        assert_eq!(titles(&home, filter).await.0, expected);
    }
    for bad in ["x", "2026-01-01/", "yesterday/id"] {
        let filter = ListFilter {
            cursor: Some(bad.into()),
            ..ListFilter::default()
        };
        let refused = home.sessions.list(filter).await.map(|_| ());
        if bad != "2026-01-01/" {
            assert_eq!(refused.unwrap_err().kind, ErrorKind::InvalidParams, "{bad}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_cache_is_made_anew_and_hides_nobody() {
    let home = Home::new();
    let mut metas = Vec::new();
    for _ in 0..4 {
        let (handle, session) = home.create(SAYS_OK).await;
        run(&handle, "Roof").await;
        handle.close().await.unwrap();
        metas.push(home.dir_of(&session).join("meta.json"));
    }
    std::fs::write(&metas[0], "{bad json").unwrap();
    std::fs::write(&metas[1], "").unwrap();
    std::fs::remove_file(&metas[2]).unwrap();
    std::fs::create_dir(&metas[2]).unwrap();
    std::fs::remove_file(home.home().join("sessions/index.jsonl")).unwrap();
    let again = home.again();
    let sessions = again
        .sessions
        .list(ListFilter::default())
        .await
        .unwrap()
        .items;
    assert_eq!(sessions.len(), 4);
    assert!(sessions.iter().all(|session| session.title == "Roof"
        && session.turn_count == 1
        && session.status == Status::Closed));
    for session in sessions {
        let handle = again.sessions.open(&session.session_id).await.unwrap();
        assert_eq!(run(&handle, "on").await.turn.as_str(), "t2");
    }
    assert!(
        std::fs::read(&metas[0])
            .unwrap()
            .starts_with(b"{\"sessionId\"")
    );
}

#[tokio::test(start_paused = true)]
async fn transcripts_go_back_page_by_page() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    for n in 1..=5 {
        run(&handle, &format!("{n}")).await;
    }
    let page = |cursor: Option<String>| {
        home.sessions
            .transcript(&session.session_id, cursor, Some(2))
    };
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = page(cursor).await.unwrap();
        let turns: Vec<String> = page
            .items
            .iter()
            .map(|turn| turn.turn_id.to_string())
            .collect();
        seen.push(turns.join(" "));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["t4 t5", "t2 t3", "t1"]);
    assert_eq!(
        page(Some("x".into())).await.unwrap_err().kind,
        ErrorKind::InvalidParams
    );
    assert_eq!(page(Some("999".into())).await.unwrap().items.len(), 2);
    let none = home
        .sessions
        .transcript(&"none".into(), None, None)
        .await
        .unwrap_err();
    assert_eq!(none.kind, ErrorKind::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_session_needs_a_directory_and_a_model_that_exist() {
    let home = Home::new();
    let file = home.ws.join("file");
    std::fs::write(&file, "").unwrap();
    for (cwd, dirs, model, kind) in [
        ("relative".into(), vec![], "demo", ErrorKind::InvalidParams),
        (
            home.ws.join("none"),
            vec![],
            "demo",
            ErrorKind::InvalidParams,
        ),
        (file, vec![], "demo", ErrorKind::InvalidParams),
        (
            home.ws.clone(),
            vec!["/none/such".into()],
            "demo",
            ErrorKind::InvalidParams,
        ),
        (home.ws.clone(), vec![], "none", ErrorKind::ModelUnknown),
    ] {
        let mut options = home.options(SAYS_OK);
        (options.cwd, options.additional_dirs, options.model) = (cwd, dirs, Some(model.into()));
        assert_eq!(home.sessions.create(options).await.unwrap_err().kind, kind);
    }
    assert!(
        home.sessions
            .list(ListFilter::default())
            .await
            .unwrap()
            .items
            .is_empty(),
        "nothing was left behind"
    );
}
