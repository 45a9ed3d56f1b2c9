//! The size of an image, and whether it is whole, without decoding it.
//!
//! Every format has a file that walks its blocks from the first to the last byte and takes no memory. A file that ends
//! too early, or whose blocks do not hold together, is [`Broken`]: a provider would refuse it.

mod gif;
mod jpeg;
mod png;
mod webp;

use super::kind::{ImageKind, Kind, sniff};
use super::orientation::Orientation;

/// What the blocks of an image say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub kind: ImageKind,
    /// Width and height as displayed, in pixels.
    pub size: (u32, u32),
    /// True for what moves: it can't be scaled or cropped here.
    pub is_animated: bool,
    /// The size as stored.
    pub(super) stored: (u32, u32),
    /// How the stored image is turned.
    pub(super) orientation: Orientation,
    /// Memory that decoding takes per pixel, in bytes.
    pub(super) bytes_per_pixel: u64,
}

/// Why an image is none that anybody can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The file ends before the image does.
    #[error("it ends in the middle of the image")]
    Truncated,
    /// Its blocks contradict the format.
    #[error("it is damaged ({0})")]
    Damaged(&'static str),
    /// It is none of the formats that every provider takes.
    #[error("it is no PNG, JPEG, GIF or WebP image")]
    Unsupported,
}

/// What a format's own file finds.
struct Found {
    stored: (u32, u32),
    orientation: Orientation,
    is_animated: bool,
    bytes_per_pixel: u64,
}

impl Header {
    /// Reads the blocks of a whole file.
    ///
    /// # Errors
    /// It is no image that can be shown.
    pub fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let Some(Kind::Image(kind)) = sniff(bytes) else {
            return Err(Broken::Unsupported);
        };
        let found = match kind {
            ImageKind::Png => png::read(bytes)?,
            ImageKind::Jpeg => jpeg::read(bytes)?,
            ImageKind::Gif => gif::read(bytes)?,
            ImageKind::Webp => webp::read(bytes)?,
            _ => return Err(Broken::Unsupported),
        };
        if found.stored.0 == 0 || found.stored.1 == 0 {
            return Err(Broken::Damaged("it has no pixels"));
        }
        Ok(Self {
            kind,
            size: found.orientation.displayed(found.stored),
            is_animated: found.is_animated,
            stored: found.stored,
            orientation: found.orientation,
            bytes_per_pixel: found.bytes_per_pixel,
        })
    }

    /// The longest edge, in pixels.
    pub fn edge(&self) -> u32 {
        self.size.0.max(self.size.1)
    }

    /// How many pixels there are.
    pub fn n_pixels(&self) -> u64 {
        u64::from(self.size.0) * u64::from(self.size.1)
    }

    /// True where the image can be made smaller here; the rest is passed on as it is or not at all.
    pub fn can_be_scaled(&self) -> bool {
        self.kind != ImageKind::Gif && !self.is_animated
    }
}

/// The bytes of a block, or that the file ends in it.
fn take(bytes: &[u8], at: usize, n: usize) -> Result<&[u8], Broken> {
    at.checked_add(n)
        .and_then(|end| bytes.get(at..end))
        .ok_or(Broken::Truncated)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, Photo};
    use super::*;

    #[test]
    fn sizes_of_all_formats() {
        for (bytes, kind) in [
            (testing::png(&testing::noise(40, 30)), ImageKind::Png),
            (testing::jpeg(&testing::noise(40, 30)), ImageKind::Jpeg),
            (testing::gif(40, 30, 1), ImageKind::Gif),
            (testing::webp(&testing::noise(40, 30)), ImageKind::Webp),
        ] {
            let header = Header::read(&bytes).unwrap();
            assert_eq!(
                (header.kind, header.size, header.is_animated),
                (kind, (40, 30), false)
            );
        }
    }

    #[test]
    fn what_moves() {
        for (bytes, is_animated) in [
            (testing::gif(4, 3, 2), true),
            (testing::animated_webp(4, 3), true),
            (testing::webp(&testing::noise(4, 3)), false),
        ] {
            let header = Header::read(&bytes).unwrap();
            assert_eq!((header.is_animated, header.size), (is_animated, (4, 3)));
            assert_eq!(header.can_be_scaled(), !is_animated);
        }
    }

    #[test]
    fn cameras_turn_images() {
        let stored = testing::noise(40, 30);
        for (way, size) in [(1, (40, 30)), (3, (40, 30)), (6, (30, 40)), (8, (30, 40))] {
            for bytes in [
                testing::turned_jpeg(&stored, way),
                testing::turned_png(&stored, way),
            ] {
                let header = Header::read(&bytes).unwrap();
                assert_eq!((header.size, header.stored), (size, (40, 30)), "{way}");
            }
        }
    }

    #[test]
    fn every_cut_is_seen() {
        let photo: Photo = testing::noise(9, 7);
        for bytes in [
            testing::png(&photo),
            testing::jpeg(&photo),
            testing::gif(9, 7, 1),
            testing::webp(&photo),
            testing::animated_webp(9, 7),
        ] {
            assert!(Header::read(&bytes).is_ok());
            // The very last byte of a GIF is a mark that nobody misses.
            let needed = bytes.len() - usize::from(bytes.starts_with(b"GIF"));
            for n in 0..needed {
                assert!(
                    Header::read(&bytes[..n]).is_err(),
                    "{n} of {} bytes",
                    bytes.len()
                );
            }
        }
    }

    #[test]
    fn what_follows_the_image_does_no_harm() {
        let photo = testing::noise(9, 7);
        for mut bytes in [
            testing::png(&photo),
            testing::jpeg(&photo),
            testing::gif(9, 7, 1),
            testing::webp(&photo),
        ] {
            bytes.extend(b"and more");
            assert_eq!(Header::read(&bytes).unwrap().size, (9, 7));
        }
    }

    #[test]
    fn images_without_pixels_are_broken() {
        let mut png = testing::png(&testing::noise(9, 7));
        png[16..20].fill(0);
        assert_eq!(Header::read(&png), Err(Broken::Damaged("it has no pixels")));
        assert_eq!(Header::read(b"hello"), Err(Broken::Unsupported));
    }
}
