//! What a file is, by its first bytes.

use std::path::Path;

/// How many bytes from the beginning of a file decide what it is.
pub const SNIFF_BYTES: usize = 512;

/// Something that is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An image.
    Image(ImageKind),
    /// A video.
    Video(VideoKind),
    /// A PDF document.
    Pdf,
}

/// Formats of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
    /// Windows bitmap.
    Bmp,
    /// TIFF.
    Tiff,
    /// Windows icon.
    Ico,
    /// AVIF.
    Avif,
    /// HEIC and HEIF.
    Heic,
}

/// Formats of videos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoKind {
    /// MP4 and M4V.
    Mp4,
    /// QuickTime.
    Quicktime,
    /// 3GPP.
    ThreeGp,
    /// Matroska.
    Matroska,
    /// WebM.
    Webm,
    /// AVI.
    Avi,
    /// Flash video.
    Flv,
    /// Windows Media.
    Asf,
    /// MPEG-1 and MPEG-2.
    Mpeg,
}

/// What names promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An image.
    Image,
    /// A video.
    Video,
}

/// What a file is to somebody who wants to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Media of this kind.
    Media(Kind),
    /// Text, as far as the beginning tells.
    Text,
    /// Neither.
    Unknown,
}

/// What a file is to somebody who wants to read it as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsText {
    /// It is media of this kind.
    Media(Kind),
    /// Its name promises media and its bytes are not that.
    Misnamed(Family),
    /// Nothing speaks against text; its bytes decide.
    Open,
}

impl Kind {
    /// With its article, for messages: `a PNG image`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Image(image) => image.describe(),
            Self::Video(_) => "a video",
            Self::Pdf => "a PDF document",
        }
    }

    /// Canonical MIME type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Image(image) => image.mime(),
            Self::Video(video) => video.mime(),
            Self::Pdf => "application/pdf",
        }
    }

    fn family(self) -> Option<Family> {
        match self {
            Self::Image(_) => Some(Family::Image),
            Self::Video(_) => Some(Family::Video),
            Self::Pdf => None,
        }
    }
}

impl Family {
    /// With its article, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Image => "an image",
            Self::Video => "a video",
        }
    }
}

impl ImageKind {
    /// Canonical MIME type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
            Self::Ico => "image/vnd.microsoft.icon",
            Self::Avif => "image/avif",
            Self::Heic => "image/heic",
        }
    }

    /// With its article, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Png => "a PNG image",
            Self::Jpeg => "a JPEG image",
            Self::Gif => "a GIF image",
            Self::Webp => "a WebP image",
            Self::Bmp => "a BMP image",
            Self::Tiff => "a TIFF image",
            Self::Ico => "an icon",
            Self::Avif => "an AVIF image",
            Self::Heic => "a HEIC image",
        }
    }

    /// True for the formats every provider takes. Any other in a history makes each later request fail.
    pub fn is_sendable(self) -> bool {
        matches!(self, Self::Png | Self::Jpeg | Self::Gif | Self::Webp)
    }
}

impl VideoKind {
    /// Canonical MIME type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Mp4 => "video/mp4",
            Self::Quicktime => "video/quicktime",
            Self::ThreeGp => "video/3gpp",
            Self::Matroska => "video/x-matroska",
            Self::Webm => "video/webm",
            Self::Avi => "video/x-msvideo",
            Self::Flv => "video/x-flv",
            Self::Asf => "video/x-ms-wmv",
            Self::Mpeg => "video/mpeg",
        }
    }
}

/// What bytes are; `None` where they are nothing known here. [`SNIFF_BYTES`] are enough.
pub fn sniff(head: &[u8]) -> Option<Kind> {
    let image = |kind| Some(Kind::Image(kind));
    let video = |kind| Some(Kind::Video(kind));
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => image(ImageKind::Png),
        [0xFF, 0xD8, 0xFF, ..] => image(ImageKind::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => image(ImageKind::Gif),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => image(ImageKind::Tiff),
        [0, 0, 1, 0, n, 0, ..] if *n > 0 => image(ImageKind::Ico),
        [b'B', b'M', ..] if is_bitmap(head) => image(ImageKind::Bmp),
        [b'R', b'I', b'F', b'F', _, _, _, _, form @ ..] => match form {
            [b'W', b'E', b'B', b'P', ..] => image(ImageKind::Webp),
            [b'A', b'V', b'I', b' ', ..] => video(VideoKind::Avi),
            _ => None,
        },
        [b'F', b'L', b'V', 1, ..] => video(VideoKind::Flv),
        [0x30, 0x26, 0xB2, 0x75, 0x8E, 0x66, 0xCF, 0x11, ..] => video(VideoKind::Asf),
        [0x1A, 0x45, 0xDF, 0xA3, rest @ ..] => {
            let names = |name: &[u8]| memchr::memmem::find(rest, name).is_some();
            if names(b"webm") {
                video(VideoKind::Webm)
            } else if names(b"matroska") {
                video(VideoKind::Matroska)
            } else {
                None
            }
        }
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => brand.get(..4).and_then(by_brand),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some(Kind::Pdf),
        _ => None,
    }
}

/// What a file is to somebody who wants to see it. Bytes win; a name counts only for videos, whose formats are many.
pub fn seen(head: &[u8], path: &Path) -> Seen {
    if let Some(kind) = sniff(head) {
        return Seen::Media(kind);
    }
    match promised(path) {
        Some((Family::Image, _)) => Seen::Unknown,
        Some((Family::Video, kind)) => kind.map_or(Seen::Unknown, |kind| {
            if is_text(head) {
                Seen::Text
            } else {
                Seen::Media(Kind::Video(kind))
            }
        }),
        None if is_text(head) => Seen::Text,
        None => Seen::Unknown,
    }
}

/// What a file is to somebody who wants to read it as text.
///
/// Beyond what is known to be media, content beats the name: `.key`, `.bin` or `.db` say nothing.
pub fn as_text(head: &[u8], path: &Path) -> AsText {
    let promised = promised(path).map(|(family, _)| family);
    match (sniff(head), promised) {
        (Some(kind), Some(family)) if kind.family() != Some(family) => AsText::Misnamed(family),
        (Some(kind), _) => AsText::Media(kind),
        (None, Some(family)) => AsText::Misnamed(family),
        (None, None) => AsText::Open,
    }
}

/// A bitmap begins with two letters that a text may begin with as well, so its header has to hold together.
fn is_bitmap(head: &[u8]) -> bool {
    let Some(fields) = head.get(6..18) else {
        return false;
    };
    let number = |at: usize| {
        u32::from_le_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]])
    };
    let (reserved, offset, header) = (number(0), number(4), number(8));
    reserved == 0
        && (14..1 << 20).contains(&offset)
        && matches!(header, 12 | 40 | 52 | 56 | 64 | 108 | 124)
}

fn by_brand(brand: &[u8]) -> Option<Kind> {
    Some(match brand {
        b"avif" | b"avis" => Kind::Image(ImageKind::Avif),
        b"heic" | b"heif" | b"heix" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => {
            Kind::Image(ImageKind::Heic)
        }
        b"isom" | b"iso2" | b"iso3" | b"iso4" | b"iso5" | b"iso6" | b"mp41" | b"mp42" | b"avc1"
        | b"mp4v" | b"m4v " | b"M4V " => Kind::Video(VideoKind::Mp4),
        b"qt  " => Kind::Video(VideoKind::Quicktime),
        [b'3', b'g', b'p', b'4'..=b'7'] | b"3g2a" | b"3g2b" | b"3g2c" => {
            Kind::Video(VideoKind::ThreeGp)
        }
        _ => return None,
    })
}

/// What a name promises. `.ts` and `.mts` are TypeScript here, `.svg` is text.
fn promised(path: &Path) -> Option<(Family, Option<VideoKind>)> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let video = |kind| Some((Family::Video, Some(kind)));
    match extension.as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" | "bmp" | "tif" | "tiff" | "ico" | "avif"
        | "heic" | "heif" => Some((Family::Image, None)),
        "mp4" | "m4v" => video(VideoKind::Mp4),
        "mov" => video(VideoKind::Quicktime),
        "3gp" | "3g2" => video(VideoKind::ThreeGp),
        "mkv" => video(VideoKind::Matroska),
        "webm" => video(VideoKind::Webm),
        "avi" => video(VideoKind::Avi),
        "flv" => video(VideoKind::Flv),
        "wmv" | "asf" => video(VideoKind::Asf),
        "mpg" | "mpeg" => video(VideoKind::Mpeg),
        _ => None,
    }
}

/// Whether the beginning of a file can be text: UTF-16 by its mark, or UTF-8 without zero bytes, cut anywhere.
fn is_text(head: &[u8]) -> bool {
    if matches!(head, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) {
        return true;
    }
    if head.contains(&0) {
        return false;
    }
    match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character cut by the end of the sample.
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ftyp(brand: [u8; 4]) -> Vec<u8> {
        [&b"\0\0\0\x18ftyp"[..], &brand, b"\0\0\0\0"].concat()
    }

    fn mime(head: &[u8]) -> Option<&'static str> {
        sniff(head).map(Kind::mime)
    }

    #[test]
    fn bytes_tell() {
        let bitmap = b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0";
        let cases: [(&[u8], Option<&str>); 24] = [
            (b"\x89PNG\r\n\x1a\n", Some("image/png")),
            (b"\x89PNG\n", None),
            (b"\xFF\xD8\xFF\xE0", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a", Some("image/gif")),
            (b"GIF88a", None),
            (bitmap, Some("image/bmp")),
            (b"BMW builds cars, and motorcycles.", None),
            (b"II*\0\x08", Some("image/tiff")),
            (b"MM\0*\0", Some("image/tiff")),
            (b"\0\0\x01\0\x02\0", Some("image/vnd.microsoft.icon")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0AVI LIST", Some("video/x-msvideo")),
            (b"RIFF\x10\0\0\0WAVEfmt ", None),
            (b"FLV\x01\x05", Some("video/x-flv")),
            (b"FLV files are old", None),
            (
                b"\x30\x26\xB2\x75\x8E\x66\xCF\x11\xA6",
                Some("video/x-ms-wmv"),
            ),
            (b"\x1A\x45\xDF\xA3\x93\x42\x82\x84webm", Some("video/webm")),
            (
                b"\x1A\x45\xDF\xA3\x93\x42\x82\x88matroska",
                Some("video/x-matroska"),
            ),
            (b"\x1A\x45\xDF\xA3\x93", None),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"%PDX", None),
            (b"", None),
            (b"hello", None),
        ];
        for (head, expected) in cases {
            assert_eq!(mime(head), expected, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn brands_tell() {
        for (brands, expected) in [
            (&["avif", "avis"][..], Some("image/avif")),
            (
                &["heic", "heif", "heix", "hevc", "mif1", "msf1"],
                Some("image/heic"),
            ),
            (
                &[
                    "isom", "iso2", "iso5", "mp41", "mp42", "avc1", "mp4v", "m4v ",
                ],
                Some("video/mp4"),
            ),
            (&["qt  "], Some("video/quicktime")),
            (
                &["3gp4", "3gp5", "3gp6", "3gp7", "3g2a"],
                Some("video/3gpp"),
            ),
            // Sound, and what is unknown.
            (&["M4A ", "xxxx"], None),
        ] {
            for brand in brands {
                let bytes: [u8; 4] = brand.as_bytes().try_into().unwrap();
                assert_eq!(mime(&ftyp(bytes)), expected, "{brand}");
            }
        }
        assert_eq!(mime(b"\0\0\0\x18ftypav"), None, "cut");
    }

    #[test]
    fn to_see() {
        let png = Seen::Media(Kind::Image(ImageKind::Png));
        let video = Seen::Media(Kind::Video(VideoKind::Mp4));
        let cases: [(&[u8], &str, Seen); 12] = [
            (b"\x89PNG\r\n\x1a\n", "notes.txt", png),
            (b"\x89PNG\r\n\x1a\n", "x.mp4", png),
            (b"hello", "x.png", Seen::Unknown),
            (b"\0\x01binary", "x.png", Seen::Unknown),
            (b"\0\x01binary", "x.mp4", video),
            (b"hello", "x.mp4", Seen::Text),
            (b"hello", "x.ts", Seen::Text),
            (b"\0\x01", "x.mts", Seen::Unknown),
            (b"<svg/>", "x.svg", Seen::Text),
            (b"\xFF\xFEa\0", "x", Seen::Text),
            (b"caf\xC3", "x.txt", Seen::Text),
            (b"\xC3(", "x.txt", Seen::Unknown),
        ];
        for (head, name, expected) in cases {
            assert_eq!(
                seen(head, Path::new(name)),
                expected,
                "{name} {}",
                head.escape_ascii()
            );
        }
        assert_eq!(seen(b"\0", Path::new(".mp4")), Seen::Unknown);
    }

    #[test]
    fn to_read() {
        let png = AsText::Media(Kind::Image(ImageKind::Png));
        let cases: [(&[u8], &str, AsText); 9] = [
            (b"\x89PNG\r\n\x1a\n", "notes.txt", png),
            (b"\x89PNG\r\n\x1a\n", "x.PNG", png),
            (
                b"\x89PNG\r\n\x1a\n",
                "x.mov",
                AsText::Misnamed(Family::Video),
            ),
            (b"hello", "x.png", AsText::Misnamed(Family::Image)),
            (b"hello", "x.key", AsText::Open),
            (b"hello", "x.ts", AsText::Open),
            (b"<svg/>", "x.svg", AsText::Open),
            (b"\0", ".png", AsText::Open),
            (b"%PDF-1.4", "x.pdf", AsText::Media(Kind::Pdf)),
        ];
        for (head, name, expected) in cases {
            assert_eq!(as_text(head, Path::new(name)), expected, "{name}");
        }
    }
}
