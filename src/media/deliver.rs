//! The rules by which an image reaches a model: as it is, made smaller, cropped, or not at all.

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::encode::Format;
use super::header::{Broken, Header};
use super::kind::ImageKind;
use super::ladder::{Stop, Version, descend};
pub use super::orientation::Rect;
use super::pixels::Pixels;
use super::pool::ImagePool;
use crate::kernel::limits::{
    IMAGE_BYTES, IMAGE_DECODE_BYTES, IMAGE_DECODE_INPUT_BYTES, IMAGE_FULL_EDGE, IMAGE_PIXELS,
};

/// Quality of crops of photographs that are asked for in full.
const FULL_QUALITY: u8 = 90;

/// How large an image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Pixels of the longer edge.
    pub edge: u32,
    /// Bytes of the file.
    pub bytes: usize,
}

/// What is wanted of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// All of it, made to fit.
    Fit(Room),
    /// A part of it, in pixels of the image as displayed; made to fit this edge, or as it is.
    Crop {
        /// The part; what lies outside of the image is cut off.
        rect: Rect,
        /// `None` for every pixel there is.
        edge: Option<u32>,
    },
    /// All of it as it is.
    Full,
}

/// An image for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its format.
    pub kind: ImageKind,
    /// The file.
    pub bytes: Bytes,
    /// Width and height of what it shows, in pixels.
    pub size: (u32, u32),
    /// The size of the whole original as displayed.
    pub original: (u32, u32),
    /// What was done.
    pub how: How,
}

/// What was done to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing.
    Untouched,
    /// It was made smaller, in pixels or bytes.
    Scaled,
    /// This part of the original was cut out, and perhaps made smaller.
    Cropped(Rect),
}

/// Why an image is not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// Nobody can show it.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// Its header was fine, its pixels were not.
    #[error("{0}")]
    Undecodable(String),
    /// It moves, so it is passed on as it is or not at all.
    #[error("it is a GIF or an animation, which can't be scaled down or cropped here")]
    Moves,
    /// Decoding it would take too much.
    #[error("it has {} × {} pixels, more than is decoded here", .0.0, .0.1)]
    TooManyPixels((u32, u32)),
    /// The file is too large to be decoded.
    #[error("it has {0} bytes; images are decoded up to {IMAGE_DECODE_INPUT_BYTES}")]
    TooManyBytes(usize),
    /// The part that was asked for lies outside.
    #[error("it has {} × {} pixels, and the region lies outside of them", .0.0, .0.1)]
    Outside((u32, u32)),
    /// It is too large as it is, and nothing smaller was wanted or could be made.
    #[error("it can't be made small enough")]
    TooLarge,
    /// Nobody waits for it any more.
    #[error("it was cancelled")]
    Cancelled,
}

impl Header {
    /// Whether it fits as it is.
    pub fn fits(&self, n_bytes: usize, room: Room) -> bool {
        n_bytes <= room.bytes && self.edge() <= room.edge
    }
}

/// Delivers an image, from the bytes of its whole file.
///
/// # Errors
/// It can't be delivered. No memory is taken for pixels unless header, number of pixels and room allow it.
pub async fn deliver(
    pool: &ImagePool,
    bytes: Bytes,
    wish: Wish,
    cancel: &CancellationToken,
) -> Result<Delivered, Undelivered> {
    let header = Header::read(&bytes)?;
    match wish {
        Wish::Fit(room) if header.fits(bytes.len(), room) => Ok(untouched(header, bytes)),
        Wish::Full => {
            let room = Room {
                edge: IMAGE_FULL_EDGE,
                bytes: IMAGE_BYTES,
            };
            if header.fits(bytes.len(), room) {
                Ok(untouched(header, bytes))
            } else {
                Err(Undelivered::TooLarge)
            }
        }
        Wish::Fit(room) => {
            let whole = Rect {
                x: 0,
                y: 0,
                width: header.size.0,
                height: header.size.1,
            };
            let job = Job {
                header,
                rect: whole,
                edge: Some(room.edge),
                max_bytes: room.bytes,
            };
            job.run(pool, bytes, How::Scaled, cancel).await
        }
        Wish::Crop { rect, edge } => {
            let rect = inside(rect, header.size).ok_or(Undelivered::Outside(header.size))?;
            let job = Job {
                header,
                rect,
                edge,
                max_bytes: IMAGE_BYTES,
            };
            job.run(pool, bytes, How::Cropped(rect), cancel).await
        }
    }
}

fn untouched(header: Header, bytes: Bytes) -> Delivered {
    Delivered {
        kind: header.kind,
        bytes,
        size: header.size,
        original: header.size,
        how: How::Untouched,
    }
}

/// What of a rectangle lies in an image; `None` where its corner does not.
fn inside(rect: Rect, (width, height): (u32, u32)) -> Option<Rect> {
    let is_inside = rect.x < width && rect.y < height && rect.width > 0 && rect.height > 0;
    is_inside.then(|| Rect {
        width: rect.width.min(width - rect.x),
        height: rect.height.min(height - rect.y),
        ..rect
    })
}

/// A decode, and what follows.
struct Job {
    header: Header,
    /// The part that is shown, as displayed.
    rect: Rect,
    /// The longer edge it is made to fit; `None` for as it is.
    edge: Option<u32>,
    max_bytes: usize,
}

impl Job {
    async fn run(
        self,
        pool: &ImagePool,
        bytes: Bytes,
        how: How,
        cancel: &CancellationToken,
    ) -> Result<Delivered, Undelivered> {
        if !self.header.can_be_scaled() {
            return Err(Undelivered::Moves);
        }
        if bytes.len() > IMAGE_DECODE_INPUT_BYTES {
            return Err(Undelivered::TooManyBytes(bytes.len()));
        }
        let too_many = Undelivered::TooManyPixels(self.header.size);
        if self.header.n_pixels() > IMAGE_PIXELS {
            return Err(too_many);
        }
        let n_bytes = self.memory(bytes.len());
        if n_bytes > IMAGE_DECODE_BYTES {
            return Err(too_many);
        }
        let original = self.header.size;
        let stop = cancel.clone();
        let made = pool
            .run(n_bytes, cancel, move || self.make(&bytes, &stop))
            .await
            .unwrap_or(Err(Undelivered::Cancelled));
        let Version { kind, bytes, size } = made?;
        Ok(Delivered {
            kind,
            bytes: bytes.into(),
            size,
            original,
            how,
        })
    }

    /// Memory it takes at most: the pixels, and what they become on the way to the new size.
    fn memory(&self, n_bytes: usize) -> u64 {
        let pixels = self.header.n_pixels() * self.header.bytes_per_pixel;
        // The decoder of this format copies the file.
        let file = if self.header.kind == ImageKind::Jpeg {
            n_bytes as u64
        } else {
            0
        };
        let edge = u64::from(self.edge.unwrap_or(self.rect.width.max(self.rect.height)));
        let area = u64::from(self.rect.width) * u64::from(self.rect.height);
        // Scaling goes by rows first, turning and flattening make a copy.
        let between = (edge * u64::from(self.rect.width.max(self.rect.height))).min(area);
        file + pixels + 4 * between
    }

    fn make(&self, bytes: &[u8], cancel: &CancellationToken) -> Result<Version, Undelivered> {
        let Header {
            kind,
            orientation,
            stored,
            ..
        } = self.header;
        let mut pixels =
            Pixels::decode(kind, bytes, IMAGE_DECODE_BYTES).map_err(Undelivered::Undecodable)?;
        if (pixels.width, pixels.height) != stored {
            let wrong = "its pixels are not as many as its header says";
            return Err(Undelivered::Undecodable(wrong.to_owned()));
        }
        if cancel.is_cancelled() {
            return Err(Undelivered::Cancelled);
        }
        pixels.crop(orientation.stored_rect(self.rect, stored));
        pixels.simplify();
        let Some(edge) = self.edge else {
            let pixels = pixels.turned(orientation);
            return self.as_it_is(&pixels);
        };
        let pixels = pixels
            .fitted(edge)
            .map_err(Undelivered::Undecodable)?
            .turned(orientation);
        descend(pixels, kind, self.max_bytes, cancel).map_err(|stop| match stop {
            Stop::TooLarge => Undelivered::TooLarge,
            Stop::Cancelled => Undelivered::Cancelled,
            Stop::Failed(reason) => Undelivered::Undecodable(reason),
        })
    }

    /// Every pixel there is, written once.
    fn as_it_is(&self, pixels: &Pixels) -> Result<Version, Undelivered> {
        if pixels.edge() > IMAGE_FULL_EDGE {
            return Err(Undelivered::TooLarge);
        }
        let format = match self.header.kind {
            ImageKind::Jpeg => Format::Jpeg(FULL_QUALITY),
            _ => Format::Png,
        };
        Version::write(pixels, format, self.max_bytes).ok_or(Undelivered::TooLarge)
    }
}
