//! WebP: chunks in a RIFF file, padded to even lengths.

use super::{Broken, Found, take};
use crate::media::orientation::Orientation;

const START_BYTES: usize = 12;

/// Pixels of lossless images are decoded with their transparency, others are gathered in another colour space first.
const BYTES_PER_PIXEL: u64 = 8;

pub(super) fn read(bytes: &[u8]) -> Result<Found, Broken> {
    let start = take(bytes, 0, START_BYTES)?;
    let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
    let file = take(bytes, 8, length)?;
    let mut at = 4;
    let mut canvas = None;
    let mut frame = None;
    let mut orientation = Orientation::NORMAL;
    let mut is_animated = false;
    while at < file.len() {
        let start = take(file, at, 8)?;
        let length = u32::from_le_bytes([start[4], start[5], start[6], start[7]]) as usize;
        let data = take(file, at + 8, length)?;
        match &start[..4] {
            b"VP8X" => {
                let &[flags, _, _, _, w0, w1, w2, h0, h1, h2, ..] = data else {
                    return Err(Broken::Damaged("its header is too short"));
                };
                is_animated |= flags & 2 != 0;
                let size = |low, middle, high| u32::from_le_bytes([low, middle, high, 0]) + 1;
                canvas = Some((size(w0, w1, w2), size(h0, h1, h2)));
            }
            b"VP8 " => frame = Some(lossy(data)?),
            b"VP8L" => frame = Some(lossless(data)?),
            b"ANIM" => is_animated = true,
            b"ANMF" => {
                is_animated = true;
                frame = frame.or(canvas);
            }
            b"EXIF" => {
                orientation = Orientation::of_exif(data.strip_prefix(b"Exif\0\0").unwrap_or(data));
            }
            _ => {}
        }
        at += 8 + length + length % 2;
    }
    let Some(frame) = frame else {
        return Err(Broken::Damaged("it has no image data"));
    };
    Ok(Found {
        stored: canvas.unwrap_or(frame),
        orientation,
        is_animated,
        bytes_per_pixel: BYTES_PER_PIXEL,
    })
}

fn lossy(data: &[u8]) -> Result<(u32, u32), Broken> {
    let &[_, _, _, 0x9D, 0x01, 0x2A, w0, w1, h0, h1, ..] = data else {
        return Err(Broken::Damaged("its frame has no header"));
    };
    // The two bits above are a hint at how to scale it.
    let size = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3FFF);
    Ok((size(w0, w1), size(h0, h1)))
}

fn lossless(data: &[u8]) -> Result<(u32, u32), Broken> {
    let &[0x2F, a, b, c, d, ..] = data else {
        return Err(Broken::Damaged("its frame has no header"));
    };
    let bits = u32::from_le_bytes([a, b, c, d]);
    Ok(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
}
