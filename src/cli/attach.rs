//! `longshore attach`: standard input and output, carried to the daemon and back.
//!
//! What an editor spawns in order to share one daemon among its windows. It is transparent: what the host says goes to
//! the daemon byte by byte, and what the daemon says comes back. The end of the input lets go of the daemon, which goes on.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::error::{ErrorKind, RpcError};
use longshore_protocol::method::{MethodSpec as _, spec};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::args::Common;
use super::daemon::{
    BegunBy, DaemonOptions, Launch, Place, Reached, STARTED_BY_LONGSHORE, find, reach,
};
use super::record::{Record, is_begun_by_longshore};
use super::terminal::complain;
use crate::kernel::limits::{MAX_IN_FLIGHT, MAX_MESSAGE_BYTES};
use crate::os::env::Env;
use crate::os::parent::Parent;
use crate::os::process::ExitWatch;
use crate::os::signal::{self, StopSignals};
use crate::os::stdio::{self, Input, Output};
use crate::os::tty;
use crate::rpc::{
    BoxFuture, CancelWire, Peer, PeerHandle, PeerOptions, PlainOutbox, Reply, Request, Service,
};

/// Bytes carried at a time, in each direction; no more is held.
const CHUNK: usize = 64 << 10;
/// After the end of the input, what the daemon gets to say what is left to say.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// A process closes its connections a moment before its end can be seen.
const SEEN_TO_END: Duration = Duration::from_millis(250);
/// How often a daemon that ends just as a host comes is replaced by another.
const TRIES: usize = 3;

/// Carries until one side has ended.
pub(super) fn run(env: &Env, common: &Common) -> ExitCode {
    let parent = Parent::read();
    stdio::seal_inherited();
    let prepared = signal::reset_inherited().and_then(|()| tty::detach());
    let place = match Place::of(env, common) {
        Ok(place) => place,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = prepared
        .and(runtime)
        .map_err(|error| format!("the process could not be set up: {error}"))
        .and_then(|runtime| {
            let code = runtime.block_on(attach(env, common, &place, parent));
            // A thread that waits for input is left to the system.
            runtime.shutdown_background();
            code
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&format!("longshore: {message}"));
            ExitCode::FAILURE
        }
    }
}

async fn attach(env: &Env, common: &Common, place: &Place, parent: Parent) -> Result<(), String> {
    let (mut input, mut output) =
        stdio::take().map_err(|error| format!("the standard streams can't be used: {error}"))?;
    let mut signals =
        StopSignals::listen().map_err(|error| format!("signals can't be listened to: {error}"))?;
    let launch = Launch::new(env, common, BegunBy::Attach, DaemonOptions::default());
    let mut said = Said::default();
    let is_in_a_task = is_begun_by_longshore(&place.run);
    for _ in 0..TRIES {
        let reached = if is_in_a_task {
            // It would be refused by the daemon, and must not say how one is to be.
            match find(place).await? {
                Some(reached) => reached,
                None => return deny(input, output).await,
            }
        } else {
            reach(place, &launch).await?
        };
        say_skew(reached.record(place).as_ref());
        let watch = reached.daemon.pid.and_then(|pid| ExitWatch::of(pid).ok());
        let carried = tokio::select! {
            biased;
            carried = carry(&mut input, &mut output, &mut said, reached) => carried,
            _ = signals.recv() => return Ok(()),
            () = parent.gone() => return Ok(()),
        };
        if carried == Carried::HostLeft {
            return Ok(());
        }
        // One that has answered nothing is most likely ending, which may take it its time.
        let within = if said.is_unanswered() {
            LAST_WORDS
        } else {
            SEEN_TO_END
        };
        let has_ended = match &watch {
            Some(watch) => timeout(within, watch.exited()).await.is_ok(),
            None => false,
        };
        if !has_ended {
            // It ended the connection, because the host asked it to.
            return Ok(());
        }
        // One that went away just as we came has answered nothing: the next one hears it all.
        if !said.is_unanswered() {
            break;
        }
    }
    Err("the daemon has ended; attach again to start the next one".to_owned())
}

/// Answers as a daemon would that does not run: this process may not be a host, nor start one.
async fn deny(input: Input, output: Output) -> Result<(), String> {
    let options = PeerOptions {
        max_message_bytes: MAX_MESSAGE_BYTES,
        max_in_flight: MAX_IN_FLIGHT,
        ..PeerOptions::client(CancelWire {
            method: "$/cancelRequest",
            field: "id",
        })
    };
    let peer = Peer::new(Arc::new(PlainOutbox::new()), options);
    let denying = Denying(peer.handle());
    let mut connection = peer.start(input, output, Arc::new(denying));
    connection.ended().await;
    connection.close(LAST_WORDS).await;
    Ok(())
}

/// Lets nobody in.
struct Denying(PeerHandle);

impl Service for Denying {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        let reply = if request.method == spec::Initialize::NAME {
            let error = RpcError::new(ErrorKind::Denied, STARTED_BY_LONGSHORE);
            let peer = self.0.clone();
            Reply::error(error.with("policy", "self_approval")).after(move || peer.stop())
        } else {
            Reply::error(RpcError::new(
                ErrorKind::NotInitialized,
                "Send initialize first.",
            ))
        };
        Box::pin(std::future::ready(reply))
    }

    fn notify(&self, _: &str, _: Option<&RawValue>) {}
}

/// Who ended it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carried {
    HostLeft,
    DaemonLeft,
}

/// What the host has said before it got its first answer, so that another daemon can be told.
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    /// It is too much to be kept, or there was an answer.
    is_given_up: bool,
    is_at_end: bool,
}

impl Said {
    /// Nothing more is the end.
    fn add(&mut self, bytes: &[u8]) {
        self.is_at_end = bytes.is_empty();
        if self.is_given_up {
            return;
        }
        if self.bytes.len() + bytes.len() > CHUNK {
            return self.give_up();
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.bytes = Vec::new();
    }

    fn is_unanswered(&self) -> bool {
        !self.is_given_up
    }
}

/// Carries bytes both ways until either side has ended. Neither direction waits for the other.
async fn carry(
    input: &mut Input,
    output: &mut Output,
    said: &mut Said,
    reached: Reached,
) -> Carried {
    let (from_daemon, to_daemon) = reached.stream.into_split();
    let said = RefCell::new(said);
    let mut back = std::pin::pin!(carry_back(from_daemon, output, &said));
    tokio::select! {
        biased;
        ended = &mut back => return ended,
        () = carry_there(input, to_daemon, &said) => {}
    }
    // The daemon sees the end, and says what is left to say.
    if timeout(LAST_WORDS, back).await.is_err() {
        tracing::debug!("the host does not read what is left");
    }
    Carried::HostLeft
}

/// Carries what the host says, until it has had its say.
async fn carry_there(input: &mut Input, mut daemon: OwnedWriteHalf, said: &RefCell<&mut Said>) {
    let earlier = said.borrow().bytes.clone();
    let mut is_broken = daemon.write_all(&earlier).await.is_err();
    let mut chunk = vec![0; CHUNK];
    while !is_broken && !said.borrow().is_at_end {
        // An input that fails has ended.
        let n = input.read(&mut chunk).await.unwrap_or(0);
        said.borrow_mut().add(&chunk[..n]);
        is_broken = daemon.write_all(&chunk[..n]).await.is_err();
    }
    if is_broken {
        // Reading finds out whether there is an answer left, and what has become of the daemon.
        std::future::pending::<()>().await;
    }
}

/// Carries what the daemon says, until it ends or the host reads no more.
async fn carry_back(
    mut daemon: OwnedReadHalf,
    output: &mut Output,
    said: &RefCell<&mut Said>,
) -> Carried {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = match daemon.read(&mut chunk).await {
            Ok(0) | Err(_) => return Carried::DaemonLeft,
            Ok(n) => n,
        };
        said.borrow_mut().give_up();
        let written = async {
            output.write_all(&chunk[..n]).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return Carried::HostLeft;
        }
    }
}

/// Says where the daemon is of another version than this program.
fn say_skew(record: Option<&Record>) {
    let own = env!("CARGO_PKG_VERSION");
    let Some(record) = record.filter(|record| record.version != own) else {
        return;
    };
    let (pid, theirs) = (record.pid, &record.version);
    complain(&format!(
        "longshore: the daemon (process {pid}) is of version {theirs}, this is {own}. It works as it is; `longshore daemon \
         start` has a newer version take over once no turn runs, `longshore daemon stop` ends the daemon now."
    ));
}
