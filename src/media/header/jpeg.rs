//! JPEG: segments up to the first scan, which ends at a mark.

use super::{Broken, Found, take};
use crate::media::orientation::Orientation;

const EXIF: &[u8] = b"Exif\0\0";

pub(super) fn read(bytes: &[u8]) -> Result<Found, Broken> {
    let mut at = 2;
    let mut frame = None;
    let mut orientation = Orientation::NORMAL;
    loop {
        let [0xFF, marker] = *take(bytes, at, 2)? else {
            return Err(Broken::Damaged("a segment has no mark"));
        };
        at += match marker {
            // Any number of these may stand before a mark.
            0xFF => 1,
            // Marks without data.
            0x01 | 0xD0..=0xD8 => 2,
            0xD9 => return Err(Broken::Truncated),
            _ => {
                let length = take(bytes, at + 2, 2)?;
                let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
                if length < 2 {
                    return Err(Broken::Damaged("a segment has no length"));
                }
                let data = take(bytes, at + 4, length - 2)?;
                match marker {
                    0xC4 | 0xC8 | 0xCC => {}
                    0xC0..=0xCF => frame = Some((marker, data)),
                    0xE1 => {
                        if let Some(tiff) = data.strip_prefix(EXIF) {
                            orientation = Orientation::of_exif(tiff);
                        }
                    }
                    0xDA => {
                        at += 2 + length;
                        break;
                    }
                    _ => {}
                }
                2 + length
            }
        };
    }
    let Some((marker, &[_, h0, h1, w0, w1, n_components, ..])) = frame else {
        return Err(Broken::Damaged("it has no frame"));
    };
    if memchr::memmem::rfind(&bytes[at..], &[0xFF, 0xD9]).is_none() {
        return Err(Broken::Truncated);
    }
    let components = u64::from(n_components).clamp(1, 4);
    let pixel = if components == 1 { 1 } else { 3 };
    // A progressive image is gathered as two bytes of coefficients for each sample before it becomes pixels.
    let coefficients = if matches!(marker, 0xC2 | 0xC6 | 0xCA | 0xCE) {
        2 * components
    } else {
        0
    };
    Ok(Found {
        stored: (
            u32::from(u16::from_be_bytes([w0, w1])),
            u32::from(u16::from_be_bytes([h0, h1])),
        ),
        orientation,
        is_animated: false,
        bytes_per_pixel: pixel + coefficients,
    })
}
