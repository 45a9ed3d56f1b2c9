//! How a file that can't be shown becomes one that can, by the tools of the system commands run on.

use std::path::{Path, PathBuf};

use crate::media::kind::{ImageKind, Kind};

/// One sentence with a command that converts an image or a document. `os` is named as in `std::env::consts::OS`.
pub(super) fn hint(kind: Kind, path: &Path, os: &str) -> String {
    let source = quoted(&path.to_string_lossy(), os);
    let png = quoted(&png_beside(path).to_string_lossy(), os);
    let command = match (kind, os) {
        (Kind::Pdf, _) => {
            let pages = quoted(&path.with_extension("").to_string_lossy(), os);
            return format!(
                "read its text with `pdftotext {source} -`, or make images of its pages with `pdftoppm -png -r 100 {source} \
                 {pages}` and look at those."
            );
        }
        (_, "macos") => format!("sips -s format png {source} --out {png}"),
        (Kind::Image(ImageKind::Heic | ImageKind::Avif), "linux") => {
            format!("heif-convert {source} {png}")
        }
        // These may hold several images; the first is the one meant.
        (Kind::Image(ImageKind::Tiff | ImageKind::Ico), _) => {
            let first = quoted(&format!("{}[0]", path.to_string_lossy()), os);
            format!("magick {first} {png}")
        }
        _ => format!("magick {source} {png}"),
    };
    let older = if command.starts_with("magick") && os == "linux" {
        " (`convert` instead of `magick` before ImageMagick 7)"
    } else {
        ""
    };
    format!("convert it with `{command}`{older} and look at the PNG.")
}

/// One sentence with a command that takes frames out of a video.
pub(super) fn frames(path: &Path, os: &str) -> String {
    let source = quoted(&path.to_string_lossy(), os);
    let stem = path.with_extension("").to_string_lossy().replace('%', "%%");
    let target = quoted(&format!("{stem}-%03d.png"), os);
    format!("Take frames out of it with `ffmpeg -i {source} -vf fps=1 {target}` and look at those.")
}

/// A name for the converted image: never that of the original, whose name may lie.
fn png_beside(path: &Path) -> PathBuf {
    let png = path.with_extension("png");
    if png == path {
        path.with_extension("converted.png")
    } else {
        png
    }
}

fn quoted(text: &str, os: &str) -> String {
    if os == "windows" {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_by_format_and_system() {
        let image = Kind::Image;
        for (kind, path, os, part) in [
            (
                image(ImageKind::Avif),
                "/a b.png",
                "linux",
                "`heif-convert '/a b.png' '/a b.converted.png'`",
            ),
            (
                image(ImageKind::Heic),
                "/a.heic",
                "macos",
                "`sips -s format png '/a.heic' --out '/a.png'`",
            ),
            (
                image(ImageKind::Heic),
                "/a.heic",
                "windows",
                "`magick \"/a.heic\" \"/a.png\"`",
            ),
            (
                image(ImageKind::Bmp),
                "/it's.bmp",
                "linux",
                r"`magick '/it'\''s.bmp' '/it'\''s.png'` (`convert`",
            ),
            (
                image(ImageKind::Tiff),
                "/a.tif",
                "linux",
                "`magick '/a.tif[0]' '/a.png'`",
            ),
            (
                Kind::Pdf,
                "/a.pdf",
                "linux",
                "`pdftoppm -png -r 100 '/a.pdf' '/a'`",
            ),
        ] {
            let hint = hint(kind, Path::new(path), os);
            assert!(hint.contains(part), "{hint}");
        }
        let frames = frames(Path::new("/50%.mp4"), "linux");
        assert!(
            frames.contains("'/50%.mp4' -vf fps=1 '/50%%-%03d.png'"),
            "{frames}"
        );
    }
}
