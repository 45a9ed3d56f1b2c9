//! The gate for images that come from outside as text: a host's prompt, another server's result.
//!
//! What passes is an image every provider takes, within bounds. What does not is [`Refused`], to be told in its place: an
//! image that a provider rejects would make each later request of its conversation fail.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::deliver::{Delivered, Room, Undelivered, Wish, deliver};
use super::kind::{ImageKind, Kind, SNIFF_BYTES, sniff};
use super::pool::ImagePool;
use crate::os::blocking;

/// An image that passed.
#[derive(Debug)]
pub struct Admitted {
    /// What is shown to the model.
    pub image: Delivered,
    /// What came.
    pub original: Original,
}

/// An image as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// What it is, by its bytes.
    pub kind: Option<Kind>,
    /// The file.
    pub bytes: Bytes,
}

/// An image that did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There are no bytes to look at.
    #[error("its data is not base64")]
    NotBase64,
    /// The bytes are something else.
    #[error("it is {}", .0.kind.map_or("of no known format", Kind::describe))]
    NotSendable(Original),
    /// It can't be made to fit, or is broken.
    #[error("{why}")]
    Undelivered {
        /// Why.
        why: Undelivered,
        /// What came.
        original: Original,
    },
    /// Nobody waits for it any more.
    #[error("the turn was cancelled before it was looked at")]
    Cancelled,
}

impl Refused {
    /// What came, where it was anything.
    pub fn original(&self) -> Option<&Original> {
        match self {
            Self::NotSendable(original) | Self::Undelivered { original, .. } => Some(original),
            Self::NotBase64 | Self::Cancelled => None,
        }
    }
}

/// Looks at the whole of a base64 text and tells which image it is, without keeping its bytes.
///
/// # Errors
/// It is not base64, or not the beginning of an image every provider takes: one clause.
pub fn check(data: &str) -> Result<ImageKind, &'static str> {
    let data = payload(data).ok_or("its data is not base64")?.as_bytes();
    // Whole groups of four characters are decoded by themselves.
    let mut head = Vec::new();
    for (n, group) in data.chunks(SNIFF_BYTES / 3 * 4).enumerate() {
        let bytes = STANDARD
            .decode(group)
            .map_err(|_| "its data is not base64")?;
        if n == 0 {
            head = bytes;
        }
    }
    match sniff(&head) {
        Some(Kind::Image(kind)) if kind.is_sendable() => Ok(kind),
        _ => Err("it is no PNG, JPEG, GIF or WebP image"),
    }
}

/// Takes an image in: base64, or a `data:` URL of it. Its own bytes decide what it is.
///
/// # Errors
/// It must not reach a provider.
pub async fn admit(
    pool: &ImagePool,
    data: String,
    room: Room,
    cancel: &CancellationToken,
) -> Result<Admitted, Refused> {
    let decoded = blocking::run(move || payload(&data).and_then(|data| STANDARD.decode(data).ok()));
    let bytes: Bytes = match cancel.run_until_cancelled(decoded).await {
        None => return Err(Refused::Cancelled),
        Some(None) => return Err(Refused::NotBase64),
        Some(Some(bytes)) => bytes.into(),
    };
    let original = Original {
        kind: sniff(&bytes),
        bytes: bytes.clone(),
    };
    let Some(Kind::Image(kind)) = original.kind else {
        return Err(Refused::NotSendable(original));
    };
    if !kind.is_sendable() {
        return Err(Refused::NotSendable(original));
    }
    match deliver(pool, bytes, Wish::Fit(room), cancel).await {
        Ok(image) => Ok(Admitted { image, original }),
        Err(Undelivered::Cancelled) => Err(Refused::Cancelled),
        Err(why) => Err(Refused::Undelivered { why, original }),
    }
}

/// The base64 of a text that is that, or a `data:` URL.
fn payload(data: &str) -> Option<&str> {
    let Some(url) = data.strip_prefix("data:") else {
        return Some(data);
    };
    let (about, payload) = url.split_once(',')?;
    about.ends_with(";base64").then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::super::deliver::How;
    use super::super::testing::{gradient, noise, png, promising_png};
    use super::*;

    const ROOM: Room = Room {
        edge: 100,
        bytes: 50_000,
    };

    async fn admitted(data: &str) -> Result<Admitted, Refused> {
        let cancel = CancellationToken::new();
        admit(&ImagePool::default(), data.to_owned(), ROOM, &cancel).await
    }

    #[tokio::test]
    async fn images_pass_whatever_they_are_called() {
        let bytes = png(&noise(20, 10));
        let data = STANDARD.encode(&bytes);
        for data in [
            data.clone(),
            format!("data:image/jpg;charset=x;base64,{data}"),
        ] {
            assert_eq!(check(&data), Ok(ImageKind::Png));
            let admitted = admitted(&data).await.unwrap();
            assert_eq!(
                (admitted.image.how, &admitted.image.bytes[..]),
                (How::Untouched, &bytes[..])
            );
            assert_eq!(admitted.image.kind.mime(), "image/png");
        }
        let large = png(&gradient(200, 100));
        let admitted = admitted(&STANDARD.encode(&large)).await.unwrap();
        assert_eq!(
            (admitted.image.how, admitted.image.size),
            (How::Scaled, (100, 50))
        );
        assert_eq!(admitted.original.bytes, large);
    }

    #[tokio::test]
    async fn what_must_not_pass_does_not() {
        let bomb = promising_png(30_000, 30_000, b"x");
        let cut = &png(&noise(20, 10))[..60];
        let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
        for (data, passes_check, words) in [
            ("!!".to_owned(), false, "not base64"),
            ("data:image/png,aGk=".to_owned(), false, "not base64"),
            ("data:image/png;base64".to_owned(), false, "not base64"),
            (String::new(), false, "of no known format"),
            (encoded(b"hello"), false, "of no known format"),
            (encoded(b"%PDF-1.7"), false, "a PDF document"),
            (encoded(b"II*\0"), false, "a TIFF image"),
            (encoded(&bomb), true, "30000 × 30000 pixels"),
            (encoded(cut), true, "it ends in the middle"),
        ] {
            assert_eq!(check(&data).is_ok(), passes_check, "{words}");
            let refused = admitted(&data).await.unwrap_err();
            assert!(refused.to_string().contains(words), "{refused}");
            assert_eq!(refused.original().is_some(), words != "not base64");
        }
        let mut late = encoded(&png(&noise(60, 60)));
        late.replace_range(3000..3001, "!");
        assert!(check(&late).is_err());
    }

    #[tokio::test]
    async fn nothing_is_looked_at_after_a_cancel() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let data = STANDARD.encode(png(&noise(20, 10)));
        let refused = admit(&ImagePool::default(), data, ROOM, &cancel).await;
        assert!(matches!(refused, Err(Refused::Cancelled)));
    }
}
