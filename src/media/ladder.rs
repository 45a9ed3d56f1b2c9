//! Ever smaller versions of an image, until one fits.

use tokio_util::sync::CancellationToken;

use super::encode::{Format, encode};
use super::kind::ImageKind;
use super::pixels::Pixels;

/// Lengths of the longer edge that are tried, from the largest.
const EDGES: [u32; 6] = [2000, 1000, 768, 512, 384, 256];

/// Below this, drawings and screenshots lose more by missing pixels than by compression.
const MIN_PNG_EDGE: u32 = 1000;

/// Qualities that are tried at one size.
const QUALITIES: [u8; 4] = [80, 60, 40, 20];

/// One version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    edge: u32,
    format: Format,
}

/// A version that was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) kind: ImageKind,
    pub(super) bytes: Vec<u8>,
    pub(super) size: (u32, u32),
}

impl Version {
    /// Writes pixels; `None` where that takes more than `max_bytes`.
    pub(super) fn write(pixels: &Pixels, format: Format, max_bytes: usize) -> Option<Self> {
        encode(pixels, format, max_bytes).map(|bytes| Self {
            kind: format.kind(),
            bytes,
            size: (pixels.width, pixels.height),
        })
    }
}

/// Why there is no version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// None is small enough.
    TooLarge,
    /// Nobody waits any more.
    Cancelled,
    /// One clause.
    Failed(String),
}

/// The first version with at most `max_bytes`, from pixels that have the largest size allowed.
pub(super) fn descend(
    mut pixels: Pixels,
    kind: ImageKind,
    max_bytes: usize,
    cancel: &CancellationToken,
) -> Result<Version, Stop> {
    for step in steps(kind, pixels.edge()) {
        if cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        pixels = pixels.fitted(step.edge).map_err(Stop::Failed)?;
        if let Some(version) = Version::write(&pixels, step.format, max_bytes) {
            return Ok(version);
        }
    }
    Err(Stop::TooLarge)
}

/// The versions to try, best first.
///
/// Drawings and screenshots stay free of loss as long as they fit; photographs lose quality before they lose pixels.
fn steps(kind: ImageKind, edge: u32) -> Vec<Step> {
    let smaller = |than: u32| EDGES.into_iter().filter(move |edge| *edge < than);
    let mut steps = Vec::new();
    let mut jpeg_at = edge;
    if kind != ImageKind::Jpeg {
        let png_edges = smaller(edge).take_while(|edge| *edge >= MIN_PNG_EDGE);
        for edge in std::iter::once(edge).chain(png_edges) {
            steps.push(Step {
                edge,
                format: Format::Png,
            });
            jpeg_at = edge;
        }
    }
    for edge in std::iter::once(jpeg_at).chain(smaller(jpeg_at)) {
        steps.extend(QUALITIES.map(|quality| Step {
            edge,
            format: Format::Jpeg(quality),
        }));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::pixels::Channels;

    /// `2000p 1000p 1000j …`: edges and formats, qualities left out.
    fn shown(kind: ImageKind, edge: u32) -> String {
        let mut shown: Vec<String> = steps(kind, edge)
            .iter()
            .map(|step| match step.format {
                Format::Png => format!("{}p", step.edge),
                Format::Jpeg(_) => format!("{}j", step.edge),
            })
            .collect();
        shown.dedup();
        shown.join(" ")
    }

    #[test]
    fn the_way_down() {
        for (kind, edge, expected) in [
            (
                ImageKind::Png,
                2000,
                "2000p 1000p 1000j 768j 512j 384j 256j",
            ),
            (
                ImageKind::Webp,
                3000,
                "3000p 2000p 1000p 1000j 768j 512j 384j 256j",
            ),
            (ImageKind::Png, 900, "900p 900j 768j 512j 384j 256j"),
            (ImageKind::Png, 100, "100p 100j"),
            (ImageKind::Jpeg, 2000, "2000j 1000j 768j 512j 384j 256j"),
            (ImageKind::Jpeg, 300, "300j 256j"),
        ] {
            assert_eq!(shown(kind, edge), expected);
        }
        let qualities: Vec<Format> = steps(ImageKind::Jpeg, 200)
            .iter()
            .map(|step| step.format)
            .collect();
        assert_eq!(qualities, QUALITIES.map(Format::Jpeg));
    }

    #[test]
    fn nothing_more_is_tried_after_a_cancel() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let pixels = Pixels {
            width: 4,
            height: 4,
            channels: Channels::Gray,
            data: vec![0; 16],
        };
        assert_eq!(
            descend(pixels.clone(), ImageKind::Png, 1000, &cancel),
            Err(Stop::Cancelled)
        );
        let free = CancellationToken::new();
        assert_eq!(
            descend(pixels, ImageKind::Png, 10, &free),
            Err(Stop::TooLarge)
        );
    }
}
