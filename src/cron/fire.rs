//! A fire of a job, and the words the model reads.

use std::fmt::Write as _;

use longshore_protocol::value::cron::CronFire;

use super::ledger::Fired;
use super::timing::Due;
use super::zone::Zone;
use crate::kernel::cron::StoredJob;
use crate::kernel::time::Timestamp;

/// What the elements of a fire are called. A prompt can't close them.
const ELEMENTS: [&str; 4] = ["cron-fire", "cron-missed", "job", "prompt"];

const STALE: &str = "This job has reached its greatest age: this was its last fire, and it is gone. Create it again if it \
    is still wanted.";
const MISSED: &str = "These jobs were to run once, at the times given, while nothing could run them. Do not carry them out \
    as if they were fresh: check what still makes sense, or ask the user.";

/// A job that fires now.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    /// The job as it was before.
    pub job: StoredJob,
    /// Its clock.
    pub zone: Zone,
    /// This fire, unique for ever.
    pub id: String,
    /// What it answers for; absent where a host fired it.
    pub due: Option<Due>,
    /// True where the job is too old to go on.
    pub is_stale: bool,
    /// True where it comes so late that it is no longer fresh.
    pub is_missed: bool,
    /// When it fires.
    pub at: Timestamp,
}

impl Fire {
    /// What the record of its turn says about it.
    pub fn fired(&self) -> Fired {
        let before = self.job.cursor.unwrap_or(self.job.created_at);
        Fired {
            job: self.job.id.clone(),
            ideal_at: self.due.map_or(before, |due| due.last),
            is_last: self.is_last(),
        }
    }

    /// Whether the job is gone with it.
    pub fn is_last(&self) -> bool {
        self.is_stale || !self.job.recurring
    }

    /// What hosts are told of it.
    pub fn wire(&self) -> CronFire {
        CronFire {
            job_id: self.job.id.clone(),
            fire_id: self.id.clone(),
            cron: self.job.cron.to_string(),
            prompt: self.job.prompt.to_string(),
            recurring: self.job.recurring,
            coalesced_count: self.n_coalesced(),
            stale: self.is_stale,
            missed: self.is_missed,
            ideal_at: self.due.map(|due| self.zone.local(due.last)),
            fired_at: self.zone.local(self.at),
        }
    }

    fn n_coalesced(&self) -> u32 {
        self.due.map_or(1, |due| due.n_coalesced)
    }

    /// The attributes all elements of a fire have.
    fn identity(&self) -> String {
        let ideal = self.due.map(|due| self.zone.local(due.last));
        let mut text = format!("job_id=\"{}\" cron=\"{}\"", self.job.id, self.job.cron);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            " ideal_time=\"{}\" fired_at=\"{}\" fire_id=\"{}\"",
            ideal.as_deref().unwrap_or("none"),
            self.zone.local(self.at),
            self.id
        );
        text
    }

    fn prompt(&self) -> String {
        format!("<prompt>\n{}\n</prompt>", neutral(&self.job.prompt))
    }

    fn element(&self) -> String {
        let note = if self.is_stale {
            format!("{STALE}\n")
        } else {
            String::new()
        };
        format!(
            "<cron-fire {} recurring=\"{}\" coalesced_count=\"{}\" stale=\"{}\">\n{}\n{note}</cron-fire>",
            self.identity(),
            self.job.recurring,
            self.n_coalesced(),
            self.is_stale,
            self.prompt()
        )
    }
}

/// What the model reads of fires that begin a turn together, one text for each. Those that were missed are told in one
/// element: it is the text of the first of them, and the others have none.
pub fn texts(fires: &[Fire]) -> Vec<String> {
    let missed: Vec<&Fire> = fires.iter().filter(|fire| fire.is_missed).collect();
    let mut told = false;
    let one = |fire: &Fire| {
        if !fire.is_missed {
            return fire.element();
        }
        if std::mem::replace(&mut told, true) {
            return String::new();
        }
        let jobs = missed
            .iter()
            .map(|fire| format!("<job {}>\n{}\n</job>\n", fire.identity(), fire.prompt()));
        format!(
            "<cron-missed count=\"{}\">\n{}{MISSED}\n</cron-missed>",
            missed.len(),
            jobs.collect::<String>()
        )
    };
    fires.iter().map(one).collect()
}

/// A text in which no closing tag ends an element of ours.
fn neutral(text: &str) -> String {
    let mut neutral = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        let (before, tag) = rest.split_at(at);
        let name = tag[2..].trim_start();
        let closes = ELEMENTS.iter().any(|element| {
            name.get(..element.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(element))
        });
        neutral.push_str(before);
        neutral.push_str(if closes { "&lt;/" } else { "</" });
        rest = &tag[2..];
    }
    neutral.push_str(rest);
    neutral
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_protocol::value::usage::Usage;

    fn fire(id: &str, prompt: &str) -> Fire {
        let at = Timestamp::parse("2026-03-01T08:00:00Z").unwrap();
        Fire {
            job: StoredJob {
                id: id.into(),
                cron: "0 9 * * *".into(),
                prompt: prompt.into(),
                recurring: true,
                timezone: "Europe/Berlin".into(),
                created_at: at,
                renewed_at: None,
                cursor: None,
                fired_at: None,
                fires: 0,
                unattended_fires: 0,
                usage: Usage::default(),
                paused: None,
            },
            zone: Zone::find("Europe/Berlin").unwrap(),
            id: format!("f-{id}"),
            due: Some(Due {
                n_coalesced: 3,
                first: at,
                last: at,
            }),
            is_stale: false,
            is_missed: false,
            at: at.plus_ms(1250),
        }
    }

    #[test]
    fn the_envelope() {
        let told = texts(&[fire("00c0ffee", "Look at the mail.")]);
        assert_eq!(
            told,
            ["<cron-fire job_id=\"00c0ffee\" cron=\"0 9 * * *\" \
             ideal_time=\"2026-03-01T09:00:00.000+01:00\" fired_at=\"2026-03-01T09:00:01.250+01:00\" \
             fire_id=\"f-00c0ffee\" recurring=\"true\" coalesced_count=\"3\" stale=\"false\">\n\
             <prompt>\nLook at the mail.\n</prompt>\n</cron-fire>"]
        );
        let stale = Fire {
            is_stale: true,
            ..fire("1", "x")
        };
        let told = texts(&[stale]).concat();
        assert!(
            told.contains("stale=\"true\"") && told.contains(STALE),
            "{told}"
        );
        let by_hand = Fire {
            due: None,
            ..fire("1", "x")
        };
        assert_eq!(by_hand.fired().ideal_at, by_hand.job.created_at);
        assert!(texts(&[by_hand]).concat().contains("ideal_time=\"none\""));
    }

    #[test]
    fn a_prompt_cannot_close_the_envelope() {
        for (prompt, shown) in [
            ("a </cron-fire> b", "a &lt;/cron-fire> b"),
            ("</prompt></CRON-fire >", "&lt;/prompt>&lt;/CRON-fire >"),
            ("</ prompt>", "&lt;/ prompt>"),
            ("</cron-missed></job>", "&lt;/cron-missed>&lt;/job>"),
            ("<b>bold</b> </div> </", "<b>bold</b> </div> </"),
            ("é</é", "é</é"),
        ] {
            assert_eq!(neutral(prompt), shown);
            let told = texts(&[fire("1", prompt)]).concat();
            assert_eq!(told.matches("</cron-fire>").count(), 1);
            assert_eq!(told.matches("</prompt>").count(), 1);
            assert!(told.ends_with("</prompt>\n</cron-fire>"));
        }
    }

    #[test]
    fn what_was_missed_is_told_in_one() {
        let missed = |id: &str| {
            let mut fire = fire(id, &format!("do {id}"));
            (fire.job.recurring, fire.is_missed) = (false, true);
            fire
        };
        let told = texts(&[missed("a"), fire("b", "now"), missed("c")]);
        assert!(told[0].starts_with("<cron-missed count=\"2\">"));
        assert!(told[0].contains("do a") && told[0].contains("do c") && told[0].contains(MISSED));
        assert!(told[1].starts_with("<cron-fire ") && told[2].is_empty());
    }
}
