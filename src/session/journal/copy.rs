//! Writing the lines of one journal into the journal of another session: with their times, and numbered anew.

use std::path::Path;

use longshore_protocol::id::AgentId;

use super::record::{Line, Record, VERSION};
use super::{storage_fault, write};
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;
use crate::store::append_log::AppendLog;
use crate::store::blob::BlobStore;

/// Lines are written together up to this much. Chosen: far fewer writes than lines, and little memory.
const BATCH_BYTES: usize = 1 << 20;

/// A journal that is filled before anybody has it. Blocking.
pub struct Copy<'a> {
    dir: &'a Path,
    log: AppendLog,
    blobs: BlobStore,
    seq: u64,
    batch: Vec<Vec<u8>>,
    batch_bytes: usize,
}

impl<'a> Copy<'a> {
    /// Begins a journal in a directory that has none.
    pub fn begin(dir: &'a Path) -> Result<Self, Fault> {
        let opened =
            AppendLog::open(&write::path(dir)).map_err(|error| storage_fault(error, dir))?;
        Ok(Self {
            dir,
            log: opened.log,
            blobs: BlobStore::new(dir.join("blobs")),
            seq: 0,
            batch: Vec::new(),
            batch_bytes: 0,
        })
    }

    /// Adds an event line; it gets the next number.
    pub fn event(&mut self, at: Timestamp, agent: &AgentId, record: Record) -> Result<(), Fault> {
        self.seq += 1;
        let seq = Some(self.seq);
        self.line(Line {
            v: VERSION,
            seq,
            after: None,
            at: at.0,
            agent: agent.clone(),
            record,
        })
    }

    /// Adds a state line.
    pub fn state(&mut self, at: Timestamp, agent: &AgentId, record: Record) -> Result<(), Fault> {
        let after = Some(self.seq);
        self.line(Line {
            v: VERSION,
            seq: None,
            after,
            at: at.0,
            agent: agent.clone(),
            record,
        })
    }

    /// Puts everything on the disk.
    pub fn finish(mut self) -> Result<(), Fault> {
        self.flush()?;
        self.log
            .syncer()
            .sync_blocking()
            .map_err(|error| storage_fault(error, self.dir))
    }

    fn line(&mut self, line: Line) -> Result<(), Fault> {
        let bytes = write::encode(&line, &self.blobs, self.dir)?;
        self.batch_bytes += bytes.len();
        self.batch.push(bytes);
        if self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.log
            .append_all(self.batch.drain(..))
            .map_err(|error| storage_fault(error, self.dir))?;
        self.batch_bytes = 0;
        Ok(())
    }
}
