//! PNG: chunks of length, type, data and checksum.

use super::{Broken, Found, take};
use crate::media::orientation::Orientation;

const SIGNATURE_BYTES: usize = 8;
/// Length, type and checksum.
const FRAME_BYTES: usize = 12;

pub(super) fn read(bytes: &[u8]) -> Result<Found, Broken> {
    let mut at = SIGNATURE_BYTES;
    let mut header = None;
    let mut orientation = Orientation::NORMAL;
    let mut has_data = false;
    let mut has_transparency = false;
    loop {
        let start = take(bytes, at, 8)?;
        let length = u32::from_be_bytes([start[0], start[1], start[2], start[3]]) as usize;
        let data = take(bytes, at + 8, length)?;
        take(bytes, at + 8 + length, 4)?;
        match &start[4..8] {
            b"IHDR" => header = Some(data),
            b"IDAT" => has_data = true,
            b"tRNS" => has_transparency = true,
            b"eXIf" => orientation = Orientation::of_exif(data),
            b"IEND" => break,
            _ if header.is_none() => return Err(Broken::Damaged("it has no header")),
            _ => {}
        }
        at += FRAME_BYTES + length;
    }
    let Some(
        &[
            w0,
            w1,
            w2,
            w3,
            h0,
            h1,
            h2,
            h3,
            depth,
            color,
            0,
            0,
            interlace,
        ],
    ) = header
    else {
        return Err(Broken::Damaged("its header is no PNG header"));
    };
    if !has_data {
        return Err(Broken::Damaged("it has no image data"));
    }
    let channels = match (color, depth) {
        (0, 1 | 2 | 4 | 8 | 16) => 1,
        (2, 8 | 16) => 3,
        // Colours of a palette are decoded with their transparency.
        (3, 1 | 2 | 4 | 8) => 4,
        (4, 8 | 16) => 2,
        (6, 8 | 16) => 4,
        _ => return Err(Broken::Damaged("its colour type is unknown")),
    };
    if interlace > 1 {
        return Err(Broken::Damaged("its interlacing is unknown"));
    }
    let channels = channels + u64::from(has_transparency && matches!(color, 0 | 2));
    Ok(Found {
        stored: (
            u32::from_be_bytes([w0, w1, w2, w3]),
            u32::from_be_bytes([h0, h1, h2, h3]),
        ),
        orientation,
        is_animated: false,
        bytes_per_pixel: channels * if depth == 16 { 2 } else { 1 },
    })
}
