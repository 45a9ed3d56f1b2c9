//! HTTP for whoever asks a server: one client builder, and the parser of event streams.
//!
//! A client is built when it is first asked for and then shared, connections included. Loopback and `*.localhost` are
//! always reached directly; else the proxy variables of the environment hold. A redirect is followed within its origin
//! only, so nothing secret ever reaches another one. Certificates are always checked.

pub mod sse;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Url};

use crate::kernel::time::Timestamp;

/// Redirects followed in a row.
const MAX_REDIRECTS: usize = 10;
/// What servers see of us.
const USER_AGENT: &str = concat!("longshore/", env!("CARGO_PKG_VERSION"));

/// A client that could not be built.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client could not be built")]
pub struct HttpError(#[source] reqwest::Error);

/// Makes and keeps clients.
pub struct Http {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    clients: Mutex<HashMap<Key, Client>>,
}

/// Clients differ in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    connect_timeout: Duration,
    direct: bool,
    tls: bool,
}

impl Http {
    /// `now` is the wall clock: servers name instants in headers.
    pub fn new(now: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self {
            now,
            clients: Mutex::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// The client for a URL; a zero timeout is off.
    ///
    /// # Errors
    /// Where the system's certificates cannot be read.
    pub fn client(&self, url: &Url, connect_timeout: Duration) -> Result<Client, HttpError> {
        let key = Key {
            connect_timeout,
            direct: is_local(url),
            tls: url.scheme() != "http",
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = build(key).map_err(HttpError)?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn build(key: Key) -> Result<Client, reqwest::Error> {
    static PROVIDER: Once = Once::new();
    // A provider that somebody installed before is as good.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::custom(within_origin));
    if !key.connect_timeout.is_zero() {
        builder = builder.connect_timeout(key.connect_timeout);
    }
    if key.direct {
        builder = builder.no_proxy();
    }
    if key.direct && !key.tls {
        // Reading the system's certificates takes longer than most local answers, and here nothing can ask for one:
        // a redirect to https is another origin.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// Follows a redirect only to the scheme, host and port it came from. Any other ends with the redirect as the answer.
fn within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt
        .previous()
        .last()
        .is_some_and(|from| from.origin() == attempt.url().origin());
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn is_local(url: &Url) -> bool {
    let host = url
        .host_str()
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .trim_end_matches('.');
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| match ip {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => {
                ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
            }
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use reqwest::Url;

    use super::{Http, is_local};
    use crate::kernel::time::Timestamp;

    #[test]
    fn local_hosts() {
        for (url, local) in [
            ("http://localhost:11434/v1", true),
            ("http://LOCALHOST/", true),
            ("http://api.localhost./", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://notlocalhost", false),
            ("http://localhost.example.com", false),
            ("https://10.0.0.1", false),
            ("https://api.openai.com/v1", false),
        ] {
            assert_eq!(is_local(&Url::parse(url).unwrap()), local, "{url}");
        }
    }

    #[test]
    fn clients_are_shared_by_what_they_differ_in() {
        let http = Http::new(Arc::new(|| Timestamp(0)));
        for (url, seconds) in [
            ("http://127.0.0.1:1/a", 1),
            ("http://localhost:2/b", 1),
            ("http://127.0.0.1:1/a", 2),
            ("http://127.0.0.1:1/a", 0),
        ] {
            http.client(&Url::parse(url).unwrap(), Duration::from_secs(seconds))
                .unwrap();
        }
        assert_eq!(http.clients.lock().unwrap().len(), 3);
    }
}
