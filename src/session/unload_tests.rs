use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_protocol::id::SessionId;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::turn::WhenBusy;

use super::shell_run::ShellRun;
use super::testing::{Home, run, start, within};
use super::unload::Unloader;
use crate::kernel::cron::NewJob;
use crate::kernel::port::Presence;
use crate::os::clock::Clock as _;

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
const HANGS: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}]\non_exhausted: repeat_last";
const MINUTE: Duration = Duration::from_secs(60);

/// Who is watched, as the test says.
#[derive(Debug, Default)]
struct Watched(Mutex<HashSet<SessionId>>);

impl Presence for Watched {
    fn is_watched(&self, session: &SessionId) -> bool {
        self.0.lock().unwrap().contains(session)
    }
}

/// A home whose sessions may rest for half an hour.
struct Resting {
    home: Home,
    watched: Arc<Watched>,
    unloader: Unloader,
}

impl Resting {
    fn new() -> Self {
        let home = Home::new();
        let watched = Arc::<Watched>::default();
        let unloader = Unloader::new(home.sessions.clone(), 30 * MINUTE, watched.clone());
        Self {
            home,
            watched,
            unloader,
        }
    }

    /// Lets minutes pass, with a look in each.
    async fn pass(&mut self, minutes: u32) {
        for _ in 0..minutes {
            self.home.clock.advance(MINUTE);
            within(self.unloader.look()).await;
        }
    }

    fn is_loaded(&self, session: &Session) -> bool {
        self.home.sessions.loaded(&session.session_id).is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_is_unloaded_and_can_be_had_again() {
    let mut at = Resting::new();
    let (handle, session) = at.home.create(SAYS_OK).await;
    run(&handle, "a").await;
    at.pass(30).await;
    assert!(at.is_loaded(&session), "it rests for 29 minutes");
    run(&handle, "b").await;
    at.pass(30).await;
    assert!(at.is_loaded(&session), "something happened");
    at.pass(1).await;
    assert!(!at.is_loaded(&session));
    assert!(at.home.sessions.is_deserted());
    let again = at.home.sessions.open(&session.session_id).await.unwrap();
    assert_eq!(run(&again, "c").await.turn.as_str(), "t3");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_begins_the_rest_anew() {
    let mut at = Resting::new();
    let (_, session) = at.home.create(SAYS_OK).await;
    at.pass(20).await;
    at.home
        .clock
        .set_wall(at.home.clock.now().plus_ms(-86_400_000));
    at.pass(30).await;
    assert!(at.is_loaded(&session));
    at.pass(1).await;
    assert!(!at.is_loaded(&session));
}

#[tokio::test]
async fn what_happens_in_a_session_keeps_it() {
    let mut at = Resting::new();
    let (turn, in_turn) = at.home.create(HANGS).await;
    start(&turn, "a", WhenBusy::Reject).await;
    at.home.events.until("message/delta i1 Hel").await;
    let (jobs, with_job) = at.home.create(SAYS_OK).await;
    let job = NewJob {
        cron: "0 0 1 1 *".into(),
        prompt: "Look.".into(),
        recurring: true,
        timezone: Some("UTC".into()),
    };
    let job = jobs.create_job(job).await.unwrap();
    let (shell, with_shell) = at.home.create(SAYS_OK).await;
    let command = ShellRun {
        command: "sleep 600".to_owned(),
        id: Some("c1".into()),
        private: false,
    };
    let running = shell.clone();
    let running = at
        .home
        .sessions
        .deps
        .tasks
        .spawn(async move { running.run_shell(command).await });
    at.home.events.until("shell/started c1").await;
    let (_, watched) = at.home.create(SAYS_OK).await;
    let watchers = at.watched.clone();
    watchers
        .0
        .lock()
        .unwrap()
        .insert(watched.session_id.clone());
    let (_, resting) = at.home.create(SAYS_OK).await;

    at.pass(40).await;
    for (session, why) in [
        (&in_turn, "a turn runs"),
        (&with_job, "a job may fire"),
        (&with_shell, "a command runs"),
        (&watched, "a host watches"),
    ] {
        assert!(at.is_loaded(session), "{why}");
    }
    assert!(!at.is_loaded(&resting));

    // Each goes once its reason has gone.
    turn.cancel(None).await.unwrap();
    within(turn.wait("t1".into())).await.unwrap();
    jobs.delete_job(job.job_id.as_str()).await.unwrap();
    shell.cancel_shell("c1".into()).await.unwrap();
    within(running).await.unwrap().unwrap();
    watchers.0.lock().unwrap().clear();
    at.pass(31).await;
    assert_eq!(at.home.sessions.loaded_count(), 0);
}

/// Comes in the moment the session is asked whether it may go.
#[derive(Debug)]
struct LateHost {
    asked: Mutex<u32>,
}

impl Presence for LateHost {
    fn is_watched(&self, _: &SessionId) -> bool {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        // Nobody at the looks; somebody at the last question.
        *asked == 3
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_comes_at_the_last_moment_keeps_the_session() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    let late = Arc::new(LateHost {
        asked: Mutex::new(0),
    });
    let mut unloader = Unloader::new(home.sessions.clone(), MINUTE, late.clone());
    unloader.look().await;
    home.clock.advance(MINUTE);
    unloader.look().await;
    assert_eq!(*late.asked.lock().unwrap(), 3);
    assert!(home.sessions.loaded(&session.session_id).is_some());
    assert_eq!(run(&handle, "a").await.turn.as_str(), "t1");
}

#[tokio::test]
async fn whoever_comes_while_it_goes_gets_it_loaded_anew() {
    let home = Home::new();
    let (_, session) = home.create(SAYS_OK).await;
    let id = session.session_id;
    let mut unloader = Unloader::new(
        home.sessions.clone(),
        Duration::ZERO,
        Arc::<Watched>::default(),
    );
    let openers = async {
        for round in 0..20 {
            let handle = home.sessions.open(&id).await.unwrap();
            if round % 4 == 0 {
                tokio::task::yield_now().await;
            }
            drop(handle);
            tokio::task::yield_now().await;
        }
    };
    let looks = async {
        for _ in 0..20 {
            unloader.look().await;
            tokio::task::yield_now().await;
        }
    };
    within(async { tokio::join!(openers, looks) }).await;
    let handle = home.sessions.open(&id).await.unwrap();
    assert_eq!(run(&handle, "a").await.turn.as_str(), "t1");
}
