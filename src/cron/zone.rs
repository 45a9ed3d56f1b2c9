//! Time zones by their IANA names.

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::kernel::time::Timestamp;

/// A time zone with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: Arc<str>,
    rules: TimeZone,
}

impl Zone {
    /// Finds a zone by its IANA name, in any case. `None` where there is none of that name.
    pub fn find(name: &str) -> Option<Self> {
        let rules = TimeZone::get(name.trim()).ok()?;
        // What has no name of its own, such as `Etc/Unknown`, is no zone to make appointments in.
        let name = rules.iana_name()?.into();
        Some(Self { name, rules })
    }

    /// The machine's zone; UTC where it can't be told.
    pub fn system() -> Self {
        let system = TimeZone::try_system().ok();
        system
            .and_then(|rules| Self::find(rules.iana_name()?))
            .unwrap_or_else(Self::utc)
    }

    /// UTC.
    pub fn utc() -> Self {
        Self {
            name: "UTC".into(),
            rules: TimeZone::UTC,
        }
    }

    /// The name, as the database spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, shared.
    pub fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// An instant on the zone's clock: RFC 3339 with milliseconds and a numeric offset.
    pub fn local(&self, at: Timestamp) -> String {
        let Ok(instant) = jiff::Timestamp::from_millisecond(at.0) else {
            return at.to_string();
        };
        let offset = i64::from(self.rules.to_offset(instant).seconds());
        let clock = at.plus_ms(offset * 1000).to_string();
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        format!(
            "{}{sign}{:02}:{:02}",
            clock.trim_end_matches('Z'),
            minutes / 60,
            minutes % 60
        )
    }

    pub(super) fn rules(&self) -> &TimeZone {
        &self.rules
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
