//! GIF: a screen, and frames on it made of short runs of bytes.

use super::{Broken, Found, take};
use crate::media::orientation::Orientation;

const SCREEN_AT: usize = 6;
const SCREEN_BYTES: usize = 7;
const FRAME_BYTES: usize = 10;

pub(super) fn read(bytes: &[u8]) -> Result<Found, Broken> {
    let screen = take(bytes, SCREEN_AT, SCREEN_BYTES)?;
    let stored = (number(screen[0], screen[1]), number(screen[2], screen[3]));
    let mut at = SCREEN_AT + SCREEN_BYTES + palette_bytes(screen[4]);
    let mut n_frames = 0_u32;
    loop {
        match bytes.get(at) {
            Some(b';') => break,
            // Some writers leave the mark of the end out; nobody minds.
            None if n_frames > 0 => break,
            Some(b'!') => at = runs(bytes, at + 2)?,
            Some(b',') => {
                let frame = take(bytes, at, FRAME_BYTES)?;
                // The size of the codes stands before the runs.
                at = runs(bytes, at + FRAME_BYTES + palette_bytes(frame[9]) + 1)?;
                n_frames = n_frames.saturating_add(1);
            }
            None => return Err(Broken::Truncated),
            Some(_) => return Err(Broken::Damaged("a block is of no known type")),
        }
    }
    if n_frames == 0 {
        return Err(Broken::Damaged("it has no frame"));
    }
    Ok(Found {
        stored,
        orientation: Orientation::NORMAL,
        is_animated: n_frames > 1,
        // It is never decoded here.
        bytes_per_pixel: 0,
    })
}

fn number(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}

fn palette_bytes(flags: u8) -> usize {
    if flags & 0x80 == 0 {
        0
    } else {
        3 << ((flags & 7) + 1)
    }
}

/// The place behind a series of runs, each with its length before it; an empty one ends it.
fn runs(bytes: &[u8], mut at: usize) -> Result<usize, Broken> {
    loop {
        let length = usize::from(*bytes.get(at).ok_or(Broken::Truncated)?);
        at += 1 + length;
        if length == 0 {
            return Ok(at);
        }
    }
}
