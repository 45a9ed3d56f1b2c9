//! The daemon's part of the command line.

use std::net::{Ipv4Addr, SocketAddr};

/// What `longshore daemon` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Daemon {
    /// Is the daemon, until it is told to stop.
    Run(DaemonOptions),
    /// Starts one that stays, or takes over from an older one.
    Start(DaemonOptions),
    /// Stops it.
    Stop(StopWhen),
    /// Says how it is.
    Status,
}

/// When a daemon stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) enum StopWhen {
    /// At once: turns are cancelled.
    #[default]
    Now,
    /// Once no turn runs.
    Quiet,
}

/// Who started a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) enum BegunBy {
    /// A person or a service manager: it runs in the foreground.
    #[default]
    Person,
    /// `longshore daemon start`.
    Start,
    /// `longshore attach`: it ends when nobody needs it.
    Attach,
}

/// How a daemon is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct DaemonOptions {
    /// `--listen`: where hosts come in by WebSocket.
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// `--listen-anywhere`: also where other machines come in.
    pub(in crate::cli) anywhere: bool,
    /// `--when-quiet`, of `stop`.
    pub(in crate::cli) stop: StopWhen,
    /// `--begun-by`: said by longshore itself.
    pub(in crate::cli) begun_by: BegunBy,
}

impl BegunBy {
    /// As the command line and records have it.
    pub(in crate::cli) fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Start => "start",
            Self::Attach => "attach",
        }
    }

    /// Reads it.
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        [Self::Person, Self::Start, Self::Attach]
            .into_iter()
            .find(|each| each.as_str() == text)
            .ok_or_else(|| format!("--begun-by takes person, start or attach, not {text}"))
    }
}

impl Daemon {
    /// What the word after `daemon` and the options say.
    pub(in crate::cli) fn parse(
        word: Option<&str>,
        options: DaemonOptions,
    ) -> Result<Self, String> {
        let is_told_when = options.stop != StopWhen::Now;
        let listens = options.listen.is_some();
        let what = match word {
            None => Self::Run(options),
            Some("start") => Self::Start(options),
            Some("stop") => Self::Stop(options.stop),
            Some("status") => Self::Status,
            Some(other) => return Err(format!("daemon takes start, stop or status, not {other}")),
        };
        match what {
            Self::Run(_) | Self::Start(_) if is_told_when => {
                Err("--when-quiet belongs to daemon stop".to_owned())
            }
            Self::Stop(_) | Self::Status if listens => {
                Err("--listen belongs to daemon and daemon start".to_owned())
            }
            Self::Run(_) | Self::Start(_) => options.check().map(|()| what),
            Self::Stop(_) | Self::Status => Ok(what),
        }
    }
}

impl DaemonOptions {
    /// Reads `--listen`.
    pub(in crate::cli) fn listen_at(&mut self, url: &str) -> Result<(), String> {
        self.listen = Some(address(url)?);
        Ok(())
    }

    /// Listens where an earlier daemon did, unless told where.
    pub(in crate::cli) fn or_where(self, earlier: Option<&str>) -> Self {
        let earlier = earlier.and_then(|url| address(url).ok());
        match (self.listen, earlier) {
            (None, Some(address)) => Self {
                listen: Some(address),
                anywhere: !address.ip().is_loopback(),
                ..self
            },
            _ => self,
        }
    }

    /// Refuses an address that other machines reach, unless that is wanted.
    fn check(self) -> Result<(), String> {
        match self.listen {
            Some(address) if !address.ip().is_loopback() && !self.anywhere => Err(format!(
                "{address} can be reached from other machines, and what is said there is not encrypted; listen at 127.0.0.1, \
                 or add --listen-anywhere if that is meant"
            )),
            _ => Ok(()),
        }
    }
}

/// The address of a `ws://` URL, which names host and port and nothing else.
fn address(url: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("--listen takes ws://ADDRESS:PORT, such as ws://127.0.0.1:0, not {url}");
    let place = url.strip_prefix("ws://").ok_or_else(wrong)?;
    let place = place.strip_suffix('/').unwrap_or(place);
    if let Some(port) = place.strip_prefix("localhost:") {
        let port = port.parse().map_err(|_| wrong())?;
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    place.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("ws://127.0.0.1:0", Some("127.0.0.1:0")),
            ("ws://127.0.0.1:8765/", Some("127.0.0.1:8765")),
            ("ws://localhost:1", Some("127.0.0.1:1")),
            ("ws://[::1]:1", Some("[::1]:1")),
            ("ws://0.0.0.0:1", Some("0.0.0.0:1")),
            ("wss://127.0.0.1:1", None),
            ("127.0.0.1:1", None),
            ("ws://127.0.0.1", None),
            ("ws://127.0.0.1:1/path", None),
            ("ws://example.org:1", None),
        ] {
            let found = address(url).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn what_is_meant() {
        let at = |url: &str| {
            let mut options = DaemonOptions::default();
            options.listen_at(url).unwrap();
            options
        };
        let near = at("ws://127.0.0.1:0");
        assert_eq!(Daemon::parse(None, near), Ok(Daemon::Run(near)));
        assert_eq!(Daemon::parse(Some("start"), near), Ok(Daemon::Start(near)));
        let far = at("ws://0.0.0.0:0");
        let refused = Daemon::parse(None, far).unwrap_err();
        assert!(refused.contains("--listen-anywhere"), "{refused}");
        let far = DaemonOptions {
            anywhere: true,
            ..far
        };
        assert_eq!(Daemon::parse(None, far), Ok(Daemon::Run(far)));
        let nowhere = DaemonOptions::default();
        assert_eq!(nowhere.or_where(None), nowhere);
        assert_eq!(nowhere.or_where(Some("ws://127.0.0.1:0")), near);
        assert_eq!(nowhere.or_where(Some("ws://0.0.0.0:0")), far);
        assert_eq!(near.or_where(Some("ws://127.0.0.1:7")), near);
        let quiet = DaemonOptions {
            stop: StopWhen::Quiet,
            ..DaemonOptions::default()
        };
        assert_eq!(
            Daemon::parse(Some("stop"), quiet),
            Ok(Daemon::Stop(StopWhen::Quiet))
        );
        for (word, options) in [
            (Some("start"), quiet),
            (None, quiet),
            (Some("status"), near),
            (Some("stop"), near),
            (Some("fly"), DaemonOptions::default()),
        ] {
            assert!(Daemon::parse(word, options).is_err(), "{word:?}");
        }
    }
}
