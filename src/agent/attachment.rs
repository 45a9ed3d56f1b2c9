//! Images that a host attached to an input: made fit for a model before the input is recorded.
//!
//! What the record holds, hosts are shown and the model gets is the same image, so a history restored from its journal
//! is the one that was sent. An image that can't be shown becomes a notice in its place; the turn goes on.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longshore_protocol::value::content::{ContentPart, ImageOriginal};
use tokio_util::sync::CancellationToken;

use crate::kernel::limits::{IMAGE_BYTES, MEDIA_KEPT_BYTES};
use crate::media::admit::{Admitted, Original, Refused, admit};
use crate::media::deliver::{How, Room};
use crate::media::kind::Kind;
use crate::media::pool::ImagePool;
use crate::os::blocking;
use crate::store::kept::KeptStore;

/// How attached images are made fit.
#[derive(Clone, Debug)]
pub struct Attachments {
    /// Where they are decoded.
    pub pool: ImagePool,
    /// The longer edge, in pixels, that they are made to fit.
    pub max_edge_px: u32,
    /// Where originals are kept.
    pub dir: PathBuf,
}

impl Attachments {
    /// The input with every image made fit or replaced by a notice. Never fails; after a cancel nothing more is looked at.
    pub(super) async fn admit(
        &self,
        input: Vec<ContentPart>,
        cancel: &CancellationToken,
    ) -> Vec<ContentPart> {
        let mut admitted = Vec::with_capacity(input.len());
        for part in input {
            admitted.push(match part {
                ContentPart::Image { data, .. } => self.image(data, cancel).await,
                other => other,
            });
        }
        admitted
    }

    async fn image(&self, data: String, cancel: &CancellationToken) -> ContentPart {
        let room = Room {
            edge: self.max_edge_px,
            bytes: IMAGE_BYTES,
        };
        match admit(&self.pool, data, room, cancel).await {
            Ok(admitted) => self.fit(admitted).await,
            Err(refused) => {
                let kept = match refused.original() {
                    Some(original) => self.keep(original).await,
                    None => None,
                };
                ContentPart::Text {
                    text: notice(&refused, kept.as_deref()),
                }
            }
        }
    }

    async fn fit(&self, Admitted { image, original }: Admitted) -> ContentPart {
        let before = match image.how {
            How::Untouched => None,
            How::Scaled | How::Cropped(_) => Some(Box::new(ImageOriginal {
                mime_type: original.kind.map_or("", Kind::mime).to_owned(),
                width: image.original.0,
                height: image.original.1,
                bytes: original.bytes.len() as u64,
                shown_width: image.size.0,
                shown_height: image.size.1,
                path: self.keep(&original).await,
            })),
        };
        ContentPart::Image {
            data: STANDARD.encode(&image.bytes),
            mime_type: image.kind.mime().to_owned(),
            original: before,
        }
    }

    /// Keeps an original; best effort, since the turn does not depend on it.
    async fn keep(&self, original: &Original) -> Option<String> {
        let kept = KeptStore::new(&self.dir, MEDIA_KEPT_BYTES);
        let bytes = original.bytes.clone();
        match blocking::run(move || kept.put(&bytes)).await {
            Ok(path) => Some(path.display().to_string()),
            Err(error) => {
                tracing::warn!(%error, "the original of an image could not be kept");
                None
            }
        }
    }
}

/// What stands in the place of an image that can't be shown.
fn notice(refused: &Refused, kept: Option<&str>) -> String {
    let what = match refused
        .original()
        .map(|original| (original.kind, original.bytes.len()))
    {
        Some((Some(kind), n_bytes)) => format!("{} of {n_bytes} bytes", kind.mime()),
        Some((None, n_bytes)) => format!("{n_bytes} bytes"),
        None => "an image".to_owned(),
    };
    let kept = kept.map_or_else(String::new, |path| {
        format!(" What was sent is kept at {path}.")
    });
    let formats = if matches!(refused, Refused::NotSendable(_)) {
        " Only PNG, JPEG, GIF and WebP images can be shown."
    } else {
        ""
    };
    format!("[Here the user attached {what}, which can't be shown: {refused}.{formats}{kept}]")
}

/// What the model is told about an image that is not the one the user sent.
pub(super) fn caption(original: &ImageOriginal, mime: &str, data: &str) -> String {
    let n_shown = data.trim_end_matches('=').len() * 3 / 4;
    let kept = original.path.as_ref().map_or_else(String::new, |path| {
        format!(" The original is kept at {path}.")
    });
    format!(
        "[The next image has {} × {} pixels ({mime}, {n_shown} bytes), scaled down from the user's original of {} × {} \
         pixels ({}, {} bytes).{kept}]",
        original.shown_width,
        original.shown_height,
        original.width,
        original.height,
        original.mime_type,
        original.bytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::testing::{gif, gradient, noise, png, promising_png};

    fn attached(bytes: &[u8]) -> ContentPart {
        ContentPart::Image {
            data: STANDARD.encode(bytes),
            mime_type: "image/x-whatever".into(),
            original: None,
        }
    }

    struct Bench {
        dir: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                dir: tempfile::tempdir().unwrap(),
            }
        }

        async fn admit(&self, part: ContentPart) -> ContentPart {
            let attachments = Attachments {
                pool: ImagePool::default(),
                max_edge_px: 100,
                dir: self.dir.path().join("media"),
            };
            let cancel = CancellationToken::new();
            attachments.admit(vec![part], &cancel).await.remove(0)
        }

        /// How many originals are kept.
        fn n_kept(&self) -> usize {
            crate::os::fs::list_dir(&self.dir.path().join("media")).map_or(0, |files| files.len())
        }
    }

    #[tokio::test]
    async fn what_fits_stays_as_it_is_under_its_real_name() {
        let bench = Bench::new();
        let bytes = png(&noise(60, 40));
        let part = bench.admit(attached(&bytes)).await;
        let expected = ContentPart::Image {
            data: STANDARD.encode(&bytes),
            mime_type: "image/png".into(),
            original: None,
        };
        assert_eq!(part, expected);
        assert_eq!(bench.n_kept(), 0);
        // A second time changes nothing.
        assert_eq!(bench.admit(part).await, expected);
    }

    #[tokio::test]
    async fn what_is_too_large_is_scaled_and_its_original_kept() {
        let bench = Bench::new();
        let bytes = png(&gradient(300, 150));
        let ContentPart::Image {
            data,
            mime_type,
            original: Some(original),
        } = bench.admit(attached(&bytes)).await
        else {
            panic!("not scaled")
        };
        assert_eq!(
            (original.width, original.height, original.bytes),
            (300, 150, bytes.len() as u64)
        );
        let path = original.path.clone().unwrap();
        assert_eq!(
            crate::os::fs::read(std::path::Path::new(&path)).unwrap(),
            bytes
        );
        let caption = caption(&original, &mime_type, &data);
        let n_shown = STANDARD.decode(&data).unwrap().len();
        for words in [
            format!("100 × 50 pixels (image/png, {n_shown} bytes)"),
            format!("300 × 150 pixels (image/png, {} bytes)", bytes.len()),
            path,
        ] {
            assert!(caption.contains(&words), "no {words:?} in {caption}");
        }
    }

    #[tokio::test]
    async fn what_can_not_be_shown_becomes_a_notice() {
        for (part, n_kept, words) in [
            (
                attached(b"hello"),
                1,
                "5 bytes, which can't be shown: it is of no known format. Only PNG",
            ),
            (attached(b"%PDF-1.7"), 1, "application/pdf of 8 bytes"),
            (
                attached(&promising_png(30_000, 30_000, b"x")),
                1,
                "30000 × 30000 pixels",
            ),
            (attached(&gif(300, 2, 2)), 1, "a GIF or an animation"),
            (
                ContentPart::Image {
                    data: "!".into(),
                    mime_type: "image/png".into(),
                    original: None,
                },
                0,
                "an image, which can't be shown: its data is not base64",
            ),
        ] {
            let bench = Bench::new();
            let ContentPart::Text { text } = bench.admit(part).await else {
                panic!("an image for {words}")
            };
            assert!(
                text.starts_with("[Here the user attached") && text.contains(words),
                "{text}"
            );
            assert_eq!(bench.n_kept(), n_kept, "{text}");
        }
    }

    #[tokio::test]
    async fn hosts_can_not_claim_an_original() {
        let bench = Bench::new();
        let bytes = png(&noise(6, 4));
        let claimed = ContentPart::Image {
            data: STANDARD.encode(&bytes),
            mime_type: "image/png".into(),
            original: Some(Box::new(ImageOriginal {
                mime_type: "image/png".into(),
                width: 1,
                height: 1,
                bytes: 1,
                shown_width: 1,
                shown_height: 1,
                path: Some("/etc/shadow".into()),
            })),
        };
        let ContentPart::Image { original: None, .. } = bench.admit(claimed).await else {
            panic!("the claim was taken over")
        };
    }
}
