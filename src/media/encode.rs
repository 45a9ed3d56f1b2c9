//! From pixels to a file, as long as the file does not become too large.

use std::io::{self, Write};

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageResult};

use super::kind::ImageKind;
use super::pixels::{Channels, Pixels};

/// How pixels are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Without loss.
    Png,
    /// With loss; 1 to 100, the higher the better.
    Jpeg(u8),
}

impl Format {
    pub(super) fn kind(self) -> ImageKind {
        match self {
            Self::Png => ImageKind::Png,
            Self::Jpeg(_) => ImageKind::Jpeg,
        }
    }
}

/// A PNG that is this many times too large when compressed in a hurry won't fit when compressed well.
const HOPELESS: usize = 8;

/// The largest side a JPEG can have.
const JPEG_EDGE: u32 = 65_535;

/// Writes an image; `None` where it takes more than `max_bytes`.
pub(super) fn encode(pixels: &Pixels, format: Format, max_bytes: usize) -> Option<Vec<u8>> {
    match format {
        Format::Png => {
            // Compressing well takes many times as long as compressing at all, which tells what is hopeless.
            capped(max_bytes.saturating_mul(HOPELESS), |file| {
                png(pixels, CompressionType::Fast, file)
            })?;
            capped(max_bytes, |file| {
                png(pixels, CompressionType::Default, file)
            })
        }
        Format::Jpeg(_) if pixels.edge() > JPEG_EDGE => None,
        Format::Jpeg(quality) => capped(max_bytes, |file| jpeg(pixels, quality, file)),
    }
}

/// What is written, where it fits.
///
/// Nothing but a full file can fail: the pixels fit their size, and their kind is one both formats have. The last bytes of
/// a file may be written where an error is lost, so the file is asked as well.
fn capped(max_bytes: usize, write: impl FnOnce(&mut Capped) -> ImageResult<()>) -> Option<Vec<u8>> {
    let mut file = Capped {
        bytes: Vec::new(),
        max_bytes,
        is_full: false,
    };
    let written = write(&mut file);
    (written.is_ok() && !file.is_full).then_some(file.bytes)
}

fn png(pixels: &Pixels, compression: CompressionType, file: &mut Capped) -> ImageResult<()> {
    let encoder = PngEncoder::new_with_quality(file, compression, FilterType::Adaptive);
    let color = match pixels.channels {
        Channels::Gray => ExtendedColorType::L8,
        Channels::GrayAlpha => ExtendedColorType::La8,
        Channels::Rgb => ExtendedColorType::Rgb8,
        Channels::Rgba => ExtendedColorType::Rgba8,
    };
    encoder.write_image(&pixels.data, pixels.width, pixels.height, color)
}

/// JPEG has no transparency: what lies behind is white, as on paper.
fn jpeg(pixels: &Pixels, quality: u8, file: &mut Capped) -> ImageResult<()> {
    let mut encoder = JpegEncoder::new_with_quality(file, quality);
    let (width, height) = (pixels.width, pixels.height);
    match pixels.channels {
        Channels::Gray => encoder.encode(&pixels.data, width, height, ExtendedColorType::L8),
        Channels::Rgb => encoder.encode(&pixels.data, width, height, ExtendedColorType::Rgb8),
        Channels::GrayAlpha => {
            let flat = on_white(&pixels.data, 2);
            encoder.encode(&flat, width, height, ExtendedColorType::L8)
        }
        Channels::Rgba => {
            let flat = on_white(&pixels.data, 4);
            encoder.encode(&flat, width, height, ExtendedColorType::Rgb8)
        }
    }
}

fn on_white(data: &[u8], n: usize) -> Vec<u8> {
    let mut flat = Vec::with_capacity(data.len() / n * (n - 1));
    for pixel in data.chunks_exact(n) {
        let alpha = u32::from(pixel[n - 1]);
        flat.extend(
            pixel[..n - 1].iter().map(|sample| {
                ((u32::from(*sample) * alpha + 255 * (255 - alpha) + 127) / 255) as u8
            }),
        );
    }
    flat
}

/// Memory that refuses to grow beyond a size, so that an encoder stops as soon as its work is in vain.
struct Capped {
    bytes: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
}

impl Write for Capped {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.is_full || self.bytes.len() + more.len() > self.max_bytes {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::kind::{Kind, sniff};

    fn pixels(channels: Channels, pixel: &[u8]) -> Pixels {
        Pixels {
            width: 8,
            height: 8,
            channels,
            data: pixel.repeat(64),
        }
    }

    #[test]
    fn every_kind_of_pixel_in_both_formats() {
        for (channels, pixel) in [
            (Channels::Gray, &[9][..]),
            (Channels::GrayAlpha, &[9, 255]),
            (Channels::Rgb, &[9, 8, 7]),
            (Channels::Rgba, &[9, 8, 7, 255]),
        ] {
            let pixels = pixels(channels, pixel);
            for format in [Format::Png, Format::Jpeg(90)] {
                let bytes = encode(&pixels, format, 10_000).unwrap();
                assert_eq!(sniff(&bytes), Some(Kind::Image(format.kind())));
                let again = Pixels::decode(format.kind(), &bytes, 10_000).unwrap();
                assert_eq!((again.width, again.height), (8, 8));
                assert!(again.data[0].abs_diff(9) < 4, "{format:?}");
                if format == Format::Png {
                    assert_eq!(again, pixels);
                }
                assert_eq!(encode(&pixels, format, bytes.len() - 1), None);
                assert_eq!(encode(&pixels, format, bytes.len()), Some(bytes));
            }
        }
    }

    #[test]
    fn behind_transparency_is_white() {
        let clear = pixels(Channels::Rgba, &[0, 0, 0, 0]);
        let bytes = encode(&clear, Format::Jpeg(90), 10_000).unwrap();
        let flat = Pixels::decode(ImageKind::Jpeg, &bytes, 10_000).unwrap();
        assert!(flat.data.iter().all(|sample| *sample > 250));
        assert_eq!(on_white(&[100, 128], 2), [177]);
    }
}
