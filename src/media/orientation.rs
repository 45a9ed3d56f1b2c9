//! How an image is turned for display, as cameras write it.

use image::metadata::Orientation as Exif;

/// One of the eight ways, numbered as in EXIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u8);

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// From the left.
    pub x: u32,
    /// From the top.
    pub y: u32,
    /// At least 1.
    pub width: u32,
    /// At least 1.
    pub height: u32,
}

impl Orientation {
    /// As it is stored.
    pub(super) const NORMAL: Self = Self(1);

    /// Reads the block cameras write (a small TIFF). Anything odd in it means the image is as it is stored.
    pub(super) fn of_exif(tiff: &[u8]) -> Self {
        Exif::from_exif_chunk(tiff).map_or(Self::NORMAL, |exif| Self(exif.to_exif()))
    }

    /// True where width and height change places.
    pub(super) fn swaps(self) -> bool {
        self.0 >= 5
    }

    /// The size as displayed, from the size as stored.
    pub(super) fn displayed(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.swaps() {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// The stored place of a displayed pixel, in an image of this stored size.
    pub(super) fn stored(self, (x, y): (u32, u32), (width, height): (u32, u32)) -> (u32, u32) {
        match self.0 {
            2 => (width - 1 - x, y),
            3 => (width - 1 - x, height - 1 - y),
            4 => (x, height - 1 - y),
            5 => (y, x),
            6 => (y, height - 1 - x),
            7 => (width - 1 - y, height - 1 - x),
            8 => (width - 1 - y, x),
            _ => (x, y),
        }
    }

    /// The stored place of a displayed rectangle, which lies inside the image.
    pub(super) fn stored_rect(self, rect: Rect, size: (u32, u32)) -> Rect {
        let (ax, ay) = self.stored((rect.x, rect.y), size);
        let opposite = (rect.x + rect.width - 1, rect.y + rect.height - 1);
        let (bx, by) = self.stored(opposite, size);
        Rect {
            x: ax.min(bx),
            y: ay.min(by),
            width: ax.abs_diff(bx) + 1,
            height: ay.abs_diff(by) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use image::{DynamicImage, GrayImage};

    use super::*;

    #[test]
    fn the_same_as_turning_the_pixels() {
        let (width, height) = (3, 2);
        let stored = GrayImage::from_raw(width, height, vec![1, 2, 3, 4, 5, 6]).unwrap();
        for way in 1..=8 {
            let mut turned = DynamicImage::ImageLuma8(stored.clone());
            turned.apply_orientation(Exif::from_exif(way).unwrap());
            let turned = turned.into_luma8();
            let orientation = Orientation(way);
            assert_eq!(
                orientation.displayed((width, height)),
                turned.dimensions(),
                "{way}"
            );
            for (x, y, pixel) in turned.enumerate_pixels() {
                let (sx, sy) = orientation.stored((x, y), (width, height));
                assert_eq!(stored.get_pixel(sx, sy), pixel, "{way} {x},{y}");
            }
        }
    }

    #[test]
    fn rectangles_turn_with_their_pixels() {
        let size = (7, 5);
        for way in 1..=8 {
            let orientation = Orientation(way);
            let (width, height) = orientation.displayed(size);
            let shown = Rect {
                x: width - 3,
                y: height - 4,
                width: 2,
                height: 3,
            };
            let rect = orientation.stored_rect(shown, size);
            for y in shown.y..shown.y + shown.height {
                for x in shown.x..shown.x + shown.width {
                    let (sx, sy) = orientation.stored((x, y), size);
                    assert!(
                        (rect.x..rect.x + rect.width).contains(&sx)
                            && (rect.y..rect.y + rect.height).contains(&sy)
                    );
                }
            }
            assert_eq!(rect.width * rect.height, shown.width * shown.height);
        }
    }

    #[test]
    fn nonsense_means_as_stored() {
        for block in [
            &b""[..],
            b"II",
            b"II*\0\xFF\xFF\xFF\xFF",
            b"MM\0*\0\0\0\x08\xFF\xFF",
        ] {
            assert_eq!(Orientation::of_exif(block), Orientation::NORMAL);
        }
    }
}
