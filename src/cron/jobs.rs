//! The jobs of a loaded session: what is in the ledger, with what was worked out from it.
//!
//! [`JobSet::due`] says what fires now; nothing changes by asking. What changes a job goes through [`JobSet::apply`] and
//! [`JobSet::fired`], after the session's journal has it. Expressions are read once and the next appointment of a job is
//! worked out when it changes, so that a look costs a comparison for each job.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_protocol::id::{JobId, TurnId};
use longshore_protocol::value::cron::CronJob;
use longshore_protocol::value::usage::Usage;

use super::check::{CronError, check_id, check_prompt, check_written};
use super::expr::Expression;
use super::fire::Fire;
use super::ledger::{Fired, Ledger};
use super::timing::{Slot, Timing, base_of, jitter_of};
use super::zone::Zone;
use crate::config::values::CronConfig;
use crate::kernel::cron::{CronOp, ListedJob, NewJob, StoredJob};
use crate::kernel::limits::{
    CRON_BATCH, CRON_MISSED, CRON_ONE_SHOT_DAYS, CRON_RETRY_BASE, CRON_RETRY_MAX,
};
use crate::kernel::time::Timestamp;

const DAY_MS: i64 = 86_400_000;

/// The jobs of a loaded session.
#[derive(Debug)]
pub struct JobSet {
    ledger: Ledger,
    rules: CronConfig,
    kept: HashMap<JobId, Kept>,
}

/// What was worked out for a job.
#[derive(Debug)]
struct Kept {
    /// Why it has none: its expression or its zone can't be read.
    timing: Result<Timing, String>,
    /// Where its appointment was looked for from; absent where it was not looked for yet.
    base: Option<Timestamp>,
    /// True where that is when its own times were found to be damaged.
    is_makeshift: bool,
    slot: Option<Slot>,
    /// A host wants it to fire at once.
    by_hand: bool,
    /// Fires in a row that could not be delivered, and until when the next one waits.
    retry: Option<(u32, Timestamp)>,
}

impl JobSet {
    /// The jobs of a ledger, by rules.
    pub fn new(ledger: Ledger, rules: CronConfig, now: Timestamp) -> Self {
        let mut set = Self {
            ledger,
            rules,
            kept: HashMap::new(),
        };
        set.refresh(now);
        set
    }

    /// What is kept.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is configured.
    pub fn rules(&self) -> &CronConfig {
        &self.rules
    }

    /// Checks a new job and gives it an id. Nothing is added: that is for [`JobSet::apply`], once it is on the disk.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check_new(
        &self,
        new: &NewJob,
        session_zone: &Zone,
        now: Timestamp,
        mut id: impl FnMut() -> String,
    ) -> Result<StoredJob, CronError> {
        let (expression, zone) = check_written(&self.rules, new)?;
        let zone = zone.unwrap_or_else(|| session_zone.clone());
        let next = expression
            .next_after(now, &zone)
            .ok_or_else(|| CronError::Never(expression.to_string()))?;
        if self.ledger.jobs().len() >= self.rules.max_jobs as usize {
            return Err(CronError::TooMany(self.rules.max_jobs));
        }
        check_prompt(&new.prompt)?;
        if !new.recurring && next > now.plus_ms(CRON_ONE_SHOT_DAYS * DAY_MS) {
            return Err(CronError::Passed {
                cron: expression.to_string(),
                at: zone.local(next),
            });
        }
        let mut fresh = id();
        // 50 ids of 4 billion: a second try is rare, an eighth is a broken source.
        for _ in 0..8 {
            if self.ledger.get(&fresh).is_none() {
                break;
            }
            fresh = id();
        }
        Ok(StoredJob {
            id: fresh.into(),
            cron: expression.as_str().into(),
            prompt: new.prompt.as_str().into(),
            recurring: new.recurring,
            timezone: zone.shared_name(),
            created_at: now,
            renewed_at: None,
            cursor: None,
            fired_at: None,
            fires: 0,
            unattended_fires: 0,
            usage: Usage::default(),
            paused: None,
        })
    }

    /// One job.
    ///
    /// # Errors
    /// It is no id, or no job has it.
    pub fn find(&self, id: &str) -> Result<&StoredJob, CronError> {
        check_id(id)?;
        self.ledger
            .get(id)
            .ok_or_else(|| CronError::NotFound(id.to_owned()))
    }

    /// All jobs as hosts and models see them, in the order they were made.
    pub fn list(&self, now: Timestamp) -> Vec<ListedJob> {
        let jobs = self.ledger.jobs().iter();
        jobs.map(|job| ListedJob {
            job: self.view(job, now),
            age_ms: (now.0 - age_from(job).0).max(0) as u64,
        })
        .collect()
    }

    /// A job that has just fired for the last time.
    pub fn view_last(&self, job: &StoredJob, at: Timestamp) -> CronJob {
        let fired = StoredJob {
            fires: job.fires + 1,
            fired_at: Some(at),
            ..job.clone()
        };
        CronJob {
            next_fire_at: None,
            ..self.view(&fired, at)
        }
    }

    /// When the first of the jobs is due, or was.
    pub fn next_due(&self) -> Option<Timestamp> {
        let active = self.ledger.jobs().iter().filter(|job| job.paused.is_none());
        active
            .filter_map(|job| Some(self.kept.get(&job.id)?.slot?.due))
            .min()
    }

    /// A job as hosts and models see it; also one that is no longer kept.
    pub fn view(&self, job: &StoredJob, now: Timestamp) -> CronJob {
        let kept = self.kept.get(&job.id);
        let timing = kept.map(|kept| &kept.timing);
        let zone = Zone::find(&job.timezone).unwrap_or_else(Zone::utc);
        let words = match timing {
            Some(Ok(timing)) => timing.expression.in_words(),
            _ => job.cron.to_string(),
        };
        let next = kept
            .filter(|_| job.paused.is_none() && self.rules.enabled)
            .and_then(|kept| kept.slot);
        CronJob {
            job_id: job.id.clone(),
            cron: job.cron.to_string(),
            schedule: words,
            prompt: job.prompt.to_string(),
            recurring: job.recurring,
            timezone: job.timezone.to_string(),
            created_at: job.created_at.to_string(),
            renewed_at: job.renewed_at.map(|at| at.to_string()),
            next_fire_at: next.map(|slot| zone.local(slot.due)),
            last_fire_at: job.fired_at.map(|at| zone.local(at)),
            fires: job.fires,
            usage: job.usage,
            paused: job.paused,
            stale: self.is_stale(job, now),
            error: timing.and_then(|timing| timing.as_ref().err().cloned()),
        }
    }

    /// Takes in an operation that the journal has.
    pub fn apply(&mut self, op: CronOp, now: Timestamp) {
        if let CronOp::Added(job) = &op {
            // What was worked out for another of this id says nothing of this one.
            self.kept.remove(&job.id);
        }
        self.ledger.apply(op, now);
        self.refresh(now);
    }

    /// Takes in fires that the journal has, in the record of the turn they began.
    pub fn fired(&mut self, turn: &TurnId, fires: &[Fired], now: Timestamp) {
        for fire in fires {
            if let Some(kept) = self.kept.get_mut(&fire.job) {
                (kept.by_hand, kept.retry) = (false, None);
            }
        }
        self.ledger.fired(turn, fires, now);
        for fire in fires {
            match self.ledger.get(fire.job.as_str()) {
                Some(job) => work_out(&mut self.kept, job, &self.rules, now),
                None => drop(self.kept.remove(&fire.job)),
            }
        }
    }

    /// Fires could not be delivered: they wait a little, longer each time. Says whether this is the first time for one.
    pub fn undelivered(&mut self, fires: &[Fired], now: Timestamp) -> bool {
        let mut is_new = false;
        for fire in fires {
            let Some(kept) = self.kept.get_mut(&fire.job) else {
                continue;
            };
            let n = kept.retry.map_or(0, |(n, _)| n);
            is_new |= n == 0;
            let pause = CRON_RETRY_BASE
                .saturating_mul(1 << n.min(16))
                .min(CRON_RETRY_MAX);
            kept.retry = Some((n + 1, now.plus_ms(pause.as_millis() as i64)));
        }
        is_new
    }

    /// A turn has ended that jobs may have begun.
    pub fn turn_ended(&mut self, turn: &TurnId, usage: &Usage) {
        self.ledger.turn_ended(turn, usage);
    }

    /// Somebody has said something.
    pub fn attended(&mut self) {
        self.ledger.attended();
    }

    /// Has a job fire as soon as the session is idle, whatever its schedule says.
    ///
    /// # Errors
    /// There is no such job, or its expression can't be read, or jobs are switched off.
    pub fn fire_by_hand(&mut self, id: &str) -> Result<(), CronError> {
        if !self.rules.enabled {
            return Err(CronError::Disabled);
        }
        let id = self.find(id)?.id.clone();
        if let Some(kept) = self.kept.get_mut(&id) {
            (kept.by_hand, kept.retry) = (true, None);
        }
        Ok(())
    }

    /// A host was told that its fire could not be: it is not to come later.
    pub fn not_by_hand(&mut self, id: &str) {
        if let Some(kept) = self.kept.get_mut(id) {
            kept.by_hand = false;
        }
    }

    /// Jobs that would fire now and have done so often enough without anybody there: they are to be paused instead.
    pub fn unattended(&self, now: Timestamp) -> Vec<JobId> {
        let most = self.rules.max_unattended_fires;
        if most == 0 {
            return Vec::new();
        }
        let due = self.ledger.jobs().iter().filter(|job| {
            job.recurring
                && job.unattended_fires >= most
                && self
                    .kept
                    .get(&job.id)
                    .is_some_and(|kept| kept.due(job, now).is_some())
        });
        due.map(|job| job.id.clone()).collect()
    }

    /// What fires now, if the session is idle: those a host wants first, then by the time they were meant for, then by
    /// age; no more than go into one turn.
    pub fn due(&self, now: Timestamp, mut id: impl FnMut() -> String) -> Vec<Fire> {
        if !self.rules.enabled {
            return Vec::new();
        }
        let mut due: Vec<(Option<Timestamp>, usize, &StoredJob)> = Vec::new();
        for (n, job) in self.ledger.jobs().iter().enumerate() {
            let Some(kept) = self.kept.get(&job.id) else {
                continue;
            };
            if kept.retry.is_some_and(|(_, until)| until > now) {
                continue;
            }
            let slot = kept.due(job, now);
            if kept.by_hand || slot.is_some() {
                let ideal = slot.map(|slot| slot.ideal).filter(|_| !kept.by_hand);
                due.push((ideal, n, job));
            }
        }
        due.sort_by_key(|(ideal, n, _)| (*ideal, *n));
        due.truncate(CRON_BATCH);
        due.into_iter()
            .filter_map(|(_, _, job)| self.fire(job, now, id()))
            .collect()
    }

    /// When jobs are to be looked at again, of those that are not due yet.
    pub fn appointments(&self, now: Timestamp) -> Vec<(JobId, Timestamp)> {
        let jobs = self.ledger.jobs().iter().filter_map(|job| {
            let kept = self.kept.get(&job.id)?;
            if let Some((_, until)) = kept.retry.filter(|(_, until)| *until > now) {
                return Some((job.id.clone(), until));
            }
            let slot = kept.slot.filter(|slot| slot.due > now)?;
            job.paused.is_none().then(|| (job.id.clone(), slot.due))
        });
        if self.rules.enabled {
            jobs.collect()
        } else {
            Vec::new()
        }
    }

    /// Works out what may have changed: for jobs that are new or have fired, and for all where the clock was set.
    pub fn refresh(&mut self, now: Timestamp) {
        let jobs = self.ledger.jobs();
        for job in jobs {
            work_out(&mut self.kept, job, &self.rules, now);
        }
        if self.kept.len() > jobs.len() {
            self.kept
                .retain(|id, _| jobs.iter().any(|job| job.id == *id));
        }
    }

    /// A job that a host wants to fire answers for what is due of it, too.
    fn fire(&self, job: &StoredJob, now: Timestamp, id: String) -> Option<Fire> {
        let kept = self.kept.get(&job.id)?;
        let due = match (kept.due(job, now), &kept.timing, kept.base) {
            (Some(_), Ok(timing), Some(base)) => timing.due(base, now),
            _ => None,
        };
        if due.is_none() && !kept.by_hand {
            return None;
        }
        let is_late = |ideal: Timestamp| now.0 - ideal.0 > CRON_MISSED.as_millis() as i64;
        Some(Fire {
            zone: Zone::find(&job.timezone).unwrap_or_else(Zone::utc),
            id,
            due,
            is_stale: due.is_some() && self.is_stale(job, now),
            is_missed: !job.recurring && due.is_some_and(|due| is_late(due.last)),
            at: now,
            job: job.clone(),
        })
    }

    fn is_stale(&self, job: &StoredJob, now: Timestamp) -> bool {
        let days = i64::from(self.rules.max_age_days);
        job.recurring && days > 0 && now.0 - age_from(job).0 >= days * DAY_MS
    }
}

/// From when a job's age counts.
fn age_from(job: &StoredJob) -> Timestamp {
    job.renewed_at.unwrap_or(job.created_at)
}

/// Works out the next appointment of a job, where it may have changed.
fn work_out(kept: &mut HashMap<JobId, Kept>, job: &StoredJob, rules: &CronConfig, now: Timestamp) {
    if !kept.contains_key(&job.id) {
        kept.insert(job.id.clone(), Kept::new(job, rules.jitter));
    }
    if let Some(kept) = kept.get_mut(&job.id) {
        kept.look_from(base_of(job.created_at, job.cursor, now), now);
    }
}

impl Kept {
    /// Looks for the next appointment after a base; after now, once, where there is none.
    fn look_from(&mut self, base: Option<Timestamp>, now: Timestamp) {
        let is_same = match base {
            Some(_) => !self.is_makeshift && self.base == base,
            None => self.is_makeshift && self.base <= Some(now),
        };
        if is_same {
            return;
        }
        let from = base.unwrap_or(now);
        (self.base, self.is_makeshift) = (Some(from), base.is_none());
        self.slot = self
            .timing
            .as_ref()
            .ok()
            .and_then(|timing| timing.next(from));
    }

    /// The appointment that is due.
    fn due(&self, job: &StoredJob, now: Timestamp) -> Option<Slot> {
        let slot = self.slot?;
        (slot.due <= now && job.paused.is_none()).then_some(slot)
    }

    fn new(job: &StoredJob, jitter: bool) -> Self {
        let timing = match (job.cron.parse::<Expression>(), Zone::find(&job.timezone)) {
            (Ok(expression), Some(zone)) => Ok(Timing {
                expression: Arc::new(expression),
                zone,
                recurring: job.recurring,
                jitter: if jitter {
                    jitter_of(job.id.as_str())
                } else {
                    0.0
                },
            }),
            (Err(error), _) => Err(error.to_string()),
            (_, None) => Err(CronError::UnknownZone(job.timezone.to_string()).to_string()),
        };
        Self {
            timing,
            base: None,
            is_makeshift: false,
            slot: None,
            by_hand: false,
            retry: None,
        }
    }
}
