//! Signals that ask this process to end, and the state children inherit.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::raw::Disposition;

/// A request to end that came as a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGHUP.
    Hangup,
}

/// What SIGHUP does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hangup {
    Heeded,
    Swallowed,
}

/// The request to end once nothing runs (SIGUSR1), for a server that outlives its hosts. While it exists the signal no
/// longer ends the process by itself.
#[derive(Debug)]
pub struct QuietSignal(Signal);

impl QuietSignal {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::user_defined1()).map(Self)
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    /// No signal is lost when the future is dropped.
    pub async fn recv(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// The stream of [`StopSignal`]s. While it exists these signals no longer end the process by themselves.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
    /// Held so that the signal stays caught: a caught one is reset in children, an ignored one is not.
    _swallowed: Vec<Signal>,
}

impl StopSignals {
    /// Begins to listen. SIGINT and SIGHUP that were ignored when this process started (`nohup`, a script's `&`) stay
    /// without effect here.
    pub fn listen() -> io::Result<Self> {
        Self::heeding(Hangup::Heeded)
    }

    /// Begins to listen, for a server that is not its terminal's: SIGHUP has no effect.
    pub fn listen_without_terminal() -> io::Result<Self> {
        Self::heeding(Hangup::Swallowed)
    }

    fn heeding(hangup: Hangup) -> io::Result<Self> {
        let mut swallowed = Vec::new();
        let mut heeded = |number, kind, is_wanted: bool| -> io::Result<Option<Signal>> {
            let ignored = Disposition::of(number)?.is_ignored();
            let listener = signal(kind)?;
            if ignored || !is_wanted {
                swallowed.push(listener);
                return Ok(None);
            }
            Ok(Some(listener))
        };
        let heeds_hangup = hangup == Hangup::Heeded;
        Ok(Self {
            interrupt: heeded(libc::SIGINT, SignalKind::interrupt(), true)?,
            hangup: heeded(libc::SIGHUP, SignalKind::hangup(), heeds_hangup)?,
            terminate: signal(SignalKind::terminate())?,
            _swallowed: swallowed,
        })
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    /// No signal is lost when the future is dropped.
    pub async fn recv(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.terminate.recv() => StopSignal::Terminate,
            () = next(self.interrupt.as_mut()) => StopSignal::Interrupt,
            () = next(self.hangup.as_mut()) => StopSignal::Hangup,
        }
    }
}

async fn next(listener: Option<&mut Signal>) {
    match listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// Gives signals that were ignored when this process started their default action again, as children would inherit
/// the ignoring. Call once at start, before [`StopSignals::listen`], which sees to SIGINT and SIGHUP itself; SIGPIPE
/// is reset for children at each spawn.
pub fn reset_inherited() -> io::Result<()> {
    for number in [
        libc::SIGQUIT,
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGALRM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGCONT,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        if Disposition::of(number)?.is_ignored() {
            Disposition::default(number)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hangup_arrives() {
        let mut signals = StopSignals::listen().unwrap();
        if signals.hangup.is_none() {
            // The test run itself was started under `nohup`.
            return;
        }
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP)
            .unwrap();
        assert_eq!(signals.recv().await, StopSignal::Hangup);
    }
}
